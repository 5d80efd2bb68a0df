"""The laws that hold for every fold, held for both: replay, batches, restores; and order between sessions."""

import random
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipeline.contracts.artifact import TRANSITIONS, Artifact, Status
from pipeline.stages.fold import Fold
from pipeline.stages.patterns import PatternsFold
from pipeline.topology import EVIDENCE
from tests.support.inprocess import artifacts_of, barrier_record, law_five, run, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord, log
from tests.support.sessions import interleaved, session

SESSIONS = [session(number) for number in range(24)]


def events_log(seed: int) -> list[LogRecord]:
    """Disorder, duplicates, rejects, gaps that never fill, barriers, ticks."""
    dice = random.Random(seed)
    events: list[tuple[int, Any]] = []
    for at, item in enumerate(interleaved(SESSIONS[:10], seed)):
        if dice.random() < 0.02:
            continue
        events.append((40 * at + dice.randrange(-400, 400), item))
        if dice.random() < 0.05:
            events.append((40 * at + dice.randrange(0, 900), item))
        if dice.random() < 0.03:
            events.append((40 * at, b"{no event"))
    records = log(sorted(events, key=lambda pair: pair[0]))
    end = records[-1].timestamp - START_MS
    records.append(barrier_record(end, offset=len(records)))
    return [*records, *(tick_record(end + 2_000 * n, offset=len(records) + n) for n in range(1, 5))]


def evidence_log(seed: int) -> list[LogRecord]:
    outputs = run(sessions_fold, events_log(seed)).on(EVIDENCE)
    return [LogRecord(0, n, START_MS + 300 * n, o.key, o.value, o.headers) for n, o in enumerate(outputs)]


STAGES = pytest.mark.parametrize(
    ("new_fold", "make_log"), [(sessions_fold, events_log), (PatternsFold, evidence_log)], ids=["sessions", "patterns"]
)


@pytest.mark.requirement("A-02")
@STAGES
@settings(max_examples=25)
@given(seed=st.integers(0, 3), cuts=st.randoms(use_true_random=False), restores=st.booleans())
def test_the_same_log_gives_the_same_bytes_however_it_is_cut_and_restored(
    new_fold: Callable[[], Fold],
    make_log: Callable[[int], list[LogRecord]],
    seed: int,
    cuts: random.Random,
    restores: bool,
) -> None:
    records = make_log(seed)
    whole = run(new_fold, records)
    parts = run(new_fold, records, cut=lambda left: cuts.randint(1, min(left, 60)), restores=restores)
    assert parts.outputs == whole.outputs
    assert parts.counts == whole.counts
    assert parts.state == whole.state


@STAGES
def test_state_is_written_and_read_back_alike(
    new_fold: Callable[[], Fold], make_log: Callable[[int], list[LogRecord]]
) -> None:
    fold = new_fold()
    for key, value in run(new_fold, make_log(1)).state.items():
        assert fold.decode(key, fold.encode(key, value)) == value


@pytest.mark.requirement("E-27")
@settings(max_examples=15)
@given(seed=st.integers(0, 10_000), partitions=st.sampled_from([1, 3, 4]))
def test_any_interleaving_of_the_same_sessions_leaves_the_same_active_artifacts(seed: int, partitions: int) -> None:
    expected = law_five(artifacts_of(interleaved(SESSIONS, 0)))
    assert expected
    assert law_five(artifacts_of(interleaved(SESSIONS, seed), partitions)) == expected


def test_what_tenants_learn_does_not_depend_on_each_other() -> None:
    def of(tenant: str, sessions: list[list[dict[str, Any]]]) -> list[tuple[Any, ...]]:
        return [row for row in law_five(artifacts_of(interleaved(sessions, 5))) if row[0] == tenant]

    theirs = [session(number, "globex") for number in range(24)]
    assert of("acme", SESSIONS) == of("acme", [*SESSIONS, *theirs])
    assert of("globex", theirs)


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
