"""The service's edges, on a real socket: whose page may ask, what every answer says, and when a connection is closed.

Neither Kafka nor Redis is there: none of this needs them.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import httpx
import orjson
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.service.connection import CHUNKS, MOVES, UNREAD_BYTES
from hmx_pipeline.service.events import BODY_BYTES
from hmx_pipeline.settings import Settings
from tests.support.records import event
from tests.support.service import is_problem, serving

NOBODY = Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1")
ACME = {"X-HMX-Tenant": "acme"}
HEAD = b"POST /v1/hmx/events HTTP/1.1\r\nHost: localhost\r\nX-HMX-Tenant: acme\r\nContent-Type: application/json\r\n"
WAIT_S = 40.0


@pytest.fixture(scope="module")
def service() -> Iterator[httpx.Client]:
    with serving(NOBODY) as client:
        yield client


def opened(service: httpx.Client, *sent: bytes) -> socket.socket:
    made = socket.create_connection((service.base_url.host, service.base_url.port or 0), WAIT_S)
    for part in sent:
        made.sendall(part)
    return made


def heard(connection: socket.socket) -> bytes:
    """All that the service says until it closes the connection; TimeoutError where it leaves it open."""
    said = b""
    try:
        while more := connection.recv(65536):
            said += more
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("path", ["/", "/docs", "/v1/hmx", "/v1/hmx/artifacts", "/v1/health", "/openapi.json"])
def test_a_name_that_is_not_the_service_s_is_refused_while_nobody_needs_a_key(service: httpx.Client, path: str) -> None:
    for host in (
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:8080",
        "8.8.8.8",
        "[::2]:80",
        "evil.example:80@localhost",
        "localhost:evil.example",
        "localhost#.evil.example",
        "[::1].evil.example",
        ":",
        "",
    ):
        answer = service.get(path, headers={**ACME, "Host": host})
        assert answer.status_code == 421, host
        assert "HMX_ALLOWED_HOSTS" in answer.text
    for host in ("localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:8080", "localhost."):
        assert service.get(path, headers={**ACME, "Host": host}).status_code != 421, host


def test_a_page_of_another_site_reads_and_writes_nothing(service: httpx.Client) -> None:
    own = f"http://{service.base_url.netloc.decode()}"
    for origin in ("http://evil.example", "null", "http://localhost:3000", f"{own}.evil.example", "file://", ""):
        is_problem(
            service.post("/v1/hmx/context-packs", json={"query": "x"}, headers={**ACME, "Origin": origin}),
            403,
            "origin_not_allowed",
        )
        with pytest.raises(InvalidStatus) as refused:
            connect(own.replace("http", "ws") + "/v1/hmx/events", additional_headers={**ACME, "Origin": origin})
        assert refused.value.response.status_code == 403
    is_problem(service.get("/v1/hmx/artifacts", headers={**ACME, "Origin": own}), 503, "redis_unavailable")
    allowed = {**ACME, "Origin": own, "Content-Length": "0"}
    with connect(own.replace("http", "ws") + "/v1/hmx/events", additional_headers=allowed):
        pass


def test_probes_are_asked_by_any_name(service: httpx.Client) -> None:
    for path, status in (("/livez", 200), ("/metrics", 200), ("/readyz", 503), ("/startupz", 503)):
        assert service.get(path, headers={"Host": "10.1.2.3:8080"}).status_code == status


def test_names_are_added_by_settings_and_with_keys_none_is_looked_at(tmp_path: Path) -> None:
    named = {"host": "0.0.0.0", "service_url": "https://memory.example", "allowed_hosts": "hmx.lan, service"}
    with serving(replace(NOBODY, **named)) as client:
        for host in ("memory.example", "hmx.lan:8080", "service", "192.168.1.7:8080", "localhost"):
            assert client.get("/v1/hmx", headers={"Host": host}).status_code == 200, host
            assert client.get("/v1/hmx", headers={"Host": host, "Origin": f"http://{host}"}).status_code == 200
        assert client.get("/v1/hmx", headers={"Host": "evil.example"}).status_code == 421
        assert client.get("/v1/hmx", headers={"Origin": "http://hmx.lan:3000"}).status_code == 200
        assert client.get("/v1/hmx", headers={"Origin": "http://192.168.1.7"}).status_code == 403
    file = tmp_path / "keys"
    key = add(file, Grant("acme", frozenset(Scope)))
    with serving(
        Settings(kafka_bootstrap="127.0.0.1:1", redis_url="redis://127.0.0.1:1", api_keys=str(file))
    ) as client:
        asked = {"Host": "memory.example", "Origin": "https://elsewhere.example", "Authorization": f"Bearer {key}"}
        is_problem(client.get("/v1/hmx/artifacts", headers=asked), 503, "redis_unavailable")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 200), ("GET", "/page/style.css", 200), ("GET", "/page/none.js", 404), ("GET", "/docs/", 200),
        ("GET", "/openapi.json", 200), ("GET", "/livez", 200), ("GET", "/metrics", 200), ("GET", "/readyz", 503),
        ("HEAD", "/v1/hmx", 200), ("GET", "/schemas/hmx-1.0/event.json", 200), ("GET", "/nowhere", 404),
        ("PUT", "/v1/hmx/events", 405), ("POST", "/v1/hmx/events", 400), ("GET", "/v1/hmx/artifacts", 400),
        ("POST", "/v1/capture", 401), ("GET", "/v1/health", 200),
    ],
)  # fmt: skip
def test_every_answer_is_nobody_s_to_keep_or_to_guess_at(
    service: httpx.Client, method: str, path: str, status: int
) -> None:
    answer = service.request(method, path)
    assert answer.status_code == status
    assert answer.headers.get_list("x-content-type-options") == ["nosniff"]
    assert answer.headers.get_list("cache-control") == ["no-store"]


def test_what_is_no_http_is_answered_alike(service: httpx.Client) -> None:
    with closing(opened(service, b"NONSENSE\r\n\r\n")) as connection:
        said = heard(connection)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"nosniff" in said
    assert b"no-store" in said
    assert b"bad_framing" in said


@pytest.mark.parametrize(
    "handshake",
    [b"", b"Sec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13", b"Sec-WebSocket-Version: 7", b"Content-Length: 5"],
)
def test_what_is_no_handshake_is_answered_alike(service: httpx.Client, handshake: bytes) -> None:
    head = b"GET /v1/hmx/events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    with closing(opened(service, head + handshake + b"\r\n" * (2 if handshake else 1))) as connection:
        said = heard(connection).lower()
    assert said.startswith(b"http/1.1 4")
    assert said.count(b"x-content-type-options: nosniff") == said.count(b"cache-control: no-store") == 1


@pytest.mark.parametrize(
    "framing",
    [b"Content-Length: 5\r\nTransfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 0"],
)
def test_a_length_said_twice_is_refused_and_nothing_after_it_is_read(service: httpx.Client, framing: bytes) -> None:
    smuggled = b"0\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with closing(opened(service, HEAD + framing + b"\r\n\r\n" + smuggled)) as connection:
        said = heard(connection)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert said.count(b"HTTP/1.1 ") == 1
    assert b"alive" not in said


def test_a_request_that_stands_still_is_closed(service: httpx.Client) -> None:
    asked = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
    still = {
        "nothing": b"",
        "half a head": asked[:20],
        "half a body": HEAD + b"Content-Length: 1000\r\n\r\n{",
        "half a chunk": HEAD + b'Transfer-Encoding: chunked\r\n\r\n5\r\n{"a"',
        "half a second head": asked + asked[:20],
    }
    opened_first = {name: opened(service, sent) for name, sent in still.items()}
    for name, connection in opened_first.items():
        with closing(connection):
            assert heard(connection).count(b"HTTP/1.1 ") == (name == "half a second head"), name


def test_a_head_or_a_body_that_drips_is_closed_too(service: httpx.Client) -> None:
    dripping = [opened(service, HEAD), opened(service, HEAD + b"Content-Length: 100000\r\n\r\n")]
    deadline = time.monotonic() + WAIT_S
    while dripping:
        assert time.monotonic() < deadline, "a connection that brings a byte now and then is still open"
        time.sleep(0.5)
        for connection in list(dripping):
            try:
                connection.sendall(b"a")
            except OSError:
                dripping.remove(connection)
                connection.close()


def test_a_body_that_goes_on_slowly_and_a_stream_that_is_silent_stay(service: httpx.Client) -> None:
    def slowly() -> Iterator[bytes]:
        yield b"["
        for _ in range(6):
            time.sleep(2)
            yield b" " * MOVES
        yield b"{}]"

    url = f"ws://{service.base_url.netloc.decode()}/v1/hmx/events"
    with connect(url, additional_headers=ACME) as silent:
        answer = service.post("/v1/hmx/events", content=slowly(), headers={**ACME, "Content-Type": "application/json"})
        assert answer.status_code == 422, "it was read whole"
        silent.ping().wait(WAIT_S)


def test_a_chunked_body_ends_at_the_limit(service: httpx.Client) -> None:
    """Whoever goes on sending is cut off, so that no body lasts for ever."""
    chunk = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
    sent = 0
    with closing(opened(service, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")) as connection:
        try:
            while sent <= BODY_BYTES + 2 * UNREAD_BYTES:
                connection.sendall(chunk)
                sent += len(chunk)
            pytest.fail("the service reads on and on")
        except OSError:
            pass
        assert heard(connection).startswith(b"HTTP/1.1 413 ")
    assert sent > BODY_BYTES


def test_a_chunked_body_is_read_whole(service: httpx.Client) -> None:
    body = orjson.dumps({**event(), "sequence": -1})
    pieces = (body[at : at + 100] for at in range(0, len(body), 100))
    answer = service.post("/v1/hmx/events", content=pieces, headers={**ACME, "Content-Type": "application/json"})
    is_problem(answer, 422, "bad_sequence")


def test_a_body_in_tiny_chunks_is_refused_before_it_costs(service: httpx.Client) -> None:
    with closing(opened(service, HEAD + b"Transfer-Encoding: chunked\r\n\r\n")) as connection:
        connection.sendall(b"1\r\n \r\n" * (CHUNKS + 1))
        assert b"bad_framing" in heard(connection)


def test_documentation_names_every_route_and_loads_nothing_from_elsewhere(service: httpx.Client) -> None:
    page = service.get("/docs/api")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert "http://" not in page.text.replace("http://json-schema.org", "")
    assert "<script" not in page.text
    for path, item in service.get("/openapi.json").json()["paths"].items():
        for method in item:
            assert f"<code>{method.upper()} {path}</code>" in page.text
