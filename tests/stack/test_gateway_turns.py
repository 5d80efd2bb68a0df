"""What the gateway's upstream and its clients may do, and still hold no turn and no other tenant up."""

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp
import httpx
import orjson
import pytest

from hmx_pipeline.doors import openai_chat
from hmx_pipeline.service import event_log, openai_routes
from tests.support.pipeline import new_settings
from tests.support.service import serving

STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
EVENT = b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"x" * 4_000)
HELLO = {"messages": [{"role": "user", "content": "hello"}]}
ACME = {"X-HMX-Tenant": "acme"}
Act = Callable[[socket.socket, threading.Event], None]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def silent(connection: socket.socket, over: threading.Event) -> None:
    over.wait(60)


def begun(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(STREAM + chunk(EVENT))
    over.wait(60)


def endless(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(STREAM)
    while not over.is_set():
        connection.sendall(chunk(EVENT))


def broken(connection: socket.socket, over: threading.Event) -> None:
    connection.sendall(STREAM + chunk(EVENT) + b"ff\r\n")


def whole(connection: socket.socket, over: threading.Event) -> None:
    body = json.dumps({"choices": [{"index": 0, "message": {"content": "Hello."}}]}).encode()
    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body))
    connection.sendall(body)


@contextmanager
def upstream(*acts: Act) -> Iterator[str]:
    """The base URL of a server that does these one after the other, each with a connection of its own."""
    over, server = threading.Event(), socket.create_server(("127.0.0.1", 0))
    server.settimeout(30)
    running: list[threading.Thread] = []

    def do(act: Act, connection: socket.socket) -> None:
        with connection:
            asked = b""
            while not asked.endswith(b"}") and (more := connection.recv(1 << 16)):
                asked += more
            with suppress(BrokenPipeError, ConnectionResetError):  # it is hung up on
                act(connection, over)

    def accept() -> None:
        for act in acts:
            running.append(threading.Thread(target=do, args=(act, server.accept()[0])))
            running[-1].start()

    accepting = threading.Thread(target=accept)
    accepting.start()
    try:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    finally:
        over.set()
        accepting.join()
        for one in running:
            one.join()
        server.close()


@pytest.fixture
def one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_routes, "AT_ONCE", 1)
    monkeypatch.setattr(openai_routes, "AT_ONCE_EACH", 1)


@contextmanager
def gateway(url: str) -> Iterator[httpx.Client]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_log, "ACKNOWLEDGED_MS", 500)  # what is recorded finds no Kafka, and the end waits for it
        with serving(new_settings("127.0.0.1:1", "redis://127.0.0.1:1", openai_upstream=url)) as service:
            yield service


def asked(service: httpx.Client) -> http.client.HTTPConnection:
    connection = http.client.HTTPConnection(service.base_url.host, service.base_url.port or 0)
    connection.request(
        "POST", "/v1/chat/completions", orjson.dumps(HELLO), {**ACME, "Content-Type": "application/json"}
    )
    return connection


@pytest.mark.usefixtures("one_turn")
@pytest.mark.parametrize("act", [silent, begun])
def test_who_hangs_up_gives_the_turn_back_though_the_upstream_is_silent(act: Act) -> None:
    heard = threading.Event()

    def first(connection: socket.socket, over: threading.Event) -> None:
        heard.set()
        act(connection, over)

    with upstream(first, whole) as url, gateway(url) as service:
        connection = asked(service)
        assert heard.wait(20)
        if act is begun:
            assert connection.getresponse().read(10) == EVENT[:10]
        connection.close()
        assert service.post("/v1/chat/completions", json=HELLO, headers=ACME).status_code == 200


@pytest.mark.usefixtures("one_turn")
def test_who_does_not_read_a_stream_keeps_no_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_routes, "TIMES", aiohttp.ClientTimeout(total=2))
    with upstream(endless, whole) as url, gateway(url) as service:
        connection = asked(service)
        assert connection.getresponse().status == 200
        assert service.post("/v1/chat/completions", json=HELLO, headers=ACME).status_code == 200
        connection.close()


def test_a_stream_that_the_upstream_breaks_off_lacks_its_end_and_the_next_is_whole() -> None:
    with upstream(broken, whole) as url, gateway(url) as service:
        with pytest.raises(httpx.RemoteProtocolError):
            service.post("/v1/chat/completions", json=HELLO, headers=ACME)
        assert service.post("/v1/chat/completions", json=HELLO, headers=ACME).status_code == 200


@pytest.mark.parametrize("reads", ["question", "opening"])
def test_a_large_request_is_not_read_where_all_tenants_wait(monkeypatch: pytest.MonkeyPatch, reads: str) -> None:
    read, where = getattr(openai_chat, reads), list[str]()

    def reading(told: Any) -> Any:
        where.append(threading.current_thread().name)
        return read(told)

    monkeypatch.setattr(openai_routes, reads, reading)
    large = {"messages": [{"role": "user", "content": "x" * 20_000}]}
    with upstream(whole) as url, gateway(url) as service:
        assert service.post("/v1/chat/completions", json=large, headers=ACME).status_code == 200
    assert [name for name in where if "AnyIO" not in name] == []
    assert where
