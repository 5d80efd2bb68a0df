"""Subscriptions: a tenant's stream of records from given positions, first the stored ones, then new ones.

Enters: tenant, topics, start positions. Leaves: records, and regularly the position passed so far. A client that
returns with a position continues without gap or repeat. A stream ends only with an `StreamEnd`. Raises ProblemError
before the first record.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from fastapi.concurrency import run_in_threadpool

from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka.range_reader import CONSUMERS, Chunk, PassingRecord, Wanted
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.kafka.topic_tail import TopicTail
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service import stream_position
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind, unavailable
from hmx_pipeline.service.subscriber_queue import InboxMemory, StreamEnd, SubscriberQueue
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import FOLLOWED

LOOK_S: Final = 1.0
"""An idle stream checks this often whether it may continue."""
ALIVE_S: Final = 15.0
"""An idle stream reports its position this often."""
OPEN: Final = 512
OPEN_EACH: Final = 64
OPEN_BOUND: Final = 8
"""Open streams of a process, in total, per tenant, and per subject whose key opens them: a person of a tenant must not
take the streams of the others."""
FAILURES: Final = (KafkaException, KafkaUnreachableError, TimeoutError)


Marks = tuple[str, dict[Place, Watermarks]]
GoOn = Callable[[], bool]
"""Returns whether a stream may continue; if not, its position must not move."""


class Start(NamedTuple):
    name: str
    """Fingerprint of the topics, which changes if a topic is created again."""
    positions: dict[Place, int]
    ends: dict[Place, int]


Step = PassingRecord | StreamEnd | None
"""Next step of a stream: a record, its end, or a position report (None)."""


class SubscriptionRequest:
    """Asks whether a stream may continue, at most once per LOOK_S within a chunk, since asking may be slow."""

    def __init__(self, go_on: GoOn) -> None:
        self._go_on = go_on
        self._clock = asyncio.get_running_loop().time
        self._asked = 0.0

    def anew(self) -> bool:
        self._asked = self._clock()
        return self._go_on()

    def still(self) -> bool:
        return self._clock() - self._asked < LOOK_S or self.anew()


class Subscriptions:
    """All streams of the process."""

    def __init__(self, settings: Settings) -> None:
        self._tail = TopicTail(settings.require_kafka(), settings.topic_prefix, FOLLOWED)
        self._open: Counter[str] = Counter()
        self._bound: Counter[tuple[str, str]] = Counter()
        """By tenant and subject."""
        self._inboxes: set[SubscriberQueue] = set()
        self._room = InboxMemory()
        self._turns = asyncio.Semaphore(CONSUMERS)
        self._joining = asyncio.Lock()  # one blocked thread is enough if Kafka does not answer
        self._under_way: asyncio.Task[Marks] | None = None
        self._next: asyncio.Task[Marks] | None = None
        self.stopping = False

    def close(self) -> None:
        """Closes the tail, once no stream is open. Blocks."""
        self._tail.close()

    def stop(self) -> None:
        """Ends every stream."""
        self.stopping = True
        for inbox in list(self._inboxes):
            inbox.end(StreamEnd.STOPPING)

    def _check_room(self, tenant: str) -> None:
        if self._open[tenant] >= OPEN_EACH or self._open.total() >= OPEN:
            detail = f"at most {OPEN_EACH} streams per tenant and {OPEN} in total: close some, or try again later"
            raise ProblemError(ProblemKind.RATE_LIMITED, detail, RETRY)

    @contextmanager
    def counted(self, tenant: str, kind: str, subject: str | None = None) -> Iterator[None]:
        """Counts an open stream; `subject` is whom its key is bound to. Raises ProblemError at a limit."""
        self._check_room(tenant)
        if subject is not None and self._bound[tenant, subject] >= OPEN_BOUND:
            detail = f"at most {OPEN_BOUND} streams per subject: close some, or try again later"
            raise ProblemError(ProblemKind.RATE_LIMITED, detail, RETRY)
        bound = Counter([(tenant, subject)] if subject is not None else [])
        self._open[tenant] += 1
        self._bound += bound
        METRICS.streams.labels(kind).inc()
        try:
            yield
        finally:
            self._open[tenant] -= 1
            self._open += Counter()  # drops zero counts
            self._bound -= bound
            METRICS.streams.labels(kind).dec()

    async def start(self, tenant: str, after: str | None, *, from_start: bool) -> Start:
        """Resolves where a stream begins. Raises ProblemError for an invalid or expired position."""
        self._check_room(tenant)
        try:
            topics, marks = await self._marks()
        except FAILURES:
            raise unavailable(ProblemKind.KAFKA_UNAVAILABLE, "the topics can't be read: try again") from None
        ends = {place: mark.high for place, mark in marks.items()}
        if after is None:
            return Start(topics, {place: mark.low for place, mark in marks.items()} if from_start else dict(ends), ends)
        positions = stream_position.read(after, topics, marks)
        if positions is None or any(not _held(marks[place], at) for place, at in positions.items()):
            detail = "the position is invalid or its records are no longer retained: start without a position"
            raise ProblemError(ProblemKind.POSITION_LOST, detail)
        return Start(topics, positions, ends)

    async def _marks(self) -> Marks:
        """Returns watermarks read after the call; concurrent callers share one request to Kafka."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask(self._under_way))
        return await asyncio.shield(self._next)

    async def _ask(self, before: asyncio.Task[Marks] | None) -> Marks:
        if before is not None:
            await asyncio.wait({before})
        self._under_way, self._next = self._next, None
        return await run_in_threadpool(self._tail.marks)

    async def end(self, place: Place) -> int:
        """Returns where any topic's partition ends. Raises FAILURES."""
        return await run_in_threadpool(self._tail.end, place)

    async def stored(
        self,
        positions: dict[Place, int],
        ends: Mapping[Place, int],
        places: Iterable[Place],
        wanted: Wanted,
        go_on: GoOn,
    ) -> AsyncGenerator[Step]:
        """Yields stored records up to `ends`, per partition, and moves `positions`. Raises FAILURES."""
        asking = SubscriptionRequest(go_on)
        for place in places:
            while positions[place] < ends[place]:
                portion = await self._portion(place, positions[place], ends[place], wanted)
                if not asking.anew():
                    return
                for record in portion.records:
                    if not asking.still():
                        return
                    positions[place] = record.offset + 1
                    yield record
                positions[place] = portion.position
                yield None

    async def _portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Chunk:
        """Reads a chunk; no turn is held while the client consumes it."""
        async with self._turns:
            return await run_in_threadpool(self._tail.portion, place, begin, end, wanted)

    async def follow(self, tenant: str, topics: Sequence[str], start: Start, may_go_on: GoOn) -> AsyncGenerator[Step]:
        """Yields records until an `StreamEnd`, and moves `start.positions`."""
        inbox = SubscriberQueue(frozenset(topics), tenant, self._room)
        owner, positions = join_key(tenant).encode(), start.positions
        places = [place for place in sorted(positions) if place[0] in topics]

        def own(key: bytes) -> bool:
            return key.startswith(owner + b"/")

        def go_on() -> bool:
            return inbox.ending is None and may_go_on()

        self._inboxes.add(inbox)
        if self.stopping:
            inbox.end(StreamEnd.STOPPING)
        try:
            # The second pass reads only what arrived during the first, while the queue already fills.
            for join in (False, True):
                upto = await self._joined(owner, inbox) if join else start.ends
                async with aclosing(self.stored(positions, upto, places, own, go_on)) as stored:
                    async for step in stored:
                        yield step
            async with aclosing(self._coming(inbox, positions, go_on)) as coming:
                async for record in coming:
                    yield record
        except FAILURES:
            inbox.fail()
        finally:
            self._tail.leave(owner, inbox)
            self._inboxes.discard(inbox)
            inbox.close()
        yield inbox.ending or StreamEnd.REVOKED

    async def _joined(self, owner: bytes, inbox: SubscriberQueue) -> dict[Place, int]:
        async with self._joining:
            return await run_in_threadpool(self._tail.join, owner, inbox)

    async def _coming(self, inbox: SubscriberQueue, positions: dict[Place, int], go_on: GoOn) -> AsyncGenerator[Step]:
        clock = asyncio.get_running_loop().time
        told, asking = clock(), SubscriptionRequest(go_on)
        while True:
            records = await inbox.wait(LOOK_S)
            if not asking.anew():
                return
            for record in records:
                if record.offset < positions[record.place]:  # already read from the log
                    continue
                if not asking.still():
                    return
                positions[record.place] = record.offset + 1
                yield record
                told = clock()
            if clock() - told >= ALIVE_S:
                passed = self._tail.passed(lambda: inbox.idle) or {}
                for place, at in passed.items():
                    if place[0] in inbox.topics:
                        positions[place] = max(positions[place], at)
                yield None
                told = clock()


def _held(marks: Watermarks, at: int) -> bool:
    return marks.low <= at <= marks.high
