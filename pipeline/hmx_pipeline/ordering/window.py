"""The reorder window of one session: release, wait or late, by sequence and append time (HMX-E §7).

Input: a cursor (how far the session has been released) and an arriving event. Output: a verdict, and the cursor after a
release. A waiting event waits until the partition's clock reaches its append time + window. Then it goes out, with all
that sort before it by (sequence, instant, event_id). In `eager` mode the next expected sequence goes out at once, and
only events behind a gap wait. In `strict` mode every event waits, so ties in sequence come out by timestamp. In both
modes an event with a sequence already passed, but dated after everything released, also waits: the session may have
restarted. If no event with sequence 0 arrives to confirm that, it is late.
"""

from bisect import bisect_left, insort
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec


class Cursor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How far a session has been released. `next` is 0 for a new session, so a first sequence above 0 is a gap."""

    next: int = 0
    index: int = 0
    """Number of events released so far."""
    run: int = 0
    newest: int = -(2**63)
    """Highest instant released in this run, late events included, in nanoseconds."""
    last: int = -(2**63)
    """Instant of the last event released in order."""
    peer_until: int = -1
    """Clock until which an event with the last released sequence is a tie of it."""


class Verdict(Enum):
    RELEASE = auto()
    """Next in order, or a tie of the event just released."""
    WAIT = auto()
    """Behind a gap, or the start of its run is missing."""
    LATE = auto()
    """An event that sorts after it has been released."""
    NEW_RUN = auto()
    """The sequence started over. Events that wait from the old run go out first."""


_RELEASE: Final = Verdict.RELEASE  # looking up an enum member costs ten times as much as a global name


def judge(cursor: Cursor, sequence: int, instant: int, clock: int) -> Verdict:
    """Judge an event that is no duplicate, in eager mode. Append times may go backwards; the clock does not."""
    if sequence == cursor.next:
        return _RELEASE
    if sequence > cursor.next:
        return Verdict.WAIT
    if sequence == cursor.next - 1 and clock < cursor.peer_until:
        return Verdict.RELEASE
    return _below(cursor, sequence, instant)


def judge_arrival(cursor: Cursor, instant: int, window_ns: int) -> Verdict:
    """Judge, in either mode, an event whose sequence only numbers arrivals (Y07). The log already gives that order, so
    the event waits for none. It is late if it is dated a window before the newest."""
    return Verdict.LATE if instant < cursor.newest - window_ns else Verdict.RELEASE


def judge_strictly(cursor: Cursor, sequence: int, instant: int) -> Verdict:
    """Judge an event in strict mode, where all wait. It is in order if it sorts at or after the last released."""
    if sequence >= cursor.next:
        return Verdict.WAIT
    below = _below(cursor, sequence, instant)
    tie = sequence == cursor.next - 1 and instant >= cursor.last
    return Verdict.WAIT if tie and below is Verdict.LATE else below


def _below(cursor: Cursor, sequence: int, instant: int) -> Verdict:
    """Judge an event whose sequence has been passed."""
    if instant <= cursor.newest:
        return Verdict.LATE
    return Verdict.NEW_RUN if sequence == 0 else Verdict.WAIT


def released(cursor: Cursor, sequence: int, instant: int, log_time: int, window_ms: int) -> Cursor:
    """Return the cursor after an event was released in order."""
    newest = max(instant, cursor.newest)
    return Cursor(sequence + 1, cursor.index + 1, cursor.run, newest, instant, log_time + window_ms)


def passed_aside(cursor: Cursor, instant: int) -> Cursor:
    """Return the cursor after an event was released late or in arrival order; the expected sequence stays."""
    return msgspec.structs.replace(cursor, index=cursor.index + 1, newest=max(cursor.newest, instant))


def started_over(cursor: Cursor) -> Cursor:
    """Return the cursor at the start of a new run."""
    return Cursor(next=0, index=cursor.index, run=cursor.run + 1)


class Waiting(NamedTuple):
    """A waiting event, in sort order."""

    sequence: int
    instant: int
    event_id: str


class Window:
    """The waiting events of one session, in order. It holds references only; bodies are state records."""

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
    """Return how many of the first waiting events sort below what was released. Only a new run puts these in order."""
    if strict:  # ties are ordered by timestamp
        return bisect_left(waiting, (cursor.next - 1, cursor.last), key=lambda entry: entry[:2])
    return bisect_left(waiting, cursor.next, key=lambda entry: entry.sequence)


def left_behind(cursor: Cursor, waiting: list[Waiting], began: int, *, strict: bool) -> list[Waiting]:
    """Return the waiting events that stay in the run of `cursor` when a sequence 0 of instant `began` starts a new run.
    Those dated from then on belong to the new run, and so do those that the old run cannot hold."""
    below = passed(cursor, waiting, strict=strict)
    return [
        entry
        for place, entry in enumerate(waiting)
        if entry.instant < began and (place >= below or entry.instant <= cursor.newest)
    ]


def follows(cursor: Cursor, entry: Waiting) -> bool:
    """Return True if `entry`, the first waiting event, goes out now in eager mode: it is next in order, or a tie."""
    return entry.sequence <= cursor.next
