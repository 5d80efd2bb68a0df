"""A session's timeline, whatever else has come with the session's key."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from hmx_pipeline.kafka.range_reader import PassingRecord
from hmx_pipeline.service.session_routes import _again
from hmx_pipeline.topology import EVENTS

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
