"""The tables over HTTP: made of the asking tenant's records alone, and telling where they are not of all."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hmx_pipeline.service import overview
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.state_tables import StateRecord, pattern_rows
from hmx_pipeline.topology import EVIDENCE, PATTERNS, Stage
from tests.support.inprocess import events_log, run, sessions_fold
from tests.support.records import START_MS, LogRecord
from tests.support.sessions import session

OTHER = [StateRecord(f"{kind}/globex/x", b"what only globex's own look may fail for", START_MS) for kind in "swpm"]


def patterns_of_acme() -> list[StateRecord]:
    (records,) = events_log([item for n in range(4) for item in session(n, "acme")], 1).values()
    told = run(sessions_fold, records).on(EVIDENCE)
    evidence = [LogRecord(0, n, START_MS + n, one.key, one.value, one.headers) for n, one in enumerate(told)]
    ran = run(PatternsFold, evidence)
    return [StateRecord(key, PatternsFold().encode(key, value), START_MS) for key, value in ran.state.items()]


def test_a_table_decodes_no_other_tenant_s_records_is_kept_and_says_what_it_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records, asked = patterns_of_acme(), []

    def state(_: Settings, stage: Stage, tenant: str, *, newest: int, on_left_out: Callable[[int], None]) -> Any:
        asked.append((stage, tenant))
        on_left_out(5)
        on_left_out(2)
        return iter([*OTHER, *records])

    monkeypatch.setattr(overview, "state_records", state)
    looked = overview.Overview(Settings())

    async def looks() -> Any:
        return [await looked.patterns.get(tenant) for tenant in ("acme", "acme", "initech")]

    first, again, nothing = asyncio.run(looks())
    assert asked == [(PATTERNS, "acme"), (PATTERNS, "initech")]
    assert (first.rows, first.left_out) == (pattern_rows(records), 7)
    assert first.rows
    assert again is first
    assert nothing.rows == []


def test_tables_of_more_bytes_than_are_kept_are_read_again_those_first_that_nobody_has_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records, asked = patterns_of_acme(), []

    def state(_: Settings, __: Stage, tenant: str, **___: Any) -> Any:
        asked.append(tenant)
        return iter([record._replace(key=record.key.replace("/acme/", f"/{tenant}/")) for record in records])

    monkeypatch.setattr(overview, "state_records", state)
    rows = pattern_rows(records)
    tables = overview.Tables(Settings(), PATTERNS, lambda *_: rows)
    size = overview.StageTable(rows, 0).nbytes
    assert size > len(rows) * overview.ROW
    monkeypatch.setattr(overview, "TABLES_BYTES", 2 * size)

    async def looks() -> None:
        for tenant in ("a", "b", "a", "c", "a", "b"):
            assert (await tables.get(tenant)).rows == rows

    asyncio.run(looks())
    assert asked == ["a", "b", "c", "b"]


def test_what_took_long_is_kept_long(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    times: Iterator[int] = iter(range(9))

    def ask() -> int:
        nonlocal now
        now += 3
        return next(times)

    monkeypatch.setattr("hmx_pipeline.service.ttl_cache.time.monotonic", lambda: now)

    async def get_at(kept: TtlCache[int], *moments: float) -> list[int]:
        nonlocal now
        found = []
        for moment in moments:
            now = moment
            found.append(await kept.get())
        return found

    assert asyncio.run(get_at(TtlCache(ask, 1), 0, 3.5, 4.5)) == [0, 0, 1]
    assert asyncio.run(get_at(TtlCache(ask, 1, 10), 0, 32, 34)) == [2, 2, 3]
