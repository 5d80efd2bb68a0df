"""The events that the lines are measured with, the same in every run.

Enters: a count. Leaves: values of records. Sessions are real where the open data is, else the samples; they come again
under other names up to the count, and a few hundred run at a time. Every session's sequence counts from 0 without gaps.
"""

import gzip
import json
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import chain, count, islice, zip_longest
from typing import Any, Final

import orjson

from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.local.samples import sample_events
from tests.support.data import FOLDER

DATA_SETS: Final = ("tau", "swe", "claude_code")
AT_A_TIME: Final = 256
"""Sessions that are under way at the same time."""
TENANTS: Final = 8
"""Each tenant of the data becomes so many: evidence is spread over partitions by tenant."""

Event = dict[str, Any]


def source() -> str:
    return "real sessions" if _files() else "samples"


@cache
def events(wanted: int) -> list[Event]:
    return list(islice(_interleaved(_endless()), wanted))


@cache
def compact(wanted: int) -> list[bytes]:
    return [orjson.dumps(event) for event in events(wanted)]


@cache
def spaced(wanted: int) -> list[bytes]:
    """As `json.dumps` writes by itself: blanks after colons and commas, all but ASCII escaped."""
    return [json.dumps(event).encode() for event in events(wanted)]


@cache
def invalid(wanted: int) -> list[bytes]:
    """One defect each, in turns: what producers get wrong, from the bytes to single fields."""
    return [_spoilt(number, event) for number, event in enumerate(events(wanted))]


def _spoilt(number: int, event: Event) -> bytes:
    whole = orjson.dumps(event)
    defects: list[bytes | Event] = [
        whole[:-2],
        {name: value for name, value in event.items() if name != "agent_id"},
        {**event, "timestamp": event["timestamp"].replace("T", " ").replace("Z", "")},
        {**event, "sequence": str(event["sequence"])},
        {**event, "content": [event["content"]]},
        {**event, "unheard_of": 1},
        {**event, "hmx_version": "2.0"},
        whole.replace(b'"agent_id"', b'"event_id":"again","agent_id"', 1),
    ]
    spoilt = defects[number % len(defects)]
    return spoilt if isinstance(spoilt, bytes) else orjson.dumps(spoilt)


def _files() -> list[str]:
    return [name for name in DATA_SETS if (FOLDER / f"{name}.ndjson.gz").exists()]


def _endless() -> Iterator[list[Event]]:
    """Sessions of all data sets in turns, then the same ones under other names."""
    known = _sessions()
    for copy in count():
        for number, session in enumerate(known):
            name, tenant = f"-{copy}", f"-{number % TENANTS}"
            yield [
                {**event, "session_id": event["session_id"] + name, "tenant_id": event["tenant_id"] + tenant}
                for event in session
            ]


@cache
def _sessions() -> list[list[Event]]:
    files = _files()
    if not files:
        return by_session(sample_events())
    sets = [by_session(gzip.decompress((FOLDER / f"{name}.ndjson.gz").read_bytes()).splitlines()) for name in files]
    return [session for session in chain.from_iterable(zip_longest(*sets)) if session is not None]


def by_session(lines: Iterable[bytes]) -> list[list[Event]]:
    """Valid events, each once, in their order and numbered without gaps."""
    found: dict[tuple[str, str], dict[str, Event]] = {}
    for line in lines:
        if isinstance(decode(line), Accepted):
            event = orjson.loads(line)
            found.setdefault((event["tenant_id"], event["session_id"]), {})[event["event_id"]] = event
    return [
        [{**event, "sequence": n} for n, event in enumerate(sorted(session.values(), key=lambda e: e["sequence"]))]
        for session in found.values()
    ]


def _interleaved(sessions: Iterator[list[Event]]) -> Iterator[Event]:
    """An event of each session under way, round and round; where one ends the next one begins."""
    under_way = [iter(session) for session in islice(sessions, AT_A_TIME)]
    while True:
        for place, session in enumerate(under_way):
            event = next(session, None)
            while event is None:
                under_way[place] = iter(next(sessions))
                event = next(under_way[place], None)
            yield event
