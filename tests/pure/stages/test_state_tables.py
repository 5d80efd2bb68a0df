"""The stages' state as tables: as many events, waiting ones and contributions as went in, and no other tenant's."""

from collections import Counter

import orjson
import pytest

from hmx_pipeline.contracts.limits import INTEGER_MAX, WINDOW_MS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.service.overview import StageTable
from hmx_pipeline.stages.fold import Fold
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.state_tables import (
    PatternSort,
    SessionSort,
    StateRecord,
    in_order,
    pattern_rows,
    pattern_totals,
    session_rows,
    session_totals,
)
from tests.support.inprocess import Ran, events_log, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.sessions import session


def state_records(fold: Fold, ran: Ran) -> list[StateRecord]:
    return [StateRecord(key, fold.encode(key, value), START_MS) for key, value in ran.state.items()]


def folded(*tenants: str) -> Ran:
    (records,) = events_log([item for tenant in tenants for n in range(4) for item in session(n, tenant)], 1).values()
    return run(sessions_fold, records)


def test_a_row_counts_what_its_session_released() -> None:
    ran = folded("acme", "a/b")
    rows = session_rows(state_records(sessions_fold(), ran))
    released = Counter((e["metadata"]["hmx"]["tenant_id"], e["sessionId"]) for e in ran.episodes)
    assert {(row.tenant, row.session): row.released for row in rows} == released
    assert {row.tenant for row in session_rows(state_records(sessions_fold(), ran), "a/b")} == {"a/b"}


def test_a_record_that_cannot_be_read_hides_no_other_row() -> None:
    records = state_records(sessions_fold(), folded("acme"))
    damaged = [StateRecord("s/acme/damaged", b"\xff", START_MS), StateRecord("\udcff", b"", START_MS)]
    assert session_rows([*damaged, *records]) == session_rows(records)
    assert not pattern_rows([StateRecord("m/acme/x/y/z", b"{", START_MS), StateRecord("p/acme/x", b"", START_MS)])


def test_what_stands_behind_a_gap_waits_for_the_sequence_that_is_lacking() -> None:
    ran = run(sessions_fold, log([(n, event(sequence=sequence)) for n, sequence in enumerate((0, 1, 3, 4))]))
    (row,) = session_rows(state_records(sessions_fold(), ran))
    assert (row.released, row.waiting, row.next, row.segment) == (2, 2, 2, 2)


@pytest.mark.parametrize("highest", [2**53, 2**63 - 1, 2**63, INTEGER_MAX - 1, INTEGER_MAX])
def test_a_row_can_be_written_as_json_whatever_its_session_s_sequence(highest: int) -> None:
    """After the highest sequence none is expected; a number beyond 64 bits is no JSON that readers take."""
    late = WINDOW_MS + 1
    ran = run(sessions_fold, log([(0, event(sequence=highest, at=0)), (late, event("other")), (late, event("other"))]))
    (row,) = session_rows([r for r in state_records(sessions_fold(), ran) if r.key.endswith("/s")])
    assert (row.released, row.waiting) == (1, 0)
    answered = orjson.loads(StageTable([row], 0).answer(SessionSort.CHANGED, session_totals, 1))
    assert answered["rows"][0]["next"] == (highest + 1 if highest < INTEGER_MAX else None)


def test_a_key_counts_as_it_was_written_last() -> None:
    records = state_records(sessions_fold(), folded("acme"))
    gone = [StateRecord(record.key, None, START_MS) for record in records if record.key.startswith("s/")]
    assert session_rows([*records, *records]) == session_rows(records)
    assert len(session_rows(records)) == 4
    assert session_rows([*records, *gone]) == []


def test_a_pattern_counts_the_contributions_that_stand() -> None:
    ran = folded("acme", "a/b")
    evidence = [
        LogRecord(0, n, START_MS + n, output.key, output.value, output.headers)
        for n, output in enumerate(ran.on("hmx.evidence.v1"))
    ]
    rows = pattern_rows(state_records(PatternsFold(), run(PatternsFold, evidence)))
    last = {(c["tenant_id"], c["pattern_type"], c["pattern_key"], c["session_id"]): c for c in ran.contributions}
    stand = Counter(key[:3] for key, c in last.items() if not c["withdrawn"])
    assert {row.name: row.contributions for row in rows if row.contributions} == stand
    assert all(row.sessions == row.contributions for row in rows), "each of these sessions is one segment"
    assert {row.status for row in rows} & {"active", "draft"}


def test_rows_stand_in_an_order_that_the_order_of_records_does_not_change() -> None:
    records = state_records(sessions_fold(), folded("acme", "a/b"))
    rows, other = session_rows(records), session_rows(reversed(records))
    for by in SessionSort:
        assert in_order(rows, by) == in_order(other, by)
    released = [row.released for row in in_order(rows, SessionSort.RELEASED)]
    assert released == sorted(released, reverse=True)
    assert [row.session for row in in_order(rows, SessionSort.SESSION)][:2] == ["session-0", "session-0"]
    assert session_totals(rows) == {
        "sessions": 8, "released": sum(released), "waiting": 0, "sessions_waiting": 0, "open_segments": 8,
    }  # fmt: skip


def test_what_patterns_come_to_counts_each_once_by_its_status() -> None:
    ran = folded("acme")
    evidence = [
        LogRecord(0, n, START_MS + n, output.key, output.value, output.headers)
        for n, output in enumerate(ran.on("hmx.evidence.v1"))
    ]
    rows = pattern_rows(state_records(PatternsFold(), run(PatternsFold, evidence)))
    totals = pattern_totals(rows)
    assert totals["patterns"] == len(rows) == sum(totals.get(status, 0) for status in (*Status, "silent"))
    assert all(bool(row.artifact) == bool(row.status) for row in rows)
    assert {row.changed for row in rows} == {START_MS}
    confident = [row.confidence for row in in_order(rows, PatternSort.CONFIDENCE)]
    assert confident == sorted(confident, reverse=True)
