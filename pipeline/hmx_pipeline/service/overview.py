"""`GET /v1/hmx/overview` and stage tables: the data of `hmx status` and `hmx table` over HTTP.

Enters: for all but the overview a tenant; for tables a sort order and a limit. Leaves: lag, outcomes and processes over
all tenants; a tenant's counts, subjects, sessions and patterns. Read on request from Kafka, Redis and the processes,
cached for a few seconds, and bounded. Any service process can answer.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Annotated, Final, Generic

import orjson
from confluent_kafka import KafkaException
from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response

from hmx_pipeline.contracts.limits import ID_BYTES, MB
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.observe.process_reader import figures
from hmx_pipeline.queries import pipeline_status
from hmx_pipeline.runtime.state_topics import state_records
from hmx_pipeline.service.access import OPERATOR, WholeReader
from hmx_pipeline.service.body import JSON
from hmx_pipeline.service.fair_turns import in_turn
from hmx_pipeline.service.problems import ProblemKind, unavailable
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.state_tables import (
    PatternRow,
    PatternSort,
    R,
    SessionRow,
    SessionSort,
    StateRecord,
    in_order,
    pattern_rows,
    pattern_totals,
    session_rows,
    session_totals,
)
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import PATTERNS, SESSIONS, Stage

KEPT_S: Final = 4.0
TABLE_KEPT_S: Final = 10.0
TABLE_KEPT_TIMES: Final = 10.0
"""A table is cached this many times as long as it took to make, so it uses at most a tenth of a thread."""
TENANTS: Final = 32
"""Tenants whose tables are cached, least recently used dropped."""
NEWEST: Final = 20_000
"""Newest offsets read per partition of a state topic; `hmx table` reads all."""
TABLES_BYTES: Final = 64 * MB
"""Bytes of cached tables per stage; beyond it the least recently used go."""
ROW: Final = 400
"""Approximate bytes per row besides its texts."""
ROWS: Final = 500

router: Final = APIRouter(prefix="/v1/hmx", tags=["operating"])


@dataclass(frozen=True)
class StageTable(Generic[R]):
    rows: list[R]
    left_out: int
    """Upper bound of older state records not read; above 0 the table may be incomplete."""

    @cached_property
    def nbytes(self) -> int:
        """Approximate size in memory."""
        return sum(ROW + sum(map(len, row.name)) + len(row.said) for row in self.rows)

    def answer(
        self, sort: SessionSort | PatternSort, totals: Callable[[list[R]], dict[str, int]], limit: int, text: str = ""
    ) -> bytes:
        found = [row for row in self.rows if text.casefold() in row.said.casefold()]
        rows = [row.as_json() for row in in_order(found, sort)[:limit]]
        whole = {"complete": not self.left_out, "left_out": self.left_out}
        return orjson.dumps({"totals": totals(found), **whole, "rows": rows})


class Tables(Generic[R]):
    """Cached tables of one stage by tenant; one is read at a time."""

    def __init__(self, settings: Settings, stage: Stage, rows: Callable[[Iterable[StateRecord], str], list[R]]) -> None:
        self._settings = settings
        self._stage = stage
        self._rows: Callable[[Iterable[StateRecord], str], list[R]] = rows
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[str, TtlCache[StageTable[R]]] = OrderedDict()
        self._sizes: dict[str, int] = {}

    async def get(self, tenant: str) -> StageTable[R]:
        """Returns a tenant's table. Raises ProblemError if Kafka does not answer."""
        try:
            async with self._turn:
                kept = self._kept.setdefault(
                    tenant, TtlCache(partial(self._read, tenant), TABLE_KEPT_S, TABLE_KEPT_TIMES)
                )
                self._kept.move_to_end(tenant)
                while len(self._kept) > TENANTS:
                    self._forget()
                table = await kept.get()
                self._sizes[tenant] = table.nbytes
                while sum(self._sizes.values()) > TABLES_BYTES:
                    self._forget()
                return table
        except KafkaException as error:
            raise unavailable(
                ProblemKind.KAFKA_UNAVAILABLE, f"the state topic can't be read: {error.args[0].str()}"
            ) from None
        except (TopicsError, TimeoutError) as error:
            raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, str(error)) from None

    def _forget(self) -> None:
        tenant, _ = self._kept.popitem(last=False)
        self._sizes.pop(tenant, None)

    def _read(self, tenant: str) -> StageTable[R]:
        left_out: list[int] = []
        records = state_records(self._settings, self._stage, tenant, newest=NEWEST, on_left_out=left_out.append)
        return StageTable(self._rows(records, tenant), sum(left_out))


class Overview:
    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError if HMX_PROCESSES is malformed."""
        self._settings = settings
        self._addresses = settings.addresses()
        self.now = TtlCache(self._now, KEPT_S)
        self.sessions: Tables[SessionRow] = Tables(settings, SESSIONS, session_rows)
        self.patterns: Tables[PatternRow] = Tables(settings, PATTERNS, pattern_rows)

    def _now(self) -> bytes:
        settings = self._settings
        samples = figures(self._addresses.values())
        stages = pipeline_status.explained(lambda: pipeline_status.stages(settings, samples))
        memory = pipeline_status.explained(lambda: pipeline_status.memory(settings))
        whole = pipeline_status.explained(lambda: pipeline_status.completeness(settings))
        told = {
            "at": format_ms(int(time.time() * 1000)),
            "processes": pipeline_status.processes(self._addresses),
            "stages": None if isinstance(stages, str) else stages,
            "memory": None if isinstance(memory, str) else memory,
            "memory_complete": None if isinstance(whole, str) else whole["complete"],
            "memory_said": whole if isinstance(whole, str) else whole["said"],
            "problems": [said for said in (stages, memory) if isinstance(said, str)],
            "freshness": pipeline_status.freshness(samples),
            **pipeline_status.counted({} if isinstance(stages, str) else stages),
        }
        return orjson.dumps(told)


@router.get("/overview", dependencies=[OPERATOR])
async def get_overview(request: Request) -> Response:
    """Returns outcomes, rejections, lag, freshness, windows and processes over all tenants, without naming any."""
    return Response(await _overview(request).now.get(), media_type=JSON)


@router.get("/counts")
@in_turn
def get_counts(request: Request, tenant: WholeReader) -> Response:
    """Counts the tenant's artifacts by type and status, and its knowledge records by status."""
    store: Store = request.app.state.store
    return Response(orjson.dumps(store.counts(tenant)), media_type=JSON)


@router.get("/subjects")
@in_turn
def get_subjects(request: Request, tenant: WholeReader, limit: Annotated[int, Query(ge=1, le=ROWS)] = 50) -> Response:
    """Lists the tenant's subjects: the people whose sessions these are, those with most sessions first."""
    store: Store = request.app.state.store
    found, complete = store.subjects(tenant)
    rows = [{"subject_id": name, "sessions": count} for name, count in pipeline_status.ranked(found)[:limit]]
    return Response(orjson.dumps({"total": len(found), "complete": complete, "subjects": rows}), media_type=JSON)


Limit = Annotated[int, Query(ge=1, le=ROWS)]
Text = Annotated[str, Query(max_length=ID_BYTES, description="Only rows whose name or title has this text")]


@router.get("/tables/sessions")
async def get_sessions(
    request: Request, tenant: WholeReader, sort: SessionSort = SessionSort.CHANGED, limit: Limit = 50, text: Text = ""
) -> Response:
    """Lists the tenant's sessions: events released, waiting behind a gap, and in the open segment."""
    table = await _overview(request).sessions.get(tenant)
    return Response(await run_in_threadpool(table.answer, sort, session_totals, limit, text), media_type=JSON)


@router.get("/tables/patterns")
async def get_patterns(
    request: Request,
    tenant: WholeReader,
    sort: PatternSort = PatternSort.CONTRIBUTIONS,
    limit: Limit = 50,
    text: Text = "",
) -> Response:
    """Lists the tenant's patterns: contributions, sessions and compiled artifacts."""
    table = await _overview(request).patterns.get(tenant)
    return Response(await run_in_threadpool(table.answer, sort, pattern_totals, limit, text), media_type=JSON)


def _overview(request: Request) -> Overview:
    overview = request.app.state.overview
    assert isinstance(overview, Overview)
    return overview
