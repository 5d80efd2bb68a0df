"""`GET /v1/health` and `/v1/usage-metrics`: a tenant's counts in this process, per minute.

Enters: counts by tenant and name, from the other routes of this API. Leaves: their sums over the last hour, day, week
or 30 days. Counts are per process and lost at its end. Bounds: 30 days of minutes, 64 event types per minute, 1,000
tenants (the longest silent is dropped), 200,000 figures in total (the largest tenant loses its oldest minutes).
"""

import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.timestamps import format_ms, utc
from hmx_pipeline.service.access import WholeReader
from hmx_pipeline.service.hippocortex.answer_envelope import success
from hmx_pipeline.service.service_routes import asked

MINUTE_S: Final = 60
KEPT_MINUTES: Final = 30 * 24 * 60
TENANTS: Final = 1_000
NAMES: Final = 64
NAME: Final = 128
"""Longest name of an event type that is counted separately."""
FIGURES: Final = 200_000
TYPE: Final = "type:"
OTHER: Final = "type:other"
UNLIMITED: Final = 2**53 - 1
"""2^53 − 1, because the clients count in doubles."""
PLAN: Final = "self-hosted"
_MINUTES: Final[Mapping[str, int]] = {"1h": 60, "24h": 24 * 60, "7d": 7 * 24 * 60, "30d": KEPT_MINUTES}

router: Final = APIRouter()


class Usage:
    """Counts by tenant, minute and name."""

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._now_s = now_s
        self._tenants: OrderedDict[str, OrderedDict[int, Counter[str]]] = OrderedDict()
        self._figures: Counter[str] = Counter()
        """Number of figures per tenant."""
        self._all = 0

    def count(self, tenant: str, name: str, by: float = 1) -> None:
        minutes = self._tenants.setdefault(tenant, OrderedDict())
        self._tenants.move_to_end(tenant)
        while len(self._tenants) > TENANTS:
            self._all -= self._figures.pop(self._tenants.popitem(last=False)[0], 0)
        now = int(self._now_s() // MINUTE_S)
        counts = minutes.setdefault(now, Counter())
        while next(iter(minutes)) <= now - KEPT_MINUTES:
            self._forget_minute(tenant)
        if name.startswith(TYPE) and name not in counts and (len(counts) >= NAMES or len(name) > NAME):
            name = OTHER
        if name not in counts:
            self._figures[tenant] += 1
            self._all += 1
        counts[name] += by  # type: ignore[assignment]  # ratios are summed too

        while self._all > FIGURES:
            self._forget_minute(max(self._figures, key=lambda one: (self._figures[one], one)))

    def _forget_minute(self, tenant: str) -> None:
        _, gone = self._tenants[tenant].popitem(last=False)
        self._figures[tenant] -= len(gone)
        self._all -= len(gone)

    def since(self, tenant: str, minutes: int) -> Counter[str]:
        """Returns the counts of the last minutes, the current one included."""
        first = int(self._now_s() // MINUTE_S) - minutes + 1
        total: Counter[str] = Counter()
        for minute, counts in self._tenants.get(tenant, {}).items():
            if minute >= first:
                total.update(counts)
        return total

    def now_ms(self) -> int:
        return int(self._now_s() * 1000)


@router.get("/health")
async def well(request: Request) -> Response:
    """Reports whether Kafka and Redis answer; needs no key."""
    answers = await asked(request.app.state.checks)
    parts = {name: why_not or "answers" for name, why_not in answers.items()}
    return success(request, {"status": "degraded" if any(answers.values()) else "ok", **parts})


@router.get("/usage-metrics")
async def usage_metrics(
    request: Request,
    tenant: WholeReader,
    period: Annotated[Literal["1h", "24h", "7d", "30d"], Query()] = "24h",
    granularity: Annotated[Literal["minute", "hour", "day"], Query()] = "hour",
) -> Response:
    """Returns what this process has taken, compiled and answered in a period."""
    usage: Usage = request.app.state.usage
    now = usage.now_ms()
    start = now - _MINUTES[period] * MINUTE_S * 1000
    said = {
        "period": {"start": format_ms(start), "end": format_ms(now), "granularity": granularity},
        "usage": _usage(usage.since(tenant, _MINUTES[period])),
        "quota": _quota(int(usage.since(tenant, KEPT_MINUTES)["ingested"]), now),
    }
    return success(request, said)


def _usage(counts: Counter[str]) -> dict[str, Any]:
    ingested, duplicates, errors = (int(counts[name]) for name in ("ingested", "duplicates", "errors"))
    asked = int(counts["syntheses"])
    return {
        "events": {
            "total": ingested + duplicates + errors,
            "ingested": ingested,
            "duplicates": duplicates,
            "errors": errors,
            "byType": {name.removeprefix(TYPE): int(n) for name, n in sorted(counts.items()) if name.startswith(TYPE)},
        },
        "compilations": {
            "total": int(counts["compilations"]),
            "artifactsCreated": int(counts["created"]),
            "artifactsUpdated": int(counts["updated"]),
        },
        "syntheses": {
            "total": asked,
            "avgTokensUsed": round(counts["tokens"] / asked, 1) if asked else 0,
            "avgCompressionRatio": round(counts["ratio"] / asked, 4) if asked else 0,
        },
    }


def _quota(used: int, now_ms: int) -> dict[str, Any]:
    """Returns a quota without limit, since the clients expect numbers."""
    first = utc(now_ms).astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    following: datetime = (first + timedelta(days=32)).replace(day=1)
    return {
        "plan": PLAN,
        "eventsUsed": used,
        "eventsRemaining": UNLIMITED - used,
        "eventsLimit": UNLIMITED,
        "resetDate": format_ms(int(following.timestamp() * 1000)),
    }
