"""What operators look at: `GET /v1/hmx/overview`, and the stages' tables, which are a tenant's.

The overview is what `hmx status` shows, the tables are what `hmx table` shows: read from Kafka, Redis and the processes
when somebody asks, kept for a few seconds, and bounded. Nothing is remembered here, so any service process answers.
"""

import time
from collections.abc import Iterator
from typing import Annotated, Final

import orjson
from confluent_kafka import KafkaException
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from pipeline.contracts.instants import format_ms
from pipeline.kafka.state_topics import state_records
from pipeline.kafka.topics import TopicsError
from pipeline.observe.asked import figures
from pipeline.service import standing
from pipeline.service.access import OPERATOR, Reader
from pipeline.service.kept import Kept
from pipeline.service.problems import Kind, unavailable
from pipeline.settings import Settings
from pipeline.stages.tables import (
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
from pipeline.store.fetch import Store
from pipeline.topology import PATTERNS, SESSIONS, Stage

KEPT_S: Final = 4.0
TABLE_KEPT_S: Final = 10.0
NEWEST: Final = 20_000
"""Offsets of each partition of a state topic that a table is made of, the last ones; `hmx table` reads all."""
ROWS: Final = 500
JSON: Final = "application/json"

router: Final = APIRouter(prefix="/v1/hmx", tags=["operating"])


class Overview:
    """`sessions` and `patterns` hold the rows of all tenants; only the asking tenant's are ever answered."""

    def __init__(self, settings: Settings) -> None:
        """Raises SettingsError where the processes are named in another form."""
        self._settings = settings
        self._addresses = settings.addresses()
        self.now = Kept(self._now, KEPT_S)
        self.sessions: Kept[list[SessionRow]] = Kept(lambda: session_rows(self._state(SESSIONS)), TABLE_KEPT_S)
        self.patterns: Kept[list[PatternRow]] = Kept(lambda: pattern_rows(self._state(PATTERNS)), TABLE_KEPT_S)

    def _now(self) -> bytes:
        settings = self._settings
        samples = figures(self._addresses.values())
        stages = standing.explained(lambda: standing.stages(settings, samples))
        memory = standing.explained(lambda: standing.memory(settings))
        told = {
            "at": format_ms(int(time.time() * 1000)),
            "processes": standing.processes(self._addresses),
            "stages": None if isinstance(stages, str) else stages,
            "memory": None if isinstance(memory, str) else memory,
            "problems": [said for said in (stages, memory) if isinstance(said, str)],
            "freshness": standing.freshness(samples),
            **standing.counted({} if isinstance(stages, str) else stages),
        }
        return orjson.dumps(told)

    def _state(self, stage: Stage) -> Iterator[StateRecord]:
        return state_records(self._settings, stage, NEWEST)


@router.get("/overview", dependencies=[OPERATOR])
async def get_overview(request: Request) -> Response:
    """Outcomes, rejections, lag, freshness, windows and processes, of all tenants together; no tenant is named."""
    return Response(await _overview(request).now.get(), media_type=JSON)


@router.get("/counts")
def get_counts(request: Request, tenant: Reader) -> Response:
    """How many artifacts the tenant's memory holds by type and status, and how many knowledge records by status."""
    store: Store = request.app.state.store
    return Response(orjson.dumps(store.counts(tenant)), media_type=JSON)


Limit = Annotated[int, Query(ge=1, le=ROWS)]


@router.get("/tables/sessions")
async def get_sessions(
    request: Request, tenant: Reader, sort: SessionSort = SessionSort.CHANGED, limit: Limit = 50
) -> Response:
    """The tenant's sessions that are remembered: released, waiting behind a gap, in the open segment."""
    rows = in_order([row for row in await _read(_overview(request).sessions) if row.tenant == tenant], sort)
    return _table(rows, session_totals(rows), limit)


@router.get("/tables/patterns")
async def get_patterns(
    request: Request, tenant: Reader, sort: PatternSort = PatternSort.CONTRIBUTIONS, limit: Limit = 50
) -> Response:
    """The tenant's patterns: how many contributions of how many sessions, and what was compiled of them."""
    rows = in_order([row for row in await _read(_overview(request).patterns) if row.tenant == tenant], sort)
    return _table(rows, pattern_totals(rows), limit)


async def _read(table: Kept[list[R]]) -> list[R]:
    """Raises ProblemError where Kafka does not answer."""
    try:
        return await table.get()
    except KafkaException as error:
        raise unavailable(Kind.KAFKA_UNAVAILABLE, f"the state topic can't be read: {error.args[0].str()}") from None
    except (TopicsError, TimeoutError) as error:
        raise unavailable(Kind.KAFKA_UNAVAILABLE, str(error)) from None


def _table(rows: list[R], totals: dict[str, int], limit: int) -> Response:
    told = {"totals": totals, "rows": [row.as_json() for row in rows[:limit]]}
    return Response(orjson.dumps(told), media_type=JSON)


def _overview(request: Request) -> Overview:
    overview = request.app.state.overview
    assert isinstance(overview, Overview)
    return overview
