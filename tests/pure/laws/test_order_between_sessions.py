"""Law 5: however sessions are mixed, once a barrier has passed the same artifacts are active and say the same.

And what holds of all that was published on the way there: tenants are apart, chains are legal.
"""

import random
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.artifact import TRANSITIONS, Artifact
from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.limits import PATTERN_DEBOUNCE_MS, SEGMENT_IDLE_MS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.topology import EPISODES, EVIDENCE
from tests.quality.remembered import both_stages
from tests.support.evidence import archive_record, gift_of, import_record, made_by
from tests.support.inprocess import artifacts_of, evidence_logs, law_five, published, run, sessions_fold
from tests.support.records import START_MS, LogRecord
from tests.support.scripts import TASK, Line, partitioned, records, show
from tests.support.sessions import interleaved, session
from tests.support.talk import said

SESSIONS = [session(number) for number in range(24)]
TALES = {
    "works": ("wish", "build", "built", "apply", "applied", "thanks"),
    "recovers": TASK,
    "fails": ("wish", "build", "built", "apply", "failed", "error", "other wish", "apply", "applied"),
    "is blamed later": (*TASK, "other wish", "apply", "applied", "blame"),
}
NAMES = "abcdefghij"
LAST_MS = 1_000_000_000

Told = dict[str, str]
"""Session → its tale."""
TOLD = st.lists(st.sampled_from(list(TALES)), min_size=5, max_size=len(NAMES)).map(
    lambda tales: dict(zip(NAMES, tales, strict=False))
)
TURNS = st.lists(st.sampled_from([*NAMES * 3, "barrier", "idle"]), max_size=60)
"""Who speaks next, or what else happens; what is left to tell when these are over comes one session after the other."""


def told_in_turns(told: Told, turns: Sequence[str]) -> list[Line]:
    left = {name: list(enumerate(TALES[tale])) for name, tale in told.items()}
    lines: list[Line] = []
    at = 0
    for turn in [*turns, *(name for name, tale in told.items() for _ in TALES[tale])]:
        at += SEGMENT_IDLE_MS if turn == "idle" else 1
        if turn in ("barrier", "idle"):
            lines.append(Line(at, "barrier" if turn == "barrier" else "tick"))
        elif left.get(turn):
            sequence, move = left[turn].pop(0)
            lines.append(Line(at, move, turn, sequence, 1_000_000 * NAMES.index(turn) + 1_000 * sequence))
    return [*lines, Line(LAST_MS, "barrier")]


def learnt(lines: list[Line], partitions: int = 1, dice: random.Random | None = None, pace_ms: int = 1) -> Any:
    return law_five(published(evidence_logs(partitioned(lines, partitions), partitions, dice, pace_ms)))


@pytest.mark.requirement("E-27", "K-07")
@given(
    told=TOLD,
    turns=TURNS,
    partitions=st.sampled_from([1, 2, 3]),
    dice=st.randoms(use_true_random=False),
    pace_ms=st.sampled_from([1, PATTERN_DEBOUNCE_MS]),
)
def test_any_interleaving_leaves_the_same_active_artifacts(
    told: Told, turns: list[str], partitions: int, dice: random.Random, pace_ms: int
) -> None:
    """Whatever barriers and pauses made the stages say on the way, and in whatever order partitions came together."""
    note(f"sessions: {told}")
    lines = told_in_turns(told, turns)
    show("events", lines)
    assert learnt(lines, partitions, dice, pace_ms) == learnt(told_in_turns(told, []))


def test_there_is_something_to_learn_from_these_sessions() -> None:
    """Or the law would hold of nothing."""
    told = dict(zip(NAMES, [*["works"] * 4, *["recovers"] * 4, "fails", "is blamed later"], strict=True))
    assert {kind for _, kind, *_ in learnt(told_in_turns(told, []))} == {"task_schema", "failure_playbook"}


HISTORIES = st.lists(
    st.lists(st.sampled_from(["said", "corrected", "withdrawn"]), min_size=1, max_size=3), min_size=6, max_size=12
)


def contributions() -> list[LogRecord]:
    told = dict(zip(NAMES, ["works", "recovers"] * 5, strict=True))
    outputs = run(sessions_fold, records(told_in_turns(told, []))).on(EVIDENCE)
    return [LogRecord(0, 0, START_MS, output.key, output.value, output.headers) for output in outputs[:-1]]


SAID = contributions()


def corrected(which: int, kind: str) -> LogRecord:
    said = SAID[which % len(SAID)]
    change = {"said": {}, "corrected": {"outcome": "failure"}, "withdrawn": {"withdrawn": True}}[kind]
    return LogRecord(
        0, 0, START_MS, said.key, orjson.dumps({**orjson.loads(said.value or b""), **change}), said.headers
    )


PATTERNS = sorted({made_by(Contribution.model_validate_json(record.value or b"")).text for record in SAID})
LEARNT = [pattern for pattern in PATTERNS if pattern.startswith("task_schema")]


def gift(which: int, day: int, agent_id: str) -> Import:
    pattern = LEARNT[which] if which < len(LEARNT) else "x-acme-runbook/deploy"
    title, digest = f"As of day {day}", f"{day}" * 64
    at = f"2026-03-0{day}T00:00:00Z"
    return gift_of(pattern, agent_id=agent_id, title=title, fingerprint_hash=digest, created_at=at)


def end(kind: str) -> LogRecord:
    value = EvidenceControl(kind=kind, barrier_id="last", partition=0, partitions=1).to_json()
    return LogRecord(0, 0, START_MS, kind.encode(), value, [(KIND, kind.encode())])


@pytest.mark.requirement("E-27", "K-07")
@settings(max_examples=2 * settings().max_examples)
@given(
    histories=HISTORIES,
    archived=st.lists(st.integers(0, len(SAID) - 1), max_size=1),
    imported=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 3), st.sampled_from(["", "a", "b"])), max_size=3),
    dice=st.randoms(use_true_random=False),
    pauses=st.lists(st.sampled_from([0, 1_000])),
)
def test_contributions_corrected_and_withdrawn_in_any_mixture_leave_the_same_active_artifacts(
    histories: list[list[str]],
    archived: list[int],
    imported: list[tuple[int, int, str]],
    dice: random.Random,
    pauses: list[int],
) -> None:
    """Also where an operator archives a pattern meanwhile, or before it has said anything, or imports some."""
    made = [[corrected(which, kind) for kind in history] for which, history in enumerate(histories)]
    made += [[archive_record(Contribution.model_validate_json(SAID[which].value or b""), 0, 0)] for which in archived]
    made += [[import_record(gift(*one), 0, 0)] for one in imported]

    def left(mixed: list[LogRecord], pauses: list[int]) -> Any:
        at, log = 0, []
        for offset, record in enumerate([*mixed, end("barrier")]):
            at += pauses[offset] if offset < len(pauses) else 0
            log.append(LogRecord(0, offset, START_MS + at, record.key, record.value, record.headers))
        return law_five(published({0: log}))

    assert left(interleaved(made, dice), pauses) == left([record for history in made for record in history], [])


@pytest.mark.requirement("E-27")
@settings(max_examples=settings().max_examples // 4)
@given(seed=st.integers(0, 10_000), partitions=st.sampled_from([1, 3, 4]))
def test_any_interleaving_of_longer_sessions_leaves_the_same_active_artifacts(seed: int, partitions: int) -> None:
    expected = law_five(artifacts_of(interleaved(SESSIONS, 0)))
    assert expected
    assert law_five(artifacts_of(interleaved(SESSIONS, seed), partitions)) == expected


def test_what_tenants_learn_does_not_depend_on_each_other() -> None:
    def of(tenant: str, sessions: list[list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
        return [row for row in law_five(artifacts_of(interleaved(sessions, 5))) if row[0] == tenant]

    theirs = [session(number, "globex") for number in range(24)]
    assert of("acme", SESSIONS) == of("acme", [*SESSIONS, *theirs])
    assert of("globex", theirs)


@pytest.mark.requirement("A-04", "C-03")
def test_every_source_of_what_is_learnt_is_a_released_event_of_its_tenant() -> None:
    """Others have the same ids; some events of each session are rejected."""
    sessions = [session(number, tenant) for number in range(12) for tenant in ("acme", "globex")]
    talk = [
        [{**one, "tenant_id": tenant} for one in said("talk", f"Our registry is {tenant}.example.", "Never push it.")]
        for tenant in ("acme", "globex")
    ]
    refused = [{**one, "event_id": f"{one['event_id']}-not", "salience": 7} for own in sessions for one in own]
    learnt = both_stages([*interleaved([*sessions, *talk], 7), *refused])
    episodes = [orjson.loads(one.value or b"") for one in learnt if one.topic == EPISODES]
    released = {(one["metadata"]["hmx"]["tenant_id"], one["id"]) for one in episodes}
    assert len(released) == sum(map(len, [*sessions, *talk]))
    records = [orjson.loads(one.value or b"") for one in learnt if one.topic != EPISODES and one.value]
    assert {(one["tenant_id"], "artifact_id" in one) for one in records} == {
        ("acme", True), ("acme", False), ("globex", True), ("globex", False),
    }  # fmt: skip
    for one in records:
        assert one["source_events"]
        assert {(one["tenant_id"], event) for event in one["source_events"]} <= released, one


@pytest.mark.requirement("A-04", "A-05", "A-08", "A-24", "A-25", "A-26", "A-27", "K-03")
def test_every_published_chain_is_legal() -> None:
    mixed = interleaved(SESSIONS, 3)
    known = {item["event_id"] for item in mixed}
    versions: dict[str, list[Artifact]] = {}
    for value in artifacts_of(mixed):
        artifact = Artifact.model_validate(value)
        versions.setdefault(artifact.artifact_id, []).append(artifact)
        assert set(artifact.source_events) <= known
    latest = {artifact_id: history[-1] for artifact_id, history in versions.items()}
    for history in versions.values():
        for before, after in pairwise(history):
            assert (before.status, after.status) in TRANSITIONS
            assert (before.content_hash, before.version) == (after.content_hash, after.version)
    for artifact in latest.values():
        if artifact.supersedes is not None:
            predecessor = latest[artifact.supersedes]
            assert predecessor.superseded_by == artifact.artifact_id
            assert predecessor.version == artifact.version - 1
        else:
            assert artifact.version == 1
    active = [a.metadata["pattern"] for a in latest.values() if a.status is Status.ACTIVE]
    assert len(active) == len(set(active))
