"""A session's timeline, whatever else has come with the session's key."""

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

from hmx_pipeline.kafka.range_reader import PassingRecord
from hmx_pipeline.service import session_routes
from hmx_pipeline.service.session_routes import PLACES, SessionPlaces, _again, _episodes
from hmx_pipeline.service.subscriptions import Start
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.topology import EPISODES, EVENTS

SHOWN = [{"id": "shown", "metadata": {"hmx": {"origin": {"partition": 0, "offset": 1, "log_time": 0}}}}]
UNREADABLE = (b'{"event_id":"\xff"}', b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b',"event_id":"shown"}', b"{", b"")


class Topic:
    """The events topic, with records of one session only."""

    stopping = False

    def __init__(self, *values: bytes) -> None:
        self._values = values

    async def end(self, _: object) -> int:
        return len(self._values)

    async def stored(self, *_: Any) -> AsyncGenerator[PassingRecord]:
        for offset, value in enumerate(self._values):
            yield PassingRecord((EVENTS, 0), offset, b"acme/s", value)


def counted(*values: bytes) -> dict[str, int]:
    topic: Any = Topic(b"", b'{"event_id":"shown"}', *values)
    return dict(asyncio.run(_again(topic, b"acme/s", SHOWN)))


def test_events_that_cannot_be_read_keep_no_timeline_from_being_shown() -> None:
    assert counted(*UNREADABLE, b'{"event_id":"shown"}') == {"shown": 1}


def test_of_the_events_that_came_again_only_those_shown_are_remembered() -> None:
    assert counted(*(b'{"event_id":"other-%d"}' % n for n in range(1_000))) == {"shown": 0}


class Episodes:
    """The episodes topic of one partition, whose third session is asked for."""

    stopping = False

    def __init__(self, forgotten: int = 1_000) -> None:
        self.read = 0
        self._forgotten = forgotten
        """After so many events the session is forgotten, and counts anew."""

    async def start(self, *_: object, **__: object) -> Start:
        return Start("id", {(EPISODES, 0): 0}, {(EPISODES, 0): 3_000})

    async def stored(self, begin: Any, end: Any, places: Any, wanted: Any, _: object) -> AsyncGenerator[PassingRecord]:
        (place,) = places
        for offset in range(begin[place], end[place]):
            self.read += 1
            key = b"acme/s%d" % (offset % 3)
            if wanted(key):
                release = b'{"metadata":{"hmx":{"release":{"index":%d}}}}' % (offset // 3 % self._forgotten)
                yield PassingRecord(place, offset, key, release)


def test_a_page_of_a_session_begins_where_the_page_before_it_ended() -> None:
    topic, state = Episodes(), SimpleNamespace(session_places=SessionPlaces())
    state.following, state.erased = topic, SimpleNamespace(get=lambda: asyncio.sleep(0, Erasures()))
    request: Any = SimpleNamespace(app=SimpleNamespace(state=state))

    def page(begin: int) -> tuple[list[int], int | None, int]:
        topic.read = 0
        found, more = asyncio.run(_episodes(request, "acme", "s2", begin))
        return [each["metadata"]["hmx"]["release"]["index"] for each in found], more, topic.read

    most = session_routes.MOST
    assert page(0) == ([*range(most)], most, 3 * most + 3)
    assert page(most) == ([*range(most, 1_000)], None, 3_000 - 3 * most - 2), "it was read from the start"
    assert page(0)[2] == 3 * most + 1, "the session's first offset is known"


def test_a_page_holds_the_same_whatever_was_read_before_of_a_session_that_was_forgotten_and_goes_on() -> None:
    def page(begin: int, state: Any) -> list[int]:
        state.following = Episodes(forgotten=600)
        state.erased = SimpleNamespace(get=lambda: asyncio.sleep(0, Erasures()))
        request: Any = SimpleNamespace(app=SimpleNamespace(state=state))
        found, _ = asyncio.run(_episodes(request, "acme", "s2", begin))
        return [each["metadata"]["hmx"]["release"]["index"] for each in found]

    read = SimpleNamespace(session_places=SessionPlaces())
    for begin in (0, 100, 350, 500, 100):
        assert page(begin, read) == page(begin, SimpleNamespace(session_places=SessionPlaces()))


def test_of_ever_more_pages_few_places_are_remembered() -> None:
    places = SessionPlaces()
    for index in range(2 * PLACES):
        places.put("id", "acme/s", index, index + 1)
    assert places.get("id", "acme/s", 0) == 0
    assert places.get("id", "acme/s", 2 * PLACES - 1) == 2 * PLACES
    assert len(places._offsets) == PLACES
