"""`GET /v1/hmx/sessions/{session_id}`: a session's events in order, its segments, and what was learnt from each.

Enters: a session, and the place in its order to begin at. Leaves: bounded views. Events are read from Kafka, because
only Kafka holds all events and their repeats. What was learnt is read from memory. Raises ProblemError if either does
not answer.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Annotated, Any, Final

import msgspec
import orjson
from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.event import Id
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.limits import INTEGER_MAX, MB
from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka.range_reader import PassingRecord
from hmx_pipeline.queries.session_timeline import SessionTimeline, episode_origin, timeline
from hmx_pipeline.service import path_ids  # noqa: F401  the route below says `:id`
from hmx_pipeline.service.access import WholeReader
from hmx_pipeline.service.body import JSON
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.memory import erased_of, missing, store_of
from hmx_pipeline.service.problems import ProblemKind, unavailable
from hmx_pipeline.service.streams import hidden
from hmx_pipeline.service.subscriptions import FAILURES, Subscriptions
from hmx_pipeline.topology import EPISODES, EVENTS

MOST: Final = 500
BYTES: Final = 8 * MB
"""Limits of one answer: its events, and the bytes read for it."""
SEARCH_S: Final = 60.0
"""Longest search of the session's partitions."""
AT_ONCE, AT_ONCE_EACH = 8, 2
"""Searches at the same time, in total and of a tenant."""
PLACES: Final = 4_096
"""Places in sessions whose offsets a process remembers; a page of others is searched from the partition's start."""

Json = dict[str, Any]


class _Named(msgspec.Struct):
    event_id: str


_named: Final = msgspec.json.Decoder(_Named).decode


class SessionPlaces:
    """Where places in sessions' orders are in the episodes topic, so that a page begins there."""

    def __init__(self) -> None:
        self._offsets: dict[tuple[str, str, int], int] = {}

    def get(self, topics: str, key: str, index: int) -> int:
        return self._offsets.get((topics, key, index), 0)

    def put(self, topics: str, key: str, index: int, offset: int) -> None:
        self._offsets.pop((topics, key, index), None)
        self._offsets[topics, key, index] = offset
        if len(self._offsets) > PLACES:
            del self._offsets[next(iter(self._offsets))]


router: Final = APIRouter(prefix="/v1/hmx", tags=["operating"])


@router.get("/sessions/{session_id:id}", responses={200: {"model": SessionTimeline}})
async def get_session(
    request: Request,
    tenant: WholeReader,
    session_id: Id,
    begin: Annotated[int, Query(ge=0, le=INTEGER_MAX, description="`next` of the answer before")] = 0,
) -> Response:
    """Returns a session's events in order, the segments that begin among them, and what was learnt from each."""
    following: Subscriptions = request.app.state.following
    searching: FairTurns = request.app.state.searching
    limit = asyncio.timeout(SEARCH_S)
    try:
        async with searching.of(tenant), limit:
            with following.counted(tenant, "session"):
                episodes, more = await _episodes(request, tenant, session_id, begin)
                again = await _again(following, session_key(tenant, session_id).encode(), episodes)
    except FAILURES as error:
        detail = f"Kafka does not answer: {type(error).__name__}"
        if limit.expired():
            detail = f"the search took over {SEARCH_S:.0f} s: GET /v1/hmx/events?session= has no time limit"
        raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, detail) from None
    if not episodes:
        raise missing(request, tenant, "session")
    turns: FairTurns = request.app.state.reading
    found = await turns.run(tenant, timeline, store_of(request), tenant, episodes, more, again)
    return Response(found.to_json(), media_type=JSON)


async def _episodes(request: Request, tenant: str, session_id: str, begin: int) -> tuple[list[Json], int | None]:
    """Returns the session's episodes from a position in its order, and the position of the next ones."""
    following: Subscriptions = request.app.state.following
    known: SessionPlaces = request.app.state.session_places
    start = await following.start(tenant, None, from_start=True)
    erased, key = await erased_of(request), session_key(tenant, session_id)
    places = [place for place in sorted(start.positions) if place[0] == EPISODES]
    place, found, size, last = places[partition_of(key, len(places))], list[Json](), 0, -1
    low = max(start.positions[place], known.get(start.name, key, begin))
    async for record in of_session(following, key.encode(), place, low, start.ends[place]):
        if record.value is None or hidden(erased, record):
            continue
        episode = orjson.loads(record.value)
        if (index := episode["metadata"][RESERVED]["release"]["index"]) < begin:
            continue
        size += len(record.value)
        full = len(found) == MOST or (found and size > BYTES)
        if index > last if full else not found:  # a session that was forgotten and goes on counts from 0 again
            known.put(start.name, key, index if full else begin, record.offset)
        if full:
            return found, index
        found.append(episode)
        last = max(last, index)
    return found, None


async def _again(following: Subscriptions, key: bytes, episodes: list[Json]) -> dict[str, int]:
    """Returns for each of these episodes how many further events came with its id."""
    again = {str(episode["id"]): 0 for episode in episodes}
    if episodes:
        released = {episode_origin(episode).offset for episode in episodes}
        place = (EVENTS, episode_origin(episodes[0]).partition)
        async for record in of_session(following, key, place, min(released), await following.end(place)):
            if record.offset not in released:
                with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
                    again[_named(record.value or b"").event_id] += 1
    return again


async def of_session(
    following: Subscriptions, key: bytes, place: Place, begin: int, end: int
) -> AsyncGenerator[PassingRecord]:
    steps = following.stored({place: begin}, {place: end}, [place], key.__eq__, lambda: not following.stopping)
    async with aclosing(steps):
        async for step in steps:
            if isinstance(step, PassingRecord):
                yield step
    if following.stopping:
        raise unavailable(ProblemKind.BUSY, "the service is stopping: ask again")
