"""The patterns stage: the map, the debounce, barriers, withdrawals, bounds."""

import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import rank
from hmx_pipeline.contracts.artifact import TRANSITIONS
from hmx_pipeline.contracts.evidence import Archive, EvidenceControl, SegmentOutcome
from hmx_pipeline.contracts.headers import KIND, REASON, header
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS, PATTERN_DEBOUNCE_MS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.rejections import NewerRecordError
from hmx_pipeline.stages import pattern_compiling
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE_DLQ
from tests.support.evidence import archive_record, control, evidence, histories, records, success
from tests.support.inprocess import Ran, law_five, run
from tests.support.records import START_MS, LogRecord
from tests.support.sessions import interleaved


def artifacts(result: Ran) -> list[dict[str, Any]]:
    return [orjson.loads(output.value or b"") for output in result.on(ARTIFACTS)]


def test_a_pattern_speaks_after_the_pause_and_once() -> None:
    records = evidence()
    quiet = control("tick", PATTERN_DEBOUNCE_MS - 1, len(records))
    assert not artifacts(run(PatternsFold, [*records, quiet]))
    spoken = artifacts(run(PatternsFold, [*records, control("tick", PATTERN_DEBOUNCE_MS, len(records))]))
    assert spoken
    assert {a["version"] for a in spoken} == {1}


def test_a_kind_that_is_never_compiled_is_kept_and_says_nothing() -> None:
    records = evidence()
    result = run(PatternsFold, [*records, control("barrier", 1, len(records), partition=0, partitions=1)])
    assert any(key.startswith("m/acme/course") for key in result.state)
    assert not any(key.startswith("p/acme/course") for key in result.state)


def test_a_barrier_makes_every_pending_pattern_speak_once_all_partitions_have_passed_it() -> None:
    records = evidence()
    first = control("barrier", 1, len(records), partition=0, partitions=2)
    doubled = control("barrier", 1, len(records) + 1, partition=0, partitions=2)
    last = control("barrier", 1, len(records) + 2, partition=1, partitions=2)
    assert not artifacts(run(PatternsFold, [*records, first, doubled]))
    passed = run(PatternsFold, [*records, first, doubled, last])
    assert artifacts(passed)
    assert passed.state["b/b"].passed
    assert not run(PatternsFold, [first, doubled]).state["b/b"].passed


def test_a_passed_barrier_is_forgotten() -> None:
    later = control("tick", BARRIER_KEPT_MS, 1)
    assert run(PatternsFold, [control("barrier", 0, 0), later]).state == {}


def test_a_replaced_contribution_counts_once() -> None:
    records = evidence()
    again = [LogRecord(0, len(records) + n, START_MS, r.key, r.value, r.headers) for n, r in enumerate(records)]
    end = control("tick", PATTERN_DEBOUNCE_MS, 2 * len(records))
    once, twice = run(PatternsFold, [*records, end]), run(PatternsFold, [*records, *again, end])
    assert artifacts(twice) == artifacts(once)


def test_withdrawn_evidence_deprecates_what_rested_on_it() -> None:
    records = evidence()
    spoken = control("tick", PATTERN_DEBOUNCE_MS, len(records))
    withdrawn = []
    for record in records:
        value = {**orjson.loads(record.value or b""), "withdrawn": True}
        offset = len(records) + 1 + len(withdrawn)
        withdrawn.append(LogRecord(0, offset, START_MS + 2_000, record.key, orjson.dumps(value), record.headers))
    end = control("tick", 2_000 + PATTERN_DEBOUNCE_MS, 2 * len(records) + 1)
    before = artifacts(run(PatternsFold, [*records, spoken]))
    after = artifacts(run(PatternsFold, [*records, spoken, *withdrawn, end]))[len(before) :]
    assert {a["artifact_id"] for a in after} == {a["artifact_id"] for a in before}
    assert {a["status"] for a in after} == {"deprecated"}


@pytest.mark.requirement("A-19", "X11")
def test_what_an_operator_archives_stays_so_whatever_the_evidence() -> None:
    learnt = [success(n) for n in range(12)]
    before, after = records(learnt[:6]), records(learnt)
    spoken = run(PatternsFold, [*before, control("tick", PATTERN_DEBOUNCE_MS, 6)])
    decided = archive_record(learnt[0], PATTERN_DEBOUNCE_MS, 7, "superseded by the wiki")
    later = [LogRecord(0, 8 + n, START_MS + 5_000, r.key, r.value, r.headers) for n, r in enumerate(after)]
    end = control("barrier", 9_000, 40)
    result = run(PatternsFold, [*before, control("tick", PATTERN_DEBOUNCE_MS, 6), decided, *later, end])
    (archived,) = artifacts(result)[len(artifacts(spoken)) :]
    assert archived["status"] == "archived"
    cause = "archived by an operator: superseded by the wiki"
    assert archived["metadata"]["transition"] == {"from": "active", "to": "archived", "cause": cause}
    assert result.counts["artifact_archived"] == 1
    assert "archived_inactive" not in result.counts


@pytest.mark.requirement("A-19", "A-20")
@given(at=st.integers(0, 14), spoken=st.lists(st.integers(0, 14), max_size=4))
def test_whenever_an_operator_decides_nothing_of_the_pattern_is_live_in_the_end(at: int, spoken: list[int]) -> None:
    log = records([success(n) for n in range(14)])
    log = [replace(record, timestamp=START_MS + 20_000 * n, offset=n) for n, record in enumerate(log)]
    decided = archive_record(success(0), 0, 0)
    for place in sorted([at, *spoken], reverse=True):
        added = decided if place == at else control("barrier", 0, 0)
        log.insert(place, replace(added, timestamp=START_MS + 20_000 * place))
    log.append(control("barrier", 900_000, 0))
    result = run(PatternsFold, [replace(record, offset=n) for n, record in enumerate(log)])
    latest = {artifact["artifact_id"]: artifact["status"] for artifact in artifacts(result)}
    assert not {"draft", "active"} & set(latest.values())
    edges = [(a["metadata"]["transition"]["from"], a["status"]) for a in artifacts(result) if "updated_at" in a]
    assert {(Status(old), Status(new)) for old, new in edges} <= TRANSITIONS
    assert result.counts["control"] >= 2


@pytest.mark.parametrize("pattern", ["nothing", "", "task_schema", "course/acme", "unknown/deploy", "task_schema/a/b"])
def test_a_decision_that_names_no_pattern_of_artifacts_is_a_dead_letter(pattern: str) -> None:
    value = EvidenceControl(
        kind="archive", archived=Archive(tenant_id="acme", pattern=pattern, artifact_id="a")
    ).to_json()
    result = run(PatternsFold, [LogRecord(0, 4, START_MS, b"k", value, [(KIND, b"archive")])])
    assert [header(letter.headers, REASON) for letter in result.on(EVIDENCE_DLQ)] == [b"wrong_type"]
    assert not result.state


@given(dice=st.randoms(use_true_random=False))
def test_at_its_bound_a_pattern_keeps_the_same_sample_whatever_came_first(dice: random.Random) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", 5)
        told = histories()
        expected = run(PatternsFold, [record for history in told for record in history])
        mixed = run(PatternsFold, interleaved(told, dice.randrange(2**32)))
    kept = {key: value for key, value in expected.state.items() if key.startswith("m/")}
    assert {value.withdrawn for value in kept.values()} == {True, False}
    assert len(kept) < len(told)
    assert {key: value for key, value in mixed.state.items() if key.startswith("m/")} == kept


@given(dice=st.randoms(use_true_random=False))
def test_what_was_withdrawn_takes_no_place_from_what_counts_at_the_bound(dice: random.Random) -> None:
    """Whether an open segment ever spoke depends on when a barrier passed, which no order of sessions decides."""
    learnt = [success(n) for n in range(30)]
    passing = dice.sample(sorted(learnt, key=rank)[:6], dice.randrange(4))
    gone = [one.model_copy(update={"withdrawn": True, "outcome": SegmentOutcome.UNKNOWN}) for one in passing]
    others = dice.sample([one for one in learnt if one not in passing], 30 - len(passing))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", 12)
        patch.setattr("hmx_pipeline.compiler.candidate.PATTERN_CONTRIBUTIONS", 12)
        patch.setattr("hmx_pipeline.compiler.candidate.PATTERN_COMPILED", 9)
        never = run(PatternsFold, [*records(others), control("barrier", 0, 99)])
        once = run(PatternsFold, [*records([*passing, *others, *gone]), control("barrier", 0, 99)])
    assert law_five(artifacts(once)) == law_five(artifacts(never)) != []


@pytest.mark.parametrize(
    ("value", "reason"), [(None, b"null_value"), (b"{}", b"wrong_type"), (b"no json", b"wrong_type")]
)
def test_evidence_that_is_none_goes_to_its_own_dead_letters(value: bytes | None, reason: bytes) -> None:
    letters = run(PatternsFold, [LogRecord(0, 4, START_MS, b"k", value, ())]).on(EVIDENCE_DLQ)
    assert [header(letter.headers, REASON) for letter in letters] == [reason]


def test_evidence_of_a_newer_release_is_neither_taken_nor_rejected() -> None:
    contribution, tick = evidence()[0], control("tick", 0, 1)
    for record in (contribution, tick):
        value = (record.value or b"").replace(b"{", b'{"later":1,', 1)
        with pytest.raises(NewerRecordError, match="later"):
            run(PatternsFold, [replace(record, value=value)])
    with pytest.raises(NewerRecordError, match="later"):
        run(PatternsFold, [replace(tick, headers=[(KIND, b"later")])])


def test_a_pattern_that_cannot_be_compiled_keeps_what_it_said_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def hostile(*_: Any) -> Any:
        raise KeyError("evidence that nobody thought of")

    monkeypatch.setattr(pattern_compiling, "candidate", hostile)
    records = evidence()
    result = run(PatternsFold, [*records, control("tick", PATTERN_DEBOUNCE_MS, len(records))])
    assert not artifacts(result)
    assert result.counts["pattern_not_compiled"] > 0
