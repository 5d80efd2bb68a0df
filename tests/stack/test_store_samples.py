"""Contributions in Redis are bounded as the maps are that artifacts are compiled from, on the real server."""

import random
from collections.abc import Sequence

import orjson
import pytest

from hmx_pipeline.contracts.evidence import segment_rank
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE
from tests.support.evidence import control, evidence
from tests.support.inprocess import run
from tests.support.memory import Memory
from tests.support.records import LogRecord


def as_read(records: Sequence[LogRecord]) -> list[TopicRecord]:
    return [TopicRecord(EVIDENCE, 0, n, r.key or b"", r.value, r.headers) for n, r in enumerate(records)]


def kept(memory: Memory, records: Sequence[TopicRecord]) -> set[str]:
    ids = {orjson.loads(record.value or b"")["contribution_id"] for record in records}
    return {name for name in ids if memory.store.get_contribution("acme", name) is not None}


def lowest(records: Sequence[TopicRecord], of_pattern: int, of_tenant: int) -> set[str]:
    patterns: dict[str, set[tuple[int, str]]] = {}
    for record in records:
        said = orjson.loads(record.value or b"")
        pattern = f"{said['pattern_type']}/{said['pattern_key']}"
        rank = segment_rank(said["session_id"], said["segment_id"]) >> 11
        patterns.setdefault(pattern, set()).add((rank, said["contribution_id"]))
    of_each = [
        (rank, pattern, name) for pattern, names in patterns.items() for rank, name in sorted(names)[:of_pattern]
    ]
    border = sorted(rank for rank, _, _ in of_each)[:of_tenant][-1]
    return {name for rank, _, name in of_each if rank <= border}


@pytest.mark.parametrize("seed", range(3))
def test_of_a_pattern_and_of_a_tenant_the_lowest_ranks_stay_in_any_order_and_in_any_blocks(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr("hmx_pipeline.store.changes.PATTERN_SAMPLE", 4)
    monkeypatch.setattr("hmx_pipeline.store.changes.TENANT_SAMPLE", 10_000)
    dice = random.Random(seed)
    records = as_read(dice.sample(told := evidence(), len(told)))
    while records:
        block, records = records[: (n := dice.randint(1, 9))], records[n:]
        memory.write(*block)
    everything = as_read(told)
    expected = lowest(everything, 4, 10_000)
    assert kept(memory, everything) == expected
    assert 0 < len(expected) < len(everything)
    monkeypatch.setattr("hmx_pipeline.store.changes.TENANT_SAMPLE", 5)
    memory.write(everything[0]._replace(offset=len(everything)))
    assert kept(memory, everything) <= lowest(everything, 4, 5)  # patterns of one segment have one rank
    assert len(kept(memory, everything)) == memory.client.zcard(memory.keys.tenant("acme").samples) == 5
    samples = list(memory.client.scan_iter(match=f"{memory.keys.tenant('acme').root}:sample:*"))
    assert sum(memory.client.zcard(key) for key in samples) == 5


@pytest.mark.requirement("C-03")
def test_what_a_live_artifact_names_is_there_also_where_the_sample_is_full(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    bound = 4
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", bound)
    monkeypatch.setattr("hmx_pipeline.store.changes.PATTERN_SAMPLE", bound)
    records = [*evidence(), control("barrier", 9_000, len(evidence()))]
    made = [
        TopicRecord(ARTIFACTS, 0, n, output.key or b"", output.value, output.headers)
        for n, output in enumerate(run(PatternsFold, records).on(ARTIFACTS))
    ]
    memory.write(*as_read(records), *made)
    artifacts = memory.store.list_artifacts("acme", limit=50).artifacts
    assert artifacts
    named = [name for artifact in artifacts for name in artifact["source_memory_ids"]]
    assert all(memory.store.get_contribution("acme", name) for name in named)
    assert len(kept(memory, as_read(records[:-1]))) < len(records) - 1
