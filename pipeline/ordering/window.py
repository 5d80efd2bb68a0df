"""The reorder window of one session (HMX-E §7).

Enters: a cursor (how far the session has been released), an arrival. Leaves: a verdict, and the cursor after a release.
What waits does so until the partition's clock reaches its append time + window; then it and all that sort before it, by
(sequence, instant, event_id), go out. `eager`: the next expected sequence goes out at once, and only what stands behind
a gap waits; `strict`: everything waits, so ties in sequence come out by timestamp. In both a sequence that was passed,
dated after everything released, waits too: its session may have been restarted, and the sequence 0 that says so may
come second. Where none comes it is late. Nothing here fails: any order of arrivals has an outcome.
"""

from bisect import bisect_left, insort
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec


class Cursor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a session has been released. `next` is 0 for a new session, so a first sequence above 0 is a gap."""

    next: int = 0
    index: int = 0
    """Events released so far."""
    run: int = 0
    newest: int = -(2**63)
    """Highest instant released in this run, late ones too, nanoseconds."""
    last: int = -(2**63)
    """Instant of the last event released in order."""
    peer_until: int = -1
    """The clock until which an event with the last released sequence is its tie."""


class Verdict(Enum):
    RELEASE = auto()
    """Next in order, or a tie of the one just released."""
    WAIT = auto()
    """Behind a gap, or for the beginning of its run."""
    LATE = auto()
    """Something that should have followed it is out."""
    NEW_RUN = auto()
    """The session's counter has started over: what waits from before goes out first."""


_RELEASE: Final = Verdict.RELEASE  # an enum's member costs ten times a name


def judge(cursor: Cursor, sequence: int, instant: int, clock: int) -> Verdict:
    """What becomes of an event that is no duplicate, eagerly. Append times may go backwards; the clock doesn't."""
    if sequence == cursor.next:
        return _RELEASE
    if sequence > cursor.next:
        return Verdict.WAIT
    if sequence == cursor.next - 1 and clock < cursor.peer_until:
        return Verdict.RELEASE
    return _below(cursor, sequence, instant)


def judge_arrival(cursor: Cursor, instant: int, window_ns: int) -> Verdict:
    """What becomes, in either mode, of an event whose sequence only says in which order events came (Y07): the log says
    that already, so it waits for none and none for it. Dated a window before the newest it comes late all the same."""
    return Verdict.LATE if instant < cursor.newest - window_ns else Verdict.RELEASE


def judge_strictly(cursor: Cursor, sequence: int, instant: int) -> Verdict:
    """The same where everything waits: in order is what sorts at or after the last released."""
    if sequence >= cursor.next:
        return Verdict.WAIT
    below = _below(cursor, sequence, instant)
    tie = sequence == cursor.next - 1 and instant >= cursor.last
    return Verdict.WAIT if tie and below is Verdict.LATE else below


def _below(cursor: Cursor, sequence: int, instant: int) -> Verdict:
    """What becomes of a sequence that has been passed."""
    if instant <= cursor.newest:
        return Verdict.LATE
    return Verdict.NEW_RUN if sequence == 0 else Verdict.WAIT


def released(cursor: Cursor, sequence: int, instant: int, log_time: int, window_ms: int) -> Cursor:
    """The cursor after an event went out in order."""
    newest = max(instant, cursor.newest)
    return Cursor(sequence + 1, cursor.index + 1, cursor.run, newest, instant, log_time + window_ms)


def passed_aside(cursor: Cursor, instant: int) -> Cursor:
    """The cursor after an event went out late, or in its order of arrival: what sequences say so far stands."""
    return msgspec.structs.replace(cursor, index=cursor.index + 1, newest=max(cursor.newest, instant))


def started_over(cursor: Cursor) -> Cursor:
    """The cursor at the beginning of a new run."""
    return Cursor(next=0, index=cursor.index, run=cursor.run + 1)


class Waiting(NamedTuple):
    """An event behind a gap, as it sorts."""

    sequence: int
    instant: int
    event_id: str


class Window:
    """The events of one session that wait, in order. Holds references only; bodies are state records."""

    __slots__ = ("_entries",)

    def __init__(self) -> None:
        self._entries: list[Waiting] = []

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: Waiting) -> None:
        insort(self._entries, entry)

    def remove(self, entry: Waiting) -> None:
        self._entries.remove(entry)

    def all(self) -> list[Waiting]:
        return list(self._entries)


def passed(cursor: Cursor, waiting: list[Waiting], *, strict: bool) -> int:
    """How many of what waits, the first of them, stand below what was released: only a new run puts them in order."""
    if strict:  # a tie comes out by its timestamp
        return bisect_left(waiting, (cursor.next - 1, cursor.last), key=lambda entry: entry[:2])
    return bisect_left(waiting, cursor.next, key=lambda entry: entry.sequence)


def left_behind(cursor: Cursor, waiting: list[Waiting], began: int, *, strict: bool) -> list[Waiting]:
    """What waits in the run of `cursor` where a sequence 0 of instant `began` opens another one. All that is dated from
    there on is the new run's, and so is what could not be the old one's."""
    below = passed(cursor, waiting, strict=strict)
    return [
        entry
        for place, entry in enumerate(waiting)
        if entry.instant < began and (place >= below or entry.instant <= cursor.newest)
    ]


def follows(cursor: Cursor, entry: Waiting) -> bool:
    """Eagerly: does `entry`, the first that waits, go out without any more waiting: the next in order, or a tie?"""
    return entry.sequence <= cursor.next
