"""What a stream passes on is what stands between its first position and its last, however it is cut off."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import ClientDisconnect
from starlette.types import Message

from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.kafka.range_reader import Chunk, PassingRecord
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service import problems, stream_position, streams, subscriber_queue, subscriptions
from hmx_pipeline.service.access import Access
from hmx_pipeline.service.api_keys import USUAL, Grant, add, revoke
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.service.subscriber_queue import StreamEnd, SubscriberQueue
from hmx_pipeline.service.subscriptions import Start, Subscriptions
from hmx_pipeline.service.ttl_cache import TtlCache
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.topology import ARTIFACTS, EPISODES
from tests.support.hostile import ALL
from tests.support.inprocess import run, sessions_fold
from tests.support.records import event, log
from tests.support.waiting import PATIENCE_S

PLACES = [(topic, number) for topic in (ARTIFACTS, EPISODES) for number in range(2)]
Place = tuple[str, int]


class Log:
    """Topics in memory, as a `Tail` gives them; what is planned happens when somebody reads or joins."""

    size = 2

    def __init__(
        self, plan: Sequence[tuple[Place, str]], meanwhile: Sequence[tuple[Place, str]], behind: int = 0
    ) -> None:
        """`behind`: so many records of each partition are in the topics, and not passed on by the tail yet."""
        self.records: dict[Place, list[PassingRecord]] = {place: [] for place in PLACES}
        self.readers: list[tuple[bytes, SubscriberQueue]] = []
        self._passed = dict.fromkeys(PLACES, 0)
        self._behind = behind
        self._meanwhile = list(meanwhile)
        for place, tenant in plan:
            self.write(place, tenant)

    def write(self, place: Place, tenant: str) -> None:
        key = f"{tenant}/x".encode()
        record = PassingRecord(place, len(self.records[place]), key, b"{}")
        self.records[place].append(record)
        self._pass_on(place, self._behind)

    def _pass_on(self, place: Place, behind: int) -> None:
        while self._passed[place] < len(self.records[place]) - behind:
            record = self.records[place][self._passed[place]]
            self._passed[place] += 1
            for owner, reader in list(self.readers):
                if record.key.startswith(owner + b"/") and not reader.take(record):
                    self.readers.remove((owner, reader))

    def happens(self, count: int = 2) -> None:
        for place, tenant in self._meanwhile[:count]:
            self.write(place, tenant)
        del self._meanwhile[:count]

    def marks(self) -> tuple[str, dict[Place, Watermarks]]:
        return "0" * 8, {place: Watermarks(0, len(records)) for place, records in self.records.items()}

    def portion(self, place: Place, begin: int, end: int, wanted: Callable[[bytes], bool]) -> Chunk:
        self.happens()
        upto = min(begin + self.size, end)
        return Chunk(upto, [one for one in self.records[place][begin:upto] if wanted(one.key)])

    def join(self, owner: bytes, reader: SubscriberQueue) -> dict[Place, int]:
        self.happens()
        self.readers.append((owner, reader))
        passed = dict(self._passed)
        self._catch_up()
        return passed

    def _catch_up(self) -> None:
        """But for the very last record, which is passed on with the next one."""
        for place in PLACES:
            self._pass_on(place, min(self._behind, 1))

    def leave(self, owner: bytes, reader: SubscriberQueue) -> None:
        self.readers = [one for one in self.readers if one[1] is not reader]

    def passed(self, idle: Callable[[], bool]) -> dict[Place, int] | None:
        self.happens()
        return dict(self._passed) if idle() else None


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "LOOK_S", 0.001)
    monkeypatch.setattr(subscriptions, "ALIVE_S", 0.002)
    monkeypatch.setattr(subscriber_queue, "RECORDS", 4)


def made(log: Any) -> Subscriptions:
    found = Subscriptions(Settings(kafka_bootstrap="127.0.0.1:1"))
    found._tail = log
    return found


tenants = st.sampled_from(["acme", "acme", "acme2", "globex"])
records = st.lists(st.tuples(st.sampled_from(PLACES), tenants), min_size=8, max_size=40)


@given(
    plan=records,
    meanwhile=records,
    steps=st.integers(0, 12),
    ending=st.sampled_from([*StreamEnd, None]),
    topics=st.sampled_from([(EPISODES,), (ARTIFACTS,), (ARTIFACTS, EPISODES)]),
    at=st.lists(st.integers(0, 2), min_size=4, max_size=4),
    behind=st.integers(0, 3),
)
@pytest.mark.requirement("E-29")
def test_what_is_passed_on_is_what_stands_between_two_positions(
    plan: list[tuple[Place, str]],
    meanwhile: list[tuple[Place, str]],
    steps: int,
    ending: StreamEnd | None,
    topics: tuple[str, ...],
    at: list[int],
    behind: int,
) -> None:
    """Each time it is cut off another way: by whoever reads, by a slow reader, by a key, by Kafka, by the service."""
    log = Log(plan, meanwhile, behind)

    async def streamed() -> tuple[dict[Place, int], dict[Place, int], list[PassingRecord]]:
        ours = made(log)
        start = await ours.start("acme", None, from_start=True)
        first = {place: min(n, len(log.records[place])) for place, n in zip(PLACES, at, strict=True)}
        start.positions.update(first)
        found: list[PassingRecord] = []
        count = 0
        stream = ours.follow("acme", topics, start, lambda: ending is not StreamEnd.REVOKED or count < steps)
        async for step in stream:
            if isinstance(step, PassingRecord):
                found.append(step)
            elif step is not None:
                break
            count += 1
            if count == steps:
                if ending is StreamEnd.STOPPING:
                    ours.stop()
                elif ending is StreamEnd.KAFKA:
                    for _, reader in log.readers:
                        reader.fail()
            if count > steps + 60:
                break
        await stream.aclose()
        return first, dict(start.positions), found

    first, last, found = asyncio.run(streamed())
    for place in PLACES:
        own = [one for one in log.records[place][first[place] : last[place]] if one.key == b"acme/x"]
        assert [one for one in found if one.place == place] == (own if place[0] in topics else [])
    assert not log.readers


def test_a_stream_whose_topics_can_t_be_read_any_more_ends_by_name() -> None:
    class Broken(Log):
        def join(self, owner: bytes, reader: SubscriberQueue) -> dict[Place, int]:
            raise KafkaUnreachableError

    async def streamed() -> list[Any]:
        ours = made(Broken([(PLACES[0], "acme")], []))
        start = await ours.start("acme", None, from_start=True)
        return [step async for step in ours.follow("acme", (ARTIFACTS,), start, lambda: True)]

    first, *_, last = asyncio.run(streamed())
    assert (first.offset, last) == (0, StreamEnd.KAFKA)


@given(st.dictionaries(st.sampled_from(PLACES), st.integers(0, 2**60), min_size=1))
def test_a_position_is_read_as_it_was_written_and_under_its_own_topics_only(positions: dict[Place, int]) -> None:
    text = stream_position.written("0123abcd", positions)
    assert stream_position.read(text, "0123abcd", positions) == positions
    assert stream_position.read(text, "0123abce", positions) is None
    assert stream_position.read(text, "0123abcd", [*positions, ("other", 0)]) is None
    assert stream_position.read(f"{text}-", "0123abcd", positions) is None


def test_the_number_of_streams_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def opening() -> None:
        ours = made(Log([], []))
        monkeypatch.setattr(subscriptions, "OPEN_EACH", 2)
        monkeypatch.setattr(subscriptions, "OPEN", 3)

        def full(tenant: str) -> None:
            with pytest.raises(ProblemError) as raised, ours.counted(tenant, "sse"):
                pass
            assert raised.value.kind is ProblemKind.RATE_LIMITED

        with ours.counted("acme", "sse"), ours.counted("acme", "sse"):
            full("acme")
            with pytest.raises(ProblemError):
                await ours.start("acme", None, from_start=False)
            with ours.counted("globex", "sse"):
                full("third")
        assert not ours._open, "who has none is forgotten"
        with ours.counted("acme", "sse"):
            pass

    asyncio.run(opening())


def test_a_person_takes_no_streams_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    async def opening() -> None:
        ours = made(Log([], []))
        monkeypatch.setattr(subscriptions, "OPEN_BOUND", 1)
        with ours.counted("acme", "sse", "ann"):
            with pytest.raises(ProblemError, match="rate_limited"), ours.counted("acme", "sse", "ann"):
                pass
            for tenant, subject in (("acme", "bob"), ("acme", None), ("globex", "ann")):
                with ours.counted(tenant, "sse", subject):
                    pass
        assert not ours._bound, "who has none is forgotten"
        with ours.counted("acme", "sse", "ann"):
            pass

    asyncio.run(opening())


def test_streams_that_begin_at_once_are_counted_before_their_first_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there is room for; the others are answers, not streams that break off."""
    monkeypatch.setattr(subscriptions, "OPEN_EACH", 2)
    ours: list[Subscriptions] = []
    statuses: list[int] = []
    app = FastAPI()
    problems.install(app)

    @app.get("/")
    async def begun() -> streams.Streaming:
        await ours[0].start("acme", None, from_start=False)

        async def content() -> AsyncGenerator[bytes]:
            await full.wait()
            yield b"x"

        return streams.Streaming(content(), ours[0].counted("acme", "sse"), streams.SSE, {})

    async def asking() -> None:
        sent: dict[str, Any] = {"type": "http", "method": "GET", "path": "/", "headers": [], "query_string": b""}

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                statuses.append(message["status"])
                if len(statuses) == 10:
                    full.set()

        await asyncio.gather(*[app({**sent}, receive, send) for _ in range(10)])

    async def opening() -> None:
        ours.append(made(Log([], [])))
        async with asyncio.timeout(PATIENCE_S):
            await asking()
        assert not ours[0]._open

    full = asyncio.Event()
    asyncio.run(opening())
    assert sorted(statuses) == [200] * 2 + [429] * 8


def test_all_who_begin_while_kafka_is_asked_share_one_more_question() -> None:
    asked, begun, go_on = [], threading.Event(), threading.Event()

    class Slow(Log):
        def marks(self) -> tuple[str, dict[Place, Watermarks]]:
            asked.append(1)
            begun.set()
            assert go_on.wait(60)
            return super().marks()

    async def beginning() -> None:
        ours = made(Slow([], []))
        first = asyncio.create_task(ours.start("acme", None, from_start=False))
        await asyncio.to_thread(begun.wait, 60)
        rest = [asyncio.create_task(ours.start(f"t{n}", None, from_start=False)) for n in range(30)]
        await asyncio.sleep(0)
        go_on.set()
        await asyncio.gather(first, *rest)

    asyncio.run(beginning())
    assert len(asked) == 2


def test_who_reads_slowly_holds_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "CONSUMERS", 1)

    async def reading() -> list[Any]:
        ours = made(Log([(PLACES[0], tenant) for tenant in ("acme", "globex") for _ in range(3)], []))
        found = []
        slow, other = [
            ours.follow(tenant, (ARTIFACTS,), await ours.start(tenant, None, from_start=True), lambda: True)
            for tenant in ("acme", "globex")
        ]
        async with aclosing(slow), aclosing(other), asyncio.timeout(PATIENCE_S):
            found.append(await anext(slow))
            found += [step for step in [await anext(other) for _ in range(6)] if isinstance(step, PassingRecord)]
        return found

    assert [one.key for one in asyncio.run(reading())] == [b"acme/x", *[b"globex/x"] * 3]


def test_whether_a_stream_may_go_on_is_asked_of_each_portion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not of each record: it looks at a file."""
    monkeypatch.setattr(subscriptions, "LOOK_S", PATIENCE_S)
    monkeypatch.setattr(subscriber_queue, "RECORDS", 1_000)
    asked = 0

    def may_go_on() -> bool:
        nonlocal asked
        asked += 1
        return True

    class Filling(Log):
        size = 100

        def join(self, owner: bytes, reader: SubscriberQueue) -> dict[Place, int]:
            passed = super().join(owner, reader)
            for _ in range(500):
                self.write(PLACES[0], "acme")
            return passed

    async def reading() -> None:
        ours = made(Filling([(PLACES[0], "acme")] * 500, []))
        start = await ours.start("acme", None, from_start=True)
        async with aclosing(ours.follow("acme", (ARTIFACTS,), start, may_go_on)) as stream:
            found = 0
            while found < 1_000:
                found += isinstance(await anext(stream), PassingRecord)

    asyncio.run(reading())
    assert asked < 50


def exported(
    log: Log,
    keys: Path,
    key: str,
    after_first: Callable[[Subscriptions], None],
    erased: Callable[[], Erasures] = Erasures,
) -> list[bytes]:
    """The lines of an export, of which the first has an effect. Raises ClientDisconnect where it is cut off."""
    app, lines = FastAPI(), []
    app.include_router(streams.router)
    app.state.access = Access(str(keys), 0)
    app.state.erased = TtlCache(erased, 0.0)
    headers = [(b"authorization", f"Bearer {key}".encode())]
    asked = {"type": "http", "method": "GET", "path": "/v1/hmx/events", "headers": headers, "query_string": b""}

    async def asking() -> None:
        ours = app.state.following = made(log)

        async def receive() -> Message:
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Message) -> None:
            if message.get("body"):
                lines.append(message["body"])
                if len(lines) == 1:
                    after_first(ours)

        await app(asked, receive, send)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_event", lambda value: value)
        asyncio.run(asking())
    return lines


@pytest.mark.parametrize("cut", ["revoked", "stopping", "kafka_unavailable", None])
def test_an_export_that_may_not_go_on_breaks_off(cut: str | None, tmp_path: Path) -> None:
    """Recognisably: its last chunk is never sent. It is counted under the reason."""
    keys = tmp_path / "keys"
    key = add(keys, Grant("acme", USUAL))
    log = Log([((EPISODES, 0), "acme")] * 9, [])

    def fails(*_: int) -> None:
        raise KafkaUnreachableError

    def happens(ours: Subscriptions) -> None:
        if cut == "revoked":
            revoke(keys, key)
        elif cut == "stopping":
            ours.stop()
        elif cut is not None:
            log.happens = fails  # type: ignore[method-assign]

    def counted() -> float:
        return METRICS.streams_ended.labels(cut)._value.get()

    before = counted()
    if cut is None:
        assert len(exported(log, keys, key, happens)) == 9
    else:
        with pytest.raises(ClientDisconnect):
            exported(log, keys, key, happens)
        assert counted() == before + 1


def test_what_is_erased_while_an_export_runs_is_in_the_rest_of_it_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys, marks = tmp_path / "keys", list[ErasureMark]()
    mark = ErasureMark(erasure_id="e", tenant_id="acme", at=0, marks=["0" * 32], partition=0, before=9)
    monkeypatch.setattr(streams, "hidden", lambda erased, _: erased.of("acme"))
    log, key = Log([((EPISODES, 0), "acme")] * 9, []), add(keys, Grant("acme", USUAL))
    assert len(exported(log, keys, key, lambda _: marks.append(mark), lambda: Erasures(marks))) == 1


@pytest.mark.parametrize("topic", [ARTIFACTS, EPISODES])
@pytest.mark.parametrize("text", ALL)
def test_what_a_record_says_ends_no_field_of_an_event(topic: str, text: str) -> None:
    """A foreign producer may put line breaks between the parts of its JSON."""
    said = {"id": text, "metadata": {"hmx": {}}, "payload": {"text": text}}
    value = orjson.dumps(said, option=orjson.OPT_INDENT_2).replace(b"\n", b"\r\n")
    if topic == EPISODES:
        (output,) = run(sessions_fold, log([(0, event(f"s{text}", 0, content={"role": "user", "text": text}))])).on(
            EPISODES
        )
        value = output.value or b""
    step = PassingRecord((topic, 0), 0, b"acme/x", value)
    frame = streams._frame(step, Start("0badcafe", {(topic, 0): 1}, {}))
    assert frame.endswith(b"\n\n")
    lines = frame[:-2].splitlines()
    assert [line.partition(b": ")[0] for line in lines] == [b"id", b"event", b"data"]
    told = orjson.loads(lines[2].partition(b": ")[2])
    assert told == said if topic == ARTIFACTS else told["session_id"] == f"s{text}"


@pytest.mark.parametrize("text", ALL)
def test_an_erased_artifacts_id_ends_no_field_of_an_event(text: str) -> None:
    step = PassingRecord((ARTIFACTS, 0), 0, join_key("acme", text).encode(), None)
    lines = streams._frame(step, Start("0badcafe", {(ARTIFACTS, 0): 1}, {}))[:-2].splitlines()
    assert len(lines) == 3
    assert orjson.loads(lines[2].partition(b": ")[2]) == {"artifact_id": text}


@pytest.mark.parametrize("trouble", [StoreUnavailableError("away"), TamperedError("artifact", "a1")])
def test_a_stream_breaks_off_before_an_artifact_of_which_memory_cannot_say_whether_it_still_stands(
    trouble: Exception,
) -> None:
    class Memory:
        def get_artifact(self, tenant: str, name: str) -> None:
            assert (tenant, name) == ("acme", "a1")
            raise trouble

    store: Any = Memory()
    step = PassingRecord((ARTIFACTS, 0), 4, join_key("acme", "a1").encode(), b"{}")
    with pytest.raises(ClientDisconnect):
        asyncio.run(streams._is_gone(store, {(ARTIFACTS, 0): 5}, step))
    assert not asyncio.run(streams._is_gone(store, {(ARTIFACTS, 0): 4}, step))


def test_who_is_bound_to_a_subject_learns_no_id_of_what_is_gone() -> None:
    step = PassingRecord((ARTIFACTS, 0), 1, b"acme/a1", None)
    start = Start("0badcafe", {(ARTIFACTS, 0): 2}, {})
    assert b'{"artifact_id":"a1"}' in streams._frame(step, start)
    hidden = streams._frame(step, start, hides=True)
    assert b'a1"' not in hidden
    assert sha256(b"a1").hexdigest().encode() in hidden
