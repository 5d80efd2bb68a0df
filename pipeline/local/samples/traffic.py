"""What happens to events on their way: some overtake others, some come twice, one never, and some are no events at all.

Enters: stories. Leaves: records in the order in which they are published, and what must become of them. Every choice
is made by counting, so the same stories give the same bytes.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

from pipeline.contracts.ids import content_id
from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason
from pipeline.local.samples.story import Story

_OVERTAKEN_EVERY: Final = 19
_TWICE_EVERY: Final = 31
_REJECTED_EVERY: Final = 47

Event = dict[str, Any]


class Samples(NamedTuple):
    records: list[bytes]
    sessions: int
    outcomes: dict[Outcome, int]
    """How many records end each way; the pipeline's own control records come on top."""
    rejections: dict[Reason, int]


def on_their_way(stories: Sequence[Story], lost: str) -> Samples:
    """`lost` is the id of an event that is never sent; the first story gets a late one."""
    sent = _overtaking([event for story in stories for event in story.events if event["event_id"] != lost])
    late = _stale(stories[0])
    records: list[bytes] = []
    wrong = list(_wrong(sent[60]))
    twice = 0
    for number, event in enumerate(sent, 1):
        records.append(_line(event))
        if number % _TWICE_EVERY == 0:
            again = sent[number - 1 - number % 3]  # a producer that saw no acknowledgement sends once more
            records.append(_line(again) if number % 2 else _reordered(again))
            twice += 1
        if number % _REJECTED_EVERY == 0 and number > 60 and wrong:
            records.append(wrong.pop(0)[1])
        if number == len(stories[0].events) + 40:
            records.append(_line(late))
    records.extend(line for _, line in wrong)
    rejections = Counter(reason for reason, _ in _wrong(sent[60]))
    return Samples(
        records,
        len(stories),
        {
            Outcome.RELEASED: len(sent),
            Outcome.RELEASED_LATE: 1,
            Outcome.DUPLICATE: twice,
            Outcome.REJECTED: rejections.total(),
        },
        dict(rejections),
    )


def _overtaking(events: Iterable[Event]) -> list[Event]:
    """In the order of time, but now and then an event is overtaken by the next two of its session."""
    queue = sorted(events, key=lambda event: (event["timestamp"], event["event_id"]))
    ends = {event["session_id"]: event["sequence"] for event in queue}
    sent: list[Event] = []
    held: dict[str, tuple[Event, int]] = {}
    for number, event in enumerate(queue, 1):
        session = event["session_id"]
        if number % _OVERTAKEN_EVERY == 0 and session not in held and event["sequence"] + 2 <= ends[session]:
            held[session] = (event, 2)
            continue
        sent.append(event)
        if session in held:
            waiting, left = held.pop(session)
            if left > 1:
                held[session] = (waiting, left - 1)
            else:
                sent.append(waiting)
    return sent


def _stale(story: Story) -> Event:
    """A log shipper that wakes up when its session is long over, with a counter of its own."""
    last = story.events[-1]
    return {
        **story.events[3],
        "event_id": content_id(0, last["session_id"], "log shipper"),
        "event_type": "observation",
        "timestamp": last["timestamp"],
        "content": {"text": "log shipper: 214 lines of ci output were delayed"},
        "source": "log-shipper",
    }


def _line(event: Event) -> bytes:
    return json.dumps(event, separators=(",", ":"), ensure_ascii=False).encode()


def _reordered(event: Event) -> bytes:
    """The same event from another serialiser."""
    return json.dumps(event, sort_keys=True).encode()


def _wrong(valid: Event) -> Iterable[tuple[Reason, bytes]]:
    """One record for each of the mistakes that producers make most, made from a valid event."""

    def but(number: int, **changed: Any) -> bytes:
        return _line({**valid, "event_id": content_id(number, "wrong"), **changed})

    line = _line(valid)
    yield Reason.NOT_UTF8, but(1, source="Zoë").replace("ë".encode(), b"\xeb")
    yield Reason.NOT_JSON, line[: len(line) // 2]
    yield Reason.NOT_AN_OBJECT, b"[" + line + b"]"
    yield Reason.DUPLICATE_KEY, line[:-1] + b',"sequence":7}'
    yield Reason.MISSING_FIELD, _line({name: value for name, value in valid.items() if name != "agent_id"})
    yield Reason.WRONG_TYPE, but(2, content="deployed")
    yield Reason.UNKNOWN_FIELD, but(3, importance="high")
    yield Reason.UNSUPPORTED_VERSION, but(4, hmx_version="HMX-2.0")
    yield Reason.BAD_TIMESTAMP, but(5, timestamp=valid["timestamp"].removesuffix("Z"))
    yield Reason.BAD_SEQUENCE, but(6, sequence=-1)
    yield Reason.BAD_SALIENCE, but(7, salience=11)
    yield Reason.EVENT_ID_REUSED, _line({**valid, "content": {"text": "another event under the same id"}})
    yield Reason.RESERVED, but(8, event_type="x-hmx-tick")
