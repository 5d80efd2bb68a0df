"""Events over a WebSocket on a real Kafka: one a frame, each acknowledged; versions settled at the handshake."""

import asyncio
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service import websocket
from hmx_pipeline.service.api_keys import USUAL, Grant, Scope, add, revoke
from hmx_pipeline.service.event_log import EventLog, NotAppendedError
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.bad_input import BAD
from tests.support.pipeline import create_topics, new_settings
from tests.support.records import event
from tests.support.service import is_problem, serving
from tests.support.topics import read
from tests.support.waiting import PATIENCE_S, until

ACME = {"X-HMX-Tenant": "acme"}
URL = "/v1/hmx/events"
SPOKEN = ["hmx-1.0"]


@pytest.fixture(scope="module")
def settings(kafka: str) -> Settings:
    """No Redis is needed."""
    made = new_settings(kafka, "redis://127.0.0.1:1")
    create_topics(made, partitions=2)
    return made


@contextmanager
def connected(
    service: httpx.Client, headers: dict[str, str] = ACME, offered: Sequence[str] = SPOKEN, **options: Any
) -> Iterator[ClientConnection]:
    url = str(service.base_url).replace("http", "ws", 1).rstrip("/") + URL
    protocols: Any = offered or None
    with connect(url, additional_headers=headers, subprotocols=protocols, proxy=None, **options) as socket:
        yield socket


def refused(service: httpx.Client, **how: Any) -> httpx.Response:
    with pytest.raises(InvalidStatus) as raised, connected(service, **how):
        raise AssertionError("it was let in")
    answer = raised.value.response
    return httpx.Response(
        answer.status_code, headers=list(answer.headers.raw_items()), content=bytes(answer.body or b"")
    )


def told(socket: ClientConnection) -> dict[str, Any]:
    return dict(orjson.loads(socket.recv(PATIENCE_S)))


def logged(settings: Settings, session: str) -> list[bytes]:
    """The values of a session's records, in order."""
    found = (message for messages in read(settings, EVENTS).values() for message in messages)
    return [message.value() or b"" for message in found if (message.key() or b"").decode() == f"acme/{session}"]


@pytest.mark.requirement("E-29")
def test_each_frame_is_an_event_and_each_is_acknowledged_in_order(service: httpx.Client, settings: Settings) -> None:
    sent = [orjson.dumps(event("frames", n)) for n in range(100)]
    sent[41] = b'{"hmx_version": "HMX-2.0"}'
    with connected(service) as socket:
        for n, value in enumerate(sent):
            socket.send(value if n % 2 else value.decode())
        answers = [told(socket) for _ in sent]
        socket.send(orjson.dumps(event("frames", 100, tenant_id="globex")))
        other = told(socket)
    assert [answer["index"] for answer in answers] == list(range(100))
    assert [answer["status"] for answer in answers] == ["accepted"] * 41 + ["rejected"] + ["accepted"] * 58
    assert (answers[41]["reason"], answers[41]["path"]) == ("unsupported_version", "$.hmx_version")
    assert (other["index"], other["reason"]) == (100, "tenant_mismatch")
    assert logged(settings, "frames") == [value for n, value in enumerate(sent) if n != 41]
    where = {(answer["partition"], answer["offset"]) for answer in answers if answer["status"] == "accepted"}
    assert len(where) == 99


@pytest.mark.parametrize("name", [name for name, bad in BAD.items() if bad.value is not None])
def test_a_bad_frame_has_its_reason_and_the_next_one_passes(service: httpx.Client, name: str) -> None:
    bad = BAD[name]
    with connected(service) as socket:
        socket.send(bad.value or b"")
        socket.send(orjson.dumps(event("after")))
        assert {**told(socket), "detail": ""}.items() >= {"reason": bad.reason, "path": bad.path}.items()
        assert told(socket)["status"] == "accepted"


@pytest.mark.requirement("V-04", "Y08")
def test_versions_are_settled_at_the_handshake(service: httpx.Client) -> None:
    about = service.get("/v1/hmx").json()
    assert about["websocket_subprotocol"] == "hmx-1.0"
    for offered, chosen in ((["hmx-1.0"], "hmx-1.0"), (["hmx-2.0", "hmx-1.37"], "hmx-1.37"), ([], None)):
        with connected(service, offered=offered) as socket:
            assert socket.subprotocol == chosen
    for offered in (["hmx-2.0"], ["hmx-0.9", "hmx-10.0"], ["graphql-ws"]):
        answer = refused(service, offered=offered)
        assert is_problem(answer, 400, "unsupported_version")["supported"] == ["HMX-1.x"]
        assert answer.headers["x-hmx-version"] == "HMX-1.0"
    for path in ("/v1/hmx/artifacts", "/v1/hmx/events"):
        for version in ("HMX-2.0", "2", ""):
            is_problem(service.get(path, headers={**ACME, "X-HMX-Version": version}), 400, "unsupported_version")
    answer = service.post(URL, json=event("versions"), headers={**ACME, "X-HMX-Version": "HMX-1.9"})
    assert (answer.status_code, answer.headers["x-hmx-version"]) == (202, "HMX-1.0")


def test_a_handshake_wants_a_key_that_writes_and_a_revoked_one_ends_the_connection(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "LOOK_S", 0.05)
    file = tmp_path / "keys"
    good, reads = add(file, Grant("acme", USUAL)), add(file, Grant("acme", frozenset({Scope.READ})))
    with serving(replace(settings, api_keys=str(file))) as service:
        is_problem(refused(service), 401, "unauthorized")
        is_problem(refused(service, headers={"Authorization": f"Bearer {reads}"}), 403, "forbidden")
        with connected(service, headers={"Authorization": f"Bearer {good}"}) as socket:
            socket.send(orjson.dumps(event("keys")))
            assert told(socket)["status"] == "accepted"
            revoke(file, good)
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1008


def test_frames_wait_for_kafka_no_more_than_so_many_and_close_the_connection_where_it_fails(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(websocket, "WAITING", 10)
    sizes: list[int] = []
    go_on, ours = threading.Event(), EventLog.append

    async def slow(self: EventLog, records: Sequence[Any]) -> Any:
        sizes.append(len(records))
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        return await ours(self, records)

    async def broken(self: EventLog, records: Sequence[Any]) -> Any:
        raise NotAppendedError("no leader")

    monkeypatch.setattr(EventLog, "append", slow)
    sent = [orjson.dumps(event("slow", n, content={"text": "x" * 1_000})) for n in range(200)]
    with serving(settings) as service:
        with connected(service) as socket:
            sending = threading.Thread(target=lambda: [socket.send(value) for value in sent])
            sending.start()
            threading.Timer(0.5, go_on.set).start()
            assert [told(socket)["index"] for _ in sent] == list(range(200))
            sending.join()
        assert max(sizes) <= 10
        assert logged(settings, "slow") == sent
        monkeypatch.setattr(EventLog, "append", broken)
        with connected(service) as socket:
            socket.send(orjson.dumps(event("failed")))
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_S)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1013, "kafka_unavailable")
        assert 'hmx_http_streams_ended_total{reason="kafka_unavailable"}' in service.get("/metrics").text
    assert logged(settings, "failed") == []


def test_what_was_sent_before_the_client_went_is_taken_though_nobody_is_told(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, go_on = held_up(monkeypatch)
    sent = [orjson.dumps(event("gone", n)) for n in range(100)]
    with serving(settings) as service:
        with connected(service) as socket:
            for value in sent:
                socket.send(value)
        go_on.set()
        until(lambda: 'hmx_http_streams{kind="websocket"} 0.0' in service.get("/metrics").text, "it has ended")
    assert logged(settings, "gone") == sent


def test_what_is_read_and_never_taken_is_counted(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the key is revoked while one frame is on its way to Kafka, and nine wait behind it."""
    begun, go_on = held_up(monkeypatch)
    file = tmp_path / "keys"
    key = add(file, Grant("acme", USUAL))
    sent = [orjson.dumps(event("left", n)) for n in range(10)]
    with serving(replace(settings, api_keys=str(file))) as service:
        before = unacknowledged()
        with connected(service, headers={"Authorization": f"Bearer {key}"}) as socket:
            socket.send(sent[0])
            assert begun.wait(PATIENCE_S)
            for value in sent[1:]:
                socket.send(value)
            socket.ping().wait(PATIENCE_S)  # it has them all
            revoke(file, key)
            go_on.set()
            answers = list(until_closed(socket))
        until(lambda: unacknowledged() - before == len(sent) - len(answers), "the others are counted")
    assert logged(settings, "left") == sent[: len(answers)]
    assert len(answers) == 1


def until_closed(socket: ClientConnection) -> Iterator[Any]:
    with suppress(ConnectionClosed):
        while True:
            yield told(socket)


def held_up(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Whether an append has begun; and until this is set none is done."""
    begun, go_on, ours = threading.Event(), threading.Event(), EventLog.append

    async def slow(self: EventLog, records: Sequence[Any]) -> Any:
        begun.set()
        await asyncio.to_thread(go_on.wait, PATIENCE_S)
        return await ours(self, records)

    monkeypatch.setattr(EventLog, "append", slow)
    return begun, go_on


def unacknowledged() -> float:
    return METRICS.events_accepted.labels("unacknowledged")._value.get()


def test_a_frame_beyond_all_bounds_closes_the_connection(service: httpx.Client) -> None:
    with connected(service) as socket:
        socket.send(b" " * (websocket.FRAME_BYTES + 1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(PATIENCE_S)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_what_nobody_caught_closes_the_connection_and_is_a_line_without_what_was_sent(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: Any, **__: Any) -> None:
        raise ValueError("the payload")

    monkeypatch.setattr(websocket, "take", broken)
    with serving(settings) as service:
        with connected(service) as socket:
            socket.send(b"the payload")
            with pytest.raises(ConnectionClosed) as closed:
                socket.recv(PATIENCE_S)
        assert 'hmx_http_streams{kind="websocket"} 0.0' in service.get("/metrics").text
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011
    assert "the payload" not in caplog.text
