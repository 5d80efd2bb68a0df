"""A tenant's barrier asks for that tenant's sessions and patterns only, and is forwarded once."""

import random

import orjson
import pytest

from hmx_pipeline.contracts.headers import KIND, header
from hmx_pipeline.intake.control_records import barrier
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.sessions import SessionsFold
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE, KNOWLEDGE
from tests.support.inprocess import barrier_record, run, sessions_fold, signed
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.sessions import interleaved, session

PARTITIONS = 16
OTHERS = 40


def asks(tenant_id: str, offset: int, at: int, partitions: int = 1) -> LogRecord:
    return signed(barrier("b", 0, START_MS, tenant_id, partitions), 0, offset, at)


def traffic(asked: LogRecord | None = None) -> list[LogRecord]:
    """One open session of `acme` beside many of others, then perhaps a barrier."""
    told = interleaved([session(0), *(session(n, f"other-{n % 4}") for n in range(1, OTHERS))], random.Random(1))
    records = log(list(enumerate(told)))
    return records if asked is None else [*records, asked]


def test_one_tenant_that_learns_brings_about_records_for_its_own_dirty_sessions_and_no_more() -> None:
    """However many partitions there are, and sessions of others."""

    def fold() -> SessionsFold:
        return sessions_fold(1, PARTITIONS)

    def said(asked: LogRecord | None) -> list[tuple[str, str]]:
        outputs = run(fold, traffic(asked)).on(EVIDENCE)
        kinds = [((header(o.headers, KIND) or b"").decode(), orjson.loads(o.value or b"{}")) for o in outputs]
        return [(kind, value.get("tenant_id", "")) for kind, value in kinds]

    n = len(traffic())
    before, own = said(None), said(asks("acme", n, n))
    added = own[len(before) :]
    assert [tenant for kind, tenant in added if kind == "contribution"] == ["acme"] * (len(added) - 1)
    assert 0 < len(added) - 1 < 40
    assert added[-1] == ("barrier", "acme")
    all_of_them = said(barrier_record(n, 0, n))[len(before) :]
    assert len(all_of_them) > PARTITIONS + OTHERS
    assert said(asks("stranger", n, n))[len(before) :] == [("barrier", "stranger")]


def test_others_events_behind_gaps_do_not_hold_a_tenants_barrier_up() -> None:
    waits, own = event("gap", 7, tenant_id="other"), event("mine", 0)
    for tenant_id, passes in (("acme", True), ("other", False), ("", False)):
        records = [*log([(0, waits), (1, own)]), asks(tenant_id, 2, 2)]
        passed = [o for o in run(sessions_fold, records).on(EVIDENCE) if header(o.headers, KIND) == b"barrier"]
        assert bool(passed) is passes


@pytest.mark.parametrize("tenant_id", ["acme", "globex"])
def test_only_the_tenants_own_patterns_are_compiled_for_it(tenant_id: str) -> None:
    told = interleaved([session(n, ("acme", "globex")[n % 2]) for n in range(12)], random.Random(2))
    records = log(list(enumerate(told)))
    records.append(barrier_record(len(records), 0, len(records)))
    evidence = [o for o in run(sessions_fold, records).on(EVIDENCE) if header(o.headers, KIND) == b"contribution"]
    contributed = [LogRecord(0, n, START_MS, o.key, o.value, o.headers) for n, o in enumerate(evidence)]
    (asked,) = [
        o for o in run(sessions_fold, [asks(tenant_id, 0, 0)]).on(EVIDENCE) if header(o.headers, KIND) == b"barrier"
    ]
    passing = LogRecord(0, len(contributed), START_MS, asked.key, asked.value, asked.headers)
    result = run(PatternsFold, [*contributed, passing])
    published = [orjson.loads(o.value or b"{}") for topic in (ARTIFACTS, KNOWLEDGE) for o in result.on(topic)]
    assert {one["tenant_id"] for one in published} == {tenant_id}
    waiting = {key.split("/")[1] for key, state in result.state.items() if key[0] == "p" and state.speak_at is not None}
    assert waiting == {"acme", "globex"} - {tenant_id}
