"""What a tenant's streams pass on: records after a position, first those that are there, then those that come.

Enters: whose records, of which topics, after which position. Leaves: records and, now and then, the position up to
which all has been passed on. Who comes back with a position gets what follows it: nothing is left out or passed on
twice. A stream ends with an `Ending`, never by itself. Fails with ProblemError before anything is passed on.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from typing import Final, NamedTuple

from confluent_kafka import KafkaException
from fastapi.concurrency import run_in_threadpool

from pipeline.contracts.keys import join_key
from pipeline.kafka.clients import Watermarks
from pipeline.kafka.stretches import CONSUMERS, Passing, Portion, Wanted
from pipeline.kafka.tail import Tail
from pipeline.kafka.topics import KafkaUnreachableError
from pipeline.kafka.unread import Place
from pipeline.observe.metrics import METRICS
from pipeline.service import position
from pipeline.service.inbox import Ending, Inbox, Room
from pipeline.service.problems import RETRY, Kind, ProblemError, unavailable
from pipeline.settings import Settings
from pipeline.topology import FOLLOWED

LOOK_S: Final = 1.0
"""So often a stream on which nothing comes looks whether it may go on."""
ALIVE_S: Final = 15.0
"""So often it says where it stands."""
OPEN: Final = 512
OPEN_EACH: Final = 64
"""Streams of a process, and of one tenant in it."""
FAILURES: Final = (KafkaException, KafkaUnreachableError, TimeoutError)


Marks = tuple[str, dict[Place, Watermarks]]
GoOn = Callable[[], bool]
"""Whether a stream may go on; one that may not has not moved."""


class Start(NamedTuple):
    name: str
    """What tells the topics from others of their names."""
    positions: dict[Place, int]
    ends: dict[Place, int]


Step = Passing | Ending | None
"""What a stream does next: passes a record on, ends, or says where it stands."""


class Asking:
    """Asks whether a stream may go on: of each portion, and now and then while one is passed on. It may be dear."""

    def __init__(self, go_on: GoOn) -> None:
        self._go_on = go_on
        self._clock = asyncio.get_running_loop().time
        self._asked = 0.0

    def anew(self) -> bool:
        self._asked = self._clock()
        return self._go_on()

    def still(self) -> bool:
        return self._clock() - self._asked < LOOK_S or self.anew()


class Following:
    """All streams of the process."""

    def __init__(self, settings: Settings) -> None:
        self._tail = Tail(settings.require_kafka(), settings.topic_prefix, FOLLOWED)
        self._open: Counter[str] = Counter()
        self._inboxes: set[Inbox] = set()
        self._room = Room()
        self._turns = asyncio.Semaphore(CONSUMERS)
        self._joining = asyncio.Lock()  # one thread is enough where Kafka does not answer
        self._under_way: asyncio.Task[Marks] | None = None
        self._next: asyncio.Task[Marks] | None = None
        self.stopping = False

    def close(self) -> None:
        """Once no stream is left. Blocks."""
        self._tail.close()

    def stop(self) -> None:
        """Every stream ends; the service waits for them."""
        self.stopping = True
        for inbox in list(self._inboxes):
            inbox.end(Ending.STOPPING)

    def _check_room(self, tenant: str) -> None:
        if self._open[tenant] >= OPEN_EACH or self._open.total() >= OPEN:
            detail = f"at most {OPEN_EACH} streams of a tenant, {OPEN} of all"
            raise ProblemError(Kind.RATE_LIMITED, detail, RETRY)

    @contextmanager
    def counted(self, tenant: str, kind: str) -> Iterator[None]:
        """One stream more while it lasts. Raises ProblemError where no more can be opened."""
        self._check_room(tenant)
        self._open[tenant] += 1
        METRICS.streams.labels(kind).inc()
        try:
            yield
        finally:
            self._open[tenant] -= 1
            self._open += Counter()  # forgets who has none
            METRICS.streams.labels(kind).dec()

    async def start(self, tenant: str, after: str | None, *, from_start: bool) -> Start:
        """Where a stream begins. Raises ProblemError for a position that the topics don't hold (any more)."""
        self._check_room(tenant)
        try:
            topics, marks = await self._marks()
        except FAILURES:
            raise unavailable(Kind.KAFKA_UNAVAILABLE, "the topics can't be read; try again") from None
        ends = {place: mark.high for place, mark in marks.items()}
        if after is None:
            return Start(topics, {place: mark.low for place, mark in marks.items()} if from_start else dict(ends), ends)
        positions = position.read(after, topics, marks)
        if positions is None or any(not _held(marks[place], at) for place, at in positions.items()):
            detail = "the position is none of these topics, or what follows it is kept no more; begin without one"
            raise ProblemError(Kind.POSITION_LOST, detail)
        return Start(topics, positions, ends)

    async def _marks(self) -> Marks:
        """As the topics are after the call; all who ask meanwhile share one question to Kafka."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask(self._under_way))
        return await asyncio.shield(self._next)

    async def _ask(self, before: asyncio.Task[Marks] | None) -> Marks:
        if before is not None:
            await asyncio.wait({before})
        self._under_way, self._next = self._next, None
        return await run_in_threadpool(self._tail.marks)

    async def stored(
        self,
        positions: dict[Place, int],
        ends: Mapping[Place, int],
        places: Iterable[Place],
        wanted: Wanted,
        go_on: GoOn,
    ) -> AsyncGenerator[Step]:
        """What is there up to the ends, partition by partition; `positions` move along. Raises FAILURES."""
        asking = Asking(go_on)
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

    async def _portion(self, place: Place, begin: int, end: int, wanted: Wanted) -> Portion:
        """Nobody holds a turn while a client reads what it has been given."""
        async with self._turns:
            return await run_in_threadpool(self._tail.portion, place, begin, end, wanted)

    async def follow(self, tenant: str, topics: Sequence[str], start: Start, may_go_on: GoOn) -> AsyncGenerator[Step]:
        """Without end but for an `Ending`. `start.positions` move along."""
        inbox = Inbox(frozenset(topics), tenant, self._room)
        owner, positions = join_key(tenant).encode(), start.positions
        places = [place for place in sorted(positions) if place[0] in topics]

        def own(key: bytes) -> bool:
            return key.startswith(owner + b"/")

        def go_on() -> bool:
            return inbox.ending is None and may_go_on()

        self._inboxes.add(inbox)
        if self.stopping:
            inbox.end(Ending.STOPPING)
        try:
            # Only what has come meanwhile is read while the inbox fills.
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
        yield inbox.ending or Ending.REVOKED

    async def _joined(self, owner: bytes, inbox: Inbox) -> dict[Place, int]:
        async with self._joining:
            return await run_in_threadpool(self._tail.join, owner, inbox)

    async def _coming(self, inbox: Inbox, positions: dict[Place, int], go_on: GoOn) -> AsyncGenerator[Step]:
        clock = asyncio.get_running_loop().time
        told, asking = clock(), Asking(go_on)
        while True:
            records = await inbox.wait(LOOK_S)
            if not asking.anew():
                return
            for record in records:
                if record.offset < positions[record.place]:  # the tail was behind what has been read up
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
