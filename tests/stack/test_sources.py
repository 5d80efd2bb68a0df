"""Redis Streams and NATS JetStream feed the log: one event a message, whatever is killed in between."""

import asyncio
import json
import shutil
import socket
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
import redis

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.sources.feed import BATCH, QueueDamagedError, QueueMessage, Source, feed
from hmx_pipeline.sources.redis_streams import RedisStream
from hmx_pipeline.store.atomic_blocks import connect
from hmx_pipeline.topology import EVENTS
from tests.support.events import encoded, event
from tests.support.forked import PROGRAM
from tests.support.own_command import hmx
from tests.support.pipeline import environment, new_settings, running
from tests.support.topics import episodes_by_session, read
from tests.support.waiting import until

EACH = 600
NATS = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url, window_ms=60_000)
    with running(made, tmp_path_factory.mktemp("logs"), "worker"):
        yield made


@pytest.fixture(scope="module")
def nats_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if NATS is None:
        pytest.skip("needs nats-server: apt-get install nats-server")
    (port,) = free_ports(1)
    folder = tmp_path_factory.mktemp("nats")
    (folder / "conf").write_text("max_payload: 8MB")
    told = ("-c", str(folder / "conf"), "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(folder))
    with subprocess.Popen([NATS, *told], stderr=subprocess.DEVNULL) as server:
        yield f"nats://127.0.0.1:{port}"
        server.terminate()


def session(name: str, count: int = EACH) -> list[bytes]:
    return [encoded(event(session_id=name, sequence=n, event_id=f"{name}-{n:03}")) for n in range(count)]


class DiedError(Exception):
    """What stands for the end of a process."""


class Dying:
    """A source that dies with messages in hand, or once Kafka has them, before it has said so."""

    def __init__(self, source: Source, *, empty_handed: bool) -> None:
        self._source, self._empty_handed = source, empty_handed

    def take(self, wait_s: float) -> list[QueueMessage]:
        taken = self._source.take(wait_s)
        if taken and not self._empty_handed:
            raise DiedError
        return taken

    def drained(self) -> bool:
        return self._source.drained()

    def acknowledge(self, taken: list[QueueMessage]) -> None:
        raise DiedError

    refuse = acknowledge

    def close(self) -> None:
        self._source.close()


def dead_twice(settings: Settings, source: Callable[[], Source]) -> None:
    for empty_handed in (False, True):
        with closing(Dying(source(), empty_handed=empty_handed)) as dying, pytest.raises(DiedError):
            feed(dying, settings, threading.Event())


@contextmanager
def started(settings: Settings, *command: str) -> Iterator[subprocess.Popen[bytes]]:
    """A source as a process of its own, which is killed at the end."""
    with subprocess.Popen([sys.executable, *PROGRAM, "source", *command], env=environment(settings)) as source:
        try:
            yield source
        finally:
            source.kill()  # else its end would be waited for, also where the test has failed


def killed_in_between(settings: Settings, *command: str) -> None:
    """A source is killed as soon as the log has some of it; another one ends when nothing is left."""
    had = len(logged(settings))
    with started(settings, *command):
        until(lambda: len(logged(settings)) > had, "the first events are in the log")
    assert hmx(settings, "source", *command, "--until-empty").exit_code == 0


def logged(settings: Settings) -> list[bytes]:
    return [one.value() or b"" for records in read(settings, EVENTS).values() for one in records]


def released_once(settings: Settings, name: str) -> None:
    wait_for_stages(settings, 240)
    assert len([value for value in logged(settings) if name.encode() in value]) >= EACH + BATCH, "some came twice"
    assert episodes_by_session(settings)[name] == [f"{name}-{n:03}" for n in range(EACH)]
    report = verify(settings)
    assert report.conserved


@pytest.mark.requirement("Y26", "E-30")
def test_every_entry_of_a_redis_stream_is_released_once(settings: Settings, redis_url: str) -> None:
    stream = name = uuid.uuid4().hex
    with redis.Redis.from_url(redis_url) as client:
        for value in session(name):
            client.xadd(stream, {"event": value})
        dead_twice(settings, lambda: RedisStream(connect(redis_url), stream, "hmx", socket.gethostname()))
        killed_in_between(settings, "redis", stream)
        assert client.xpending(stream, "hmx")["pending"] == 0
        client.delete(stream)
    released_once(settings, name)


@pytest.mark.requirement("Y26")
def test_what_another_consumer_left_is_taken_and_what_cannot_be_sent_holds_nothing_up(
    settings: Settings, redis_url: str
) -> None:
    stream = name = uuid.uuid4().hex
    with redis.Redis.from_url(redis_url) as client:
        ids: list[Any] = [client.xadd(stream, {"event": value}) for value in (b"trimmed", *session(name, 3))]
        client.xadd(stream, {"no": "event", "stream": stream})
        client.xadd(stream, {"event": b"x" * 3_000_000})
        client.xgroup_create(stream, "hmx", id="0")
        client.xreadgroup("hmx", "me", {stream: ">"}, count=2)
        client.xdel(stream, ids[0])  # trimmed by its owner
        client.xreadgroup("hmx", "gone", {stream: ">"}, count=1)
        client.xclaim(stream, "hmx", "gone", 0, [ids[2]], idle=100_000)
        told = hmx(settings, "source", "redis", stream, "--consumer", "me", "--delete", "--until-empty", "--json")
        assert told.exit_code == 0, told.output
        assert json.loads(told.stdout) == {"events": 4, "refused": 1}
        assert client.xlen(stream) == 1, "what is too large stays"
        assert client.xpending(stream, "hmx")["pending"] == 0, "and does not come again"
        client.delete(stream)
    mine = [value for value in logged(settings) if stream.encode() in value]
    assert sorted(mine) == sorted([*session(name, 3), f'{{"no":"event","stream":"{stream}"}}'.encode()])


@pytest.mark.requirement("Y26")
def test_a_running_source_survives_lost_connections_and_a_lost_group(settings: Settings, redis_url: str) -> None:
    stream = name = uuid.uuid4().hex
    sent = session(name, 4)

    def there(count: int) -> bool:
        return {value for value in logged(settings) if name.encode() in value} == set(sent[:count])

    with redis.Redis.from_url(redis_url) as client, started(settings, "redis", stream) as source:
        client.xadd(stream, {"event": sent[0]})
        until(lambda: there(1), "the first event is in the log")
        client.execute_command("CLIENT", "KILL", "TYPE", "normal")
        client.xadd(stream, {"event": sent[1]})
        until(lambda: there(2), "the second event is in the log")
        client.delete(stream)
        for value in sent[2:]:
            client.xadd(stream, {"event": value})
        until(lambda: there(4), "all are in the log")
        source.terminate()
        assert source.wait(10) == 0
        client.delete(stream)


@pytest.mark.requirement("Y26")
def test_a_stream_that_becomes_something_else_ends_the_source_with_what_it_is(
    settings: Settings, redis_url: str
) -> None:
    stream = uuid.uuid4().hex
    with (
        redis.Redis.from_url(redis_url) as client,
        closing(RedisStream(connect(redis_url), stream, "g", "me")) as source,
    ):
        client.delete(stream)
        client.set(stream, "x")
        with pytest.raises(QueueDamagedError, match=f"the key {stream} of this Redis is no stream"):
            feed(source, settings, threading.Event())
        told = hmx(settings, "source", "redis", stream)
        assert (told.exit_code, "another type" in told.output) == (1, True)
        client.delete(stream)


@pytest.mark.requirement("Y26")
def test_a_jetstream_message_that_cannot_be_sent_is_refused_for_good(settings: Settings, nats_url: str) -> None:
    nats = pytest.importorskip("nats")
    name = uuid.uuid4().hex

    async def send() -> None:
        client = await nats.connect(nats_url)
        await client.jetstream().add_stream(name=name, subjects=[name])
        for value in (b"x" * 3_000_000, encoded(event(session_id=name, event_id=name))):
            await client.jetstream().publish(name, value)
        await client.close()

    async def left() -> tuple[int, int]:
        client = await nats.connect(nats_url)
        found = await client.jetstream().consumer_info(name, "hmx")
        await client.close()
        return int(found.num_pending), int(found.num_ack_pending)

    asyncio.run(send())
    told = hmx(settings, "source", "nats", name, "--url", nats_url, "--until-empty", "--json")
    assert json.loads(told.stdout) == {"events": 1, "refused": 1}
    assert asyncio.run(left()) == (0, 0)


@pytest.mark.requirement("Y26", "E-30")
def test_every_message_of_a_jetstream_is_released_once(settings: Settings, nats_url: str) -> None:
    nats = pytest.importorskip("nats")
    name = uuid.uuid4().hex

    async def send() -> None:
        client = await nats.connect(nats_url)
        stream = client.jetstream()
        await stream.add_stream(name=name, subjects=[f"{name}.>"])
        for value in session(name):
            await stream.publish(f"{name}.agent", value)
        await client.close()

    async def left() -> int:
        client = await nats.connect(nats_url)
        found = await client.jetstream().consumer_info(name, "hmx")
        await client.close()
        return int(found.num_pending + found.num_ack_pending)

    from hmx_pipeline.sources.jetstream import JetStream

    asyncio.run(send())
    dead_twice(settings, lambda: JetStream(nats_url, f"{name}.>", "hmx"))
    killed_in_between(settings, "nats", f"{name}.>", "--url", nats_url)
    assert asyncio.run(left()) == 0
    released_once(settings, name)


class Slow:
    """A queue that gives nothing at first, as a busy server does."""

    def __init__(self, events: list[bytes]) -> None:
        self._given: list[list[QueueMessage]] = [[], [QueueMessage(str(n), value, n) for n, value in enumerate(events)]]

    def take(self, wait_s: float) -> list[QueueMessage]:
        return self._given.pop(0) if self._given else []

    def drained(self) -> bool:
        return not self._given

    def acknowledge(self, taken: list[QueueMessage]) -> None: ...

    refuse = acknowledge

    def close(self) -> None: ...


@pytest.mark.requirement("Y26")
def test_a_queue_is_read_until_it_is_drained_and_not_until_it_is_slow(settings: Settings) -> None:
    sent = session(uuid.uuid4().hex, 3)
    assert feed(Slow(sent), settings, threading.Event(), until_empty=True) == (3, 0)


def test_a_queue_that_is_not_there_is_said_so(settings: Settings) -> None:
    (port,) = free_ports(1)
    told = hmx(settings, "source", "redis", "s", "--url", f"redis://127.0.0.1:{port}")
    assert told.exit_code == 1
    assert "Redis does not answer" in told.output


def test_a_subject_without_a_stream_is_said_so(settings: Settings, nats_url: str) -> None:
    pytest.importorskip("nats")
    told = hmx(settings, "source", "nats", "nobody.>", "--url", nats_url)
    assert told.exit_code == 1
    assert "NATS gives no messages of nobody.>" in told.output
