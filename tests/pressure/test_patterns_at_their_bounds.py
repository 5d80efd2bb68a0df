"""Evidence without end: what a pattern, a tenant and a chain of versions keep, and what is counted where they stop."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import rank
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS, CONTRIBUTION_DEBOUNCE_MS, PATTERN_DEBOUNCE_MS
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.pattern_keys import pattern_of
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS
from tests.soak.traffic import Traffic
from tests.support.evidence import control, gift_of, histories, import_record, records, recovered, success
from tests.support.inprocess import Ran, events_log, evidence_logs, law_five, run
from tests.support.records import START_MS, LogRecord, event
from tests.support.sessions import interleaved


def spoken(evidence: Sequence[LogRecord]) -> Ran:
    """All of it, and a barrier behind it."""
    at = evidence[-1].timestamp - START_MS
    return run(PatternsFold, [*evidence, control("barrier", at, len(evidence))])


def kept(ran: Ran) -> dict[str, Contribution]:
    return {key: value for key, value in ran.state.items() if key.startswith("m/")}


def after_compaction(ran: Ran) -> dict[bytes | None, bytes]:
    latest = {output.key: output.value for output in ran.on(ARTIFACTS)}
    return {key: value for key, value in latest.items() if value is not None}


@settings(max_examples=15)
@given(dice=st.randoms(use_true_random=False))
def test_at_its_bound_a_tenant_keeps_the_same_sample_whatever_came_first(dice: random.Random) -> None:
    told = histories()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmx_pipeline.stages.pattern_state.TENANT_CONTRIBUTIONS", 20)
        patch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", 6)
        expected = spoken([record for history in told for record in history])
        mixed = spoken(interleaved(told, dice.randrange(2**32)))
    assert len(kept(expected)) == 20 < len(told)
    assert kept(mixed) == kept(expected)
    assert law_five(map(orjson.loads, after_compaction(mixed).values())) == law_five(
        map(orjson.loads, after_compaction(expected).values())
    )


def _told() -> list[dict[str, Any]]:
    """Facts that change in every session, which say the most for what they rest on."""
    return [
        event(f"s{n}", i, content={"role": "user", "text": f"Our database {i} is {'x' * 200}{n}. Always tab {n} {i}."})
        for n in range(40)
        for i in range(8)
    ]


def _growing() -> list[dict[str, Any]]:
    """Ever new names in every field."""
    traffic = Traffic(1)
    values = (value for n in range(30) for _, value in traffic.session(START_MS + n * 60_000) if b'"sequence"' in value)
    return [orjson.loads(value) for value in values]


@pytest.mark.parametrize("events", [_told, _growing])
def test_what_patterns_have_said_is_smaller_than_what_they_rest_on(events: Callable[[], list[dict[str, Any]]]) -> None:
    (evidence,) = evidence_logs(events_log(events(), 1).values(), 1).values()
    held: Counter[str] = Counter()
    for key, value in run(PatternsFold, evidence).state.items():
        held[key[0]] += len(value.to_json()) if key[0] in "mp" else 0
    assert 0 < held["p"] < held["m"], "so PARTITION_CONTRIBUTION_BYTES bounds both"


def test_a_flood_of_one_tenants_patterns_takes_no_place_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.TENANT_CONTRIBUTIONS", 16)
    theirs = [success(n, tenant_id="globex") for n in range(12)]
    flood = [recovered(n, f"one-off {n}") for n in range(200)]
    alone, beside = spoken(records(theirs)), spoken(records([*flood[:100], *theirs, *flood[100:]]))
    assert {k: v for k, v in kept(beside).items() if v.tenant_id == "globex"} == kept(alone)
    assert len(kept(beside)) == 16 + 12
    assert beside.counts["contribution_out_of_tenant_sample"] == 200 - 16


@settings(max_examples=15)
@given(seed=st.integers(0, 2**32))
def test_contributions_of_a_partition_are_bounded_in_bytes_and_no_tenant_within_its_share_loses_any(seed: int) -> None:
    dice, bound, before = random.Random(seed), 20_000, Counter[str]()
    told = [recovered(n, f"p {n % 7}", dice.choice(("a", "b", "b", "b"))) for n in range(90)]
    told += [success(n, tenant_id="quiet") for n in range(3)]
    dice.shuffle(told)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("hmx_pipeline.stages.pattern_state.PARTITION_CONTRIBUTION_BYTES", bound)
        executor = Executor(PatternsFold(), 0)
        for record in records(told):
            executor.run([record])
            have: Counter[str] = Counter()
            for key, value in executor.state.items():
                if key.startswith("m/"):
                    have[value.tenant_id] += len(value.to_json())
            assert have.total() <= bound
            lost = [tenant for tenant in before if have[tenant] < before[tenant]]
            assert all(before[tenant] + 2_000 > bound / 3 for tenant in lost)
            before = have
    assert executor.counts["contribution_out_of_partition"] > 20
    quiet = [contribution.segment_id for contribution in told if contribution.tenant_id == "quiet"]
    found = [value.segment_id for value in executor.state.values() if getattr(value, "tenant_id", "") == "quiet"]
    assert sorted(found) == sorted(quiet)


def test_which_contributions_go_does_not_depend_on_batches_and_restarts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.PARTITION_CONTRIBUTION_BYTES", 20_000)
    for seed in range(3):
        dice = random.Random(seed)
        told = [recovered(n, f"p {n % 5}", dice.choice("abc")) for n in range(80)]
        evidence = records([*told, *dice.sample(told, 20)])
        whole = run(PatternsFold, evidence)
        assert whole.counts["contribution_out_of_partition"] > 10
        cut = run(PatternsFold, evidence, cut=lambda left, dice=dice: dice.randint(1, min(left, 9)), restores=True)
        assert (cut.outputs, cut.state, cut.counts) == (whole.outputs, whole.state, whole.counts)


def test_what_says_who_goes_next_is_no_longer_than_twice_what_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.TENANT_CONTRIBUTIONS", 16)
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", 5)
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state._LEFT", 8)
    fold = PatternsFold()
    executor = Executor(fold, 0)
    full = [recovered(n, f"pattern {n % 5}") for n in range(60)]
    better = sorted((recovered(n, "pattern 0") for n in range(100, 600)), key=rank, reverse=True)
    for record in records([*full, *better]):
        executor.run([record])
        assert len(fold._maps._highest.get("acme", ())) <= 2 * 16 + 8
    assert executor.counts["contribution_out_of_sample"] > 50, "one takes the place of another"


def test_a_pattern_that_a_flood_leaves_no_evidence_is_forgotten_with_all_its_versions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.TENANT_CONTRIBUTIONS", 16)
    learnt = [recovered(n, "timeout") for n in range(6)]
    flood = [recovered(n, f"one-off {n}") for n in range(100, 2_100)]
    before = run(PatternsFold, [*records(learnt), control("tick", PATTERN_DEBOUNCE_MS, 6)])
    assert len(after_compaction(before)) == 1
    after = spoken([*records(learnt), control("tick", PATTERN_DEBOUNCE_MS, 6), *records([*learnt, *flood])[6:]])
    assert after.counts["pattern_forgotten"] == 1
    assert after_compaction(after) == {}
    assert {pattern_of(key) for key in kept(after)} >= {key for key in after.state if key.startswith("p/")}


def test_the_more_a_pattern_knows_the_longer_it_gathers_before_it_speaks() -> None:
    pace_ms, many = 100, 1_200
    ran = run(PatternsFold, records([success(n) for n in range(many)], pace_ms))
    versions = [a for a in map(orjson.loads, (o.value or b"" for o in ran.on(ARTIFACTS))) if "updated_at" not in a]
    at_most = 1 + many * pace_ms // PATTERN_DEBOUNCE_MS
    assert 4 < len(versions) < at_most / 5
    counted = [version["observed_count"] for version in versions]
    assert all(after - before >= before * CONTRIBUTION_DEBOUNCE_MS // pace_ms for before, after in pairwise(counted))


def test_a_barrier_waits_for_no_pause() -> None:
    evidence = records([success(n) for n in range(200)], 10)
    assert not run(PatternsFold, [*evidence[:50], control("tick", 500, 50)]).on(ARTIFACTS)
    (record,) = spoken(evidence[:50]).on(ARTIFACTS)
    assert orjson.loads(record.value or b"")["observed_count"] == 50


def test_of_a_long_chain_the_oldest_versions_are_erased_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_compiling.ARTIFACT_VERSIONS", 3)
    ran = run(PatternsFold, records([success(n) for n in range(40)], PATTERN_DEBOUNCE_MS * 2))
    chain = sorted(map(orjson.loads, after_compaction(ran).values()), key=lambda a: a["version"])
    assert [a["status"] for a in chain] == ["superseded"] * 3 + ["active"]
    assert [a["supersedes"] for a in chain[1:]] == [a["artifact_id"] for a in chain[:-1]]
    assert [a["superseded_by"] for a in chain[:-1]] == [a["artifact_id"] for a in chain[1:]]
    assert ran.counts["artifact_erased"] == chain[-1]["version"] - 4 > 0


def test_a_barrier_that_never_came_from_every_partition_is_counted_when_it_is_forgotten() -> None:
    later = control("tick", BARRIER_KEPT_MS, 1)
    lost = run(PatternsFold, [control("barrier", 0, 0, partition=0, partitions=2), later])
    assert (lost.counts["barrier_lost"], lost.state) == (1, {})
    passed = run(PatternsFold, [control("barrier", 0, 0), later])
    assert passed.counts["barrier_forgotten"] == 1


def test_a_tenants_decisions_are_bounded_and_take_no_room_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.TENANT_DECISIONS", 2)
    gifts = [gift_of(f"task_schema/p{n}", tenant_id=tenant) for tenant in ("a", "b") for n in (1, 2, 3, 1)]
    evidence = [import_record(gift, 10 * n, n) for n, gift in enumerate(gifts)]
    whole = run(PatternsFold, evidence)
    assert sum(key.startswith("p/a/") for key in whole.state) == sum(key.startswith("p/b/") for key in whole.state) == 2
    assert (whole.counts["imported"], whole.counts["decision_out_of_room"]) == (6, 2)
    cut = run(PatternsFold, evidence, cut=lambda _: 1, restores=True)
    assert (cut.outputs, cut.state, cut.counts) == (whole.outputs, whole.state, whole.counts)
