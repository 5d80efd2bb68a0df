"""State of the sessions stage: many small records per session, and in-memory indexes over them. Enters: each change of
a state record (key, old, new). Leaves: the events that wait, the sessions to forget first, and when a record is due (ms
of the partition's clock).

| key | record |
|---|---|
| `s/tenant/session` | Session: cursor, open segment, when last touched |
| `w/tenant/session/sequence/event_id` | Held: an event behind a gap |
| `e/tenant/session/index` | Traces: of the events released from there on, in one batch or less, id, digest and step |
| `g/tenant/session/index` | SegmentRecord: contributions of the segment from there on, and its steps once closed |
| `o/tenant/hash of the session` | SessionOwner: whose a forgotten session is; without hash: some are lost |
| `z/barrier_id` | HeldBarrier: a barrier behind held events |
| `x/tenant/erasure_id` | ErasedPast: an operator's erasure |
| `r/tenant` | RetainedPast: what leaves the tenant's memory by its policies |
| `y/barrier_id` | PassingBarrier: a barrier for which the open segments are emitted, one after the other |
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from heapq import heappop, heappush, heapreplace
from itertools import chain
from typing import Any, Final

import msgspec

from hmx_pipeline.contracts.evidence import Segment, Step
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS, TRACE_BYTES
from hmx_pipeline.contracts.retention import RetainedPast
from hmx_pipeline.ordering.window import Cursor, Waiting, Window
from hmx_pipeline.segments.head import SegmentHead
from hmx_pipeline.stages.append_log import JOURNAL
from hmx_pipeline.stages.fair_shares import FairShares
from hmx_pipeline.stages.session_owners import OwnerIndex, SessionOwner
from hmx_pipeline.stages.state_tx import STALE_TIMERS


class SessionState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    cursor: Cursor = Cursor()
    touched: int = 0
    """Partition clock at the last event."""
    head: SegmentHead | None = None
    """The segmenter's state of the open segment."""
    segment_id: str = ""
    segment_first: int = 0
    """Index of the open segment's first event."""
    agent_id: str = ""
    dirty: bool = False
    """True if the open segment has steps that no contribution covers yet."""
    closed: tuple[int, ...] = ()
    """First indexes of the closed segments that late feedback can reach, oldest first."""
    trace: str = ""
    """traceparent of the last event in order; contributions carry it."""
    nbytes: int = 0
    """Estimated bytes of its traces and closed segments, as written."""
    traced: tuple[int, ...] = ()
    """Bytes of traces between two trims, oldest first; those since the last trim are not included."""
    closed_bytes: tuple[int, ...] = ()
    """Bytes of each closed segment; missing for those that a former release closed."""
    subject: str = ""
    """The first subject that its events name."""
    speak_at: int = 0
    """Clock at which the open segment contributes what was stated since it last did; 0: nothing was."""
    claimed_at: int = 0
    """Append time of the event that named its subject, if others came before; else 0."""


class BufferedEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    deadline: int
    offset: int
    log_time: int
    instant: int
    digest: bytes
    event: msgspec.Raw
    """The event as intake accepted it."""
    notes: tuple[str, ...] = ()
    redacted: tuple[str, ...] = ()
    trace: str = ""
    """Its traceparent."""
    proven: bool = True


class ReleasedEvent(msgspec.Struct, frozen=True, array_like=True, gc=False):
    event_id: str
    digest: bytes
    step: Step | None


class SegmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    said: dict[str, str]
    """Pattern → digest of the last contribution to it."""
    segment: Segment | None = None
    """Set once the segment is closed, unless it is too large."""


class ErasedPast(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An erasure: events that it covers are turned away if they are of its time."""

    deadline: int
    at: int
    marks: tuple[str, ...]
    newest: dict[str, int] = {}
    """Mark of a session → time of its last erased event, if that is dated after the erasure."""


class HeldBarrier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    deadline: int
    barrier_id: str
    tenant_id: str = ""
    """The tenant whose sessions it asks for; empty for all."""
    partitions: int = 0
    """How many partitions of the events topic it stands in; 0 for all."""


class PassingBarrier(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    offset: int
    """Offset of the record with which it began to pass."""
    barrier_id: str
    tenant_id: str = ""
    partitions: int = 0


_TYPES: Final[dict[str, Any]] = {
    "s": SessionState,
    "w": BufferedEvent,
    "e": list[ReleasedEvent],
    "g": SegmentRecord,
    "o": SessionOwner,
    "z": HeldBarrier,
    "y": PassingBarrier,
    "x": ErasedPast,
    "r": RetainedPast,
}
assert JOURNAL == "e/"
HELD: Final = "w/"
"""Key prefix of an event behind a gap."""
_DECODERS: Final = {prefix: msgspec.json.Decoder(type_) for prefix, type_ in _TYPES.items()}
_ENCODER: Final = msgspec.json.Encoder()
_encoded: Final = _ENCODER.encode


def session_state_key(session: str) -> str:
    """`session` is a `keys.session_key`."""
    return f"s/{session}"


def held_key(session: str, entry: Waiting) -> str:
    return f"{HELD}{session}/{entry.sequence:020d}/{join_key(entry.event_id)}"


def segment_key(session: str, first: int) -> str:
    return f"g/{session}/{first:012d}"


def barrier_key(barrier_id: str) -> str:
    return f"z/{join_key(barrier_id)}"


def erased_key(tenant_id: str, erasure_id: str) -> str:
    return f"x/{join_key(tenant_id, erasure_id)}"


def retained_key(tenant_id: str) -> str:
    return f"r/{join_key(tenant_id)}"


def session_of(key: str) -> str:
    """Return the session of a state key."""
    _, tenant, session, *_ = key.split("/")
    return f"{tenant}/{session}"


def tenant_of(session: str) -> str:
    """Return the encoded tenant of a session key."""
    return session[: session.index("/")]


def held_entry(key: str, held: BufferedEvent) -> Waiting:
    *_, sequence, event_id = key.split("/")
    return Waiting(int(sequence), held.instant, split_key(event_id)[0])


def passing_key(barrier_id: str) -> str:
    return f"y/{join_key(barrier_id)}"


def decode_state(key: str, value: bytes) -> Any:
    return _DECODERS[key[0]].decode(value)


def encode_state(_: str, value: Any) -> bytes:
    return _encoded(value)


def trace_bytes(event: int, step: Step | None) -> int:
    """Estimate the bytes of a trace from those of its event."""
    return event if event <= TRACE_BYTES else TRACE_BYTES // 2 + (len(_encoded(step)) if step is not None else 0)


def state_deadline(_: str, value: Any) -> int | None:
    """Return the clock at which the record is due."""
    if type(value) is SessionState:
        if not value.dirty:
            return value.touched + SESSION_FORGOTTEN_MS
        idle = value.touched + SEGMENT_IDLE_MS
        return min(idle, value.speak_at) if value.speak_at else idle
    return getattr(value, "deadline", None)


class Indexes:
    """Indexes over the state. They follow changes, and undone changes too."""

    def __init__(self) -> None:
        self._windows: dict[str, Window] = {}
        self._held_ids: dict[str, dict[str, bytes]] = {}
        self._waiting = FairShares()
        """Tenant → bytes behind gaps."""
        self._bytes: defaultdict[str, FairShares] = defaultdict(FairShares)
        """Tenant → session → bytes behind gaps."""
        self._live = FairShares()
        """Tenant → number of sessions."""
        self.nbytes = 0
        """Bytes of all sessions."""
        self._nbytes: FairShares | None = None
        """Tenant → bytes of sessions; built when first needed."""
        self._silent: dict[str, list[tuple[int, str]]] | None = None
        """Tenant → heap of (last touched, session), where sessions may be touched later; built when first needed."""
        self._listed = 0
        """Number of entries of these heaps."""
        self._dirty: dict[str, set[str]] = {}
        """Encoded tenant → sessions whose open segment has steps that no contribution covers."""
        self.held = 0
        """Number of events behind gaps in the partition."""
        self.passing: PassingBarrier | None = None
        self.owners = OwnerIndex()
        self.erased: dict[str, dict[str, tuple[ErasedPast, frozenset[str]]]] = {}
        """Encoded tenant → key → an erasure and its marks."""

    def is_dirty(self, tenant_id: str) -> bool:
        """Return True if sessions of a tenant, or of any if it is empty, have more to contribute."""
        return join_key(tenant_id) in self._dirty if tenant_id else bool(self._dirty)

    def dirty(self, tenant_id: str) -> Iterable[str]:
        """Return these sessions."""
        return self._dirty[join_key(tenant_id)] if tenant_id else chain.from_iterable(self._dirty.values())

    def waits(self, tenant_id: str) -> bool:
        """Return True if events of a tenant, or of any if it is empty, are behind gaps."""
        return join_key(tenant_id) in self._bytes if tenant_id else self.held > 0

    def waiting(self, session: str) -> list[Waiting]:
        window = self._windows.get(session)
        return window.all() if window is not None else []

    def waiting_count(self, session: str) -> int:
        return len(self._windows.get(session, ()))

    def waiting_bytes(self, session: str) -> int:
        tenant = tenant_of(session)
        return self._bytes[tenant].of(session) if tenant in self._bytes else 0

    @property
    def all_waiting_bytes(self) -> int:
        return self._waiting.total

    def fullest(self) -> str:
        """Return the session with the most bytes behind gaps, of the tenant with the most."""
        return self._bytes[self._waiting.most()].most()

    @property
    def sessions(self) -> int:
        return self._live.total

    @property
    def waiting_sessions(self) -> int:
        return len(self._windows)

    def crowded(self, new: str) -> str:
        """Return the tenant with the most sessions, counting the session `new`."""
        most, own = self._live.most(), tenant_of(new)
        return own if self._live.of(own) >= self._live.of(most) else most

    def heaviest(self, state: Mapping[str, Any]) -> str:
        """Return the tenant whose sessions have the most bytes."""
        if self._nbytes is None:
            self._nbytes = FairShares()
            for key, value in state.items():
                if key[0] == "s":
                    self._nbytes.add(tenant_of(key[2:]), value.nbytes)
        return self._nbytes.most()

    def longest_silent(self, state: Mapping[str, Any], tenant: str) -> str:
        """Return the tenant's session with the oldest last event; among equals, the first key."""
        if self._silent is None:
            self._silent, self._listed = {}, 0
            for key, value in state.items():
                if key[0] == "s":
                    self._list(key[2:], value.touched)
        heap = self._silent[tenant]
        while True:
            touched, name = heap[0]
            session: SessionState | None = state.get(session_state_key(name))
            if session is None:
                heappop(heap)
                self._listed -= 1
            elif session.touched > touched:
                heapreplace(heap, (session.touched, name))
            else:
                return name

    def digest(self, session: str, event_id: str) -> bytes | None:
        """Return the digest of a waiting event with this id, or None."""
        held = self._held_ids.get(session)
        return held.get(event_id) if held is not None else None

    def changed(self, key: str, old: Any, new: Any) -> None:
        if type(new) is SessionState and type(old) is SessionState:
            self.nbytes += new.nbytes - old.nbytes
            if self._nbytes is not None:
                self._nbytes.add(tenant_of(key[2:]), new.nbytes - old.nbytes)
            if new.dirty is old.dirty:
                return
        elif key[0] == "w":
            self._follow_held(session_of(key), key, old, new)
            return
        elif key[0] != "s":
            self._follow_other(key, old, new)
            return
        elif old is None:
            self._count(tenant_of(key[2:]), 1, new.nbytes)
            if self._silent is not None:
                self._list(key[2:], new.touched)
                if self._listed > 2 * self.sessions + STALE_TIMERS:
                    self._silent = None  # most entries are stale
        else:
            self._count(tenant_of(key[2:]), -1, -old.nbytes)
        self._mark(key[2:], dirty=new is not None and new.dirty)

    def _mark(self, session: str, *, dirty: bool) -> None:
        tenant = tenant_of(session)
        if dirty:
            self._dirty.setdefault(tenant, set()).add(session)
        elif tenant in self._dirty:
            self._dirty[tenant].discard(session)
            if not self._dirty[tenant]:
                del self._dirty[tenant]

    def _follow_other(self, key: str, old: Any, new: Any) -> None:
        match key[0]:
            case "y":
                self.passing = new
            case "x":
                self._follow_erased(key, new)
            case "o":
                self.owners.changed(key, old, new)

    def _follow_erased(self, key: str, new: ErasedPast | None) -> None:
        tenant = tenant_of(key[2:])
        known = self.erased.setdefault(tenant, {})
        if new is not None:
            known[key] = new, frozenset(new.marks)
        else:
            known.pop(key, None)
            if not known:
                del self.erased[tenant]

    def _count(self, tenant: str, sessions: int, nbytes: int) -> None:
        self._live.add(tenant, sessions)
        self.nbytes += nbytes
        if self._nbytes is not None:
            self._nbytes.add(tenant, nbytes)

    def _follow_held(self, session: str, key: str, old: BufferedEvent | None, new: BufferedEvent | None) -> None:
        if old is not None:
            entry = held_entry(key, old)
            self._windows[session].remove(entry)
            self._held_ids[session].pop(entry.event_id, None)
            self._weigh(session, -len(memoryview(old.event)))
            self.held -= 1
            if not self._windows[session]:
                del self._windows[session], self._held_ids[session]
        if new is not None:
            entry = held_entry(key, new)
            self._windows.setdefault(session, Window()).add(entry)
            self._held_ids.setdefault(session, {})[entry.event_id] = new.digest
            self._weigh(session, len(memoryview(new.event)))
            self.held += 1

    def _weigh(self, session: str, by: int) -> None:
        tenant = tenant_of(session)
        self._waiting.add(tenant, by)
        self._bytes[tenant].add(session, by)
        if not self._bytes[tenant].total:
            del self._bytes[tenant]

    def _list(self, session: str, touched: int) -> None:
        assert self._silent is not None
        heappush(self._silent.setdefault(tenant_of(session), []), (touched, session))
        self._listed += 1
