"""`hmx-mcp` without the service: what a host may send, and what it hears."""

import io
import json
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_mcp import answers, watching
from hmx_mcp.service import Service, ServiceError
from hmx_mcp.stdio import AT_ONCE, BUSY, HANDSHAKE, LINE_BYTES, MODERN, THREADS, Stdio

NEW = {"io.modelcontextprotocol/protocolVersion": MODERN}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
METHODS = st.sampled_from(["initialize", "server/discover", "ping", "tools/list", "tools/call", "prompts/get", "none"])


def away(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
    raise ServiceError("the memory service does not answer")


def silent_until(answering: threading.Event) -> tuple[Callable[..., tuple[int, bytes]], list[str]]:
    """A service that is away, and says so only then; and the paths that it was asked for."""
    asked: list[str] = []

    def ask(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        asked.append(path)
        assert answering.wait(60)
        return away(method, path, body)

    return ask, asked


def heard(*lines: bytes | dict[str, Any], ask: Any = away) -> list[dict[str, Any]]:
    out = io.BytesIO()
    host = Stdio(Service(ask, "", "s"), out)
    for line in lines:
        host.hear(line if isinstance(line, bytes) else json.dumps({"jsonrpc": "2.0", **line}).encode())
    host.end()
    return [json.loads(line) for line in out.getvalue().splitlines()]


@pytest.mark.parametrize("version", HANDSHAKE)
def test_an_older_host_gets_the_version_it_asks_for(version: str) -> None:
    (said,) = heard({"id": 1, "method": "initialize", "params": {"protocolVersion": version}})
    assert said["result"]["protocolVersion"] == version
    assert "memory_pack" in said["result"]["instructions"]


@pytest.mark.parametrize("version", ["1999-01-01", MODERN, 7, None])
def test_a_host_that_asks_for_another_version_gets_the_latest_of_the_handshake(version: object) -> None:
    (said,) = heard({"id": "a", "method": "initialize", "params": {"protocolVersion": version}})
    assert (said["id"], said["result"]["protocolVersion"]) == ("a", HANDSHAKE[0])


def test_a_version_that_is_not_served_is_refused_with_those_that_are() -> None:
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2030-01-01"}}
    (said,) = heard({"id": 1, "method": "tools/list", "params": meta})
    assert said["error"]["code"] == -32022
    assert said["error"]["data"] == {"supported": [MODERN], "requested": "2030-01-01"}


def test_what_is_offered_needs_no_service() -> None:
    for params in ({}, {"_meta": NEW}):
        for method, offered in answers.OFFERED.items():
            (said,) = heard({"id": 1, "method": method, "params": params})
            assert said["result"].items() >= offered.items()


def test_a_rule_that_is_an_entry_is_told_once() -> None:
    bounds = [{"artifact_id": name, "constraint": f"Never push to {name}"} for name in ("main", "next")]
    entry = {"source_id": "main", "section": "core", "source_type": "policy", "relevance_score": 0.5}
    entries = [{**entry, "content": "[hmx] Never push to main"}]
    pack = {"entries": entries, "decision_constraints": bounds, "token_budget": {"used": 9}}
    call = {"name": "memory_pack", "arguments": {"query": "push"}}
    (said,) = heard({"id": 1, "method": "tools/call", "params": call}, ask=lambda *_: (200, json.dumps(pack).encode()))
    text = said["result"]["content"][0]["text"]
    assert [text.count(f"Never push to {name}") for name in ("main", "next")] == [1, 1]
    assert said["result"]["structuredContent"]["rules"] == ["Never push to main", "Never push to next"]


def test_a_service_that_is_away_is_an_error_of_each_request_and_the_next_one_asks_again() -> None:
    asked: list[str] = []

    def ask(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        asked.append(path)
        return away(method, path, body)

    call = {"method": "tools/call", "params": {"name": "memory_pack", "arguments": {"query": "x"}}}
    first, second = sorted(heard({"id": 1, **call}, {"id": 2, **call}, ask=ask), key=lambda one: int(one["id"]))
    assert first["result"] == second["result"]
    assert first["result"]["isError"]
    assert "does not answer" in first["result"]["content"][0]["text"]
    assert len(asked) == 2
    (said,) = heard({"id": 3, "method": "resources/read", "params": {"uri": "hmx://rules"}})
    assert said["error"] == {"code": -32603, "message": "the memory service does not answer"}


def test_a_cancelled_call_is_not_answered() -> None:
    going, cancelled = threading.Event(), threading.Event()

    def ask(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        going.set()
        assert cancelled.wait(30)
        return away(method, path, body)

    out = io.BytesIO()
    host = Stdio(Service(ask, "", "s"), out)
    host.hear(b'{"id": 1, "method": "tools/call", "params": {"name": "memory_status"}}')
    assert going.wait(30)
    host.hear(b'{"method": "notifications/cancelled", "params": {"requestId": 1}}')
    cancelled.set()
    host.end()
    assert out.getvalue() == b""


def test_a_silent_service_holds_up_neither_pings_nor_cancellations() -> None:
    answering = threading.Event()
    ask, _ = silent_until(answering)
    out = io.BytesIO()
    host = Stdio(Service(ask, "", "s"), out)
    # each line is heard in turn, so the test ends only if none waits for the service
    for who in range(AT_ONCE + 1):
        host.hear(b'{"id": %d, "method": "tools/call", "params": {"name": "memory_status"}}' % who)
    host.hear(b'{"id": "ping", "method": "ping"}')
    busy, pong = map(json.loads, out.getvalue().splitlines())
    assert (busy["id"], busy["error"]["code"]) == (AT_ONCE, BUSY)
    assert "try again" in busy["error"]["message"]
    assert pong["id"] == "ping"
    host.hear(b'{"method": "notifications/cancelled", "params": {"requestId": 0}}')
    host.hear(b'{"id": "after", "method": "resources/read", "params": {"uri": "hmx://rules"}}')
    answering.set()
    host.end()
    told = [json.loads(line)["id"] for line in out.getvalue().splitlines()[2:]]
    assert sorted(told, key=str) == sorted([*range(1, AT_ONCE), "after"], key=str)


def test_calls_that_are_cancelled_again_and_again_leave_a_bounded_number_of_threads() -> None:
    answering = threading.Event()
    ask, asked = silent_until(answering)
    out = io.BytesIO()
    host = Stdio(Service(ask, "", "s"), out)
    for who in range(THREADS + 1):
        host.hear(b'{"id": %d, "method": "resources/read", "params": {"uri": "hmx://rules"}}' % who)
        host.hear(b'{"method": "notifications/cancelled", "params": {"requestId": %d}}' % who)
    answering.set()
    host.end()
    (said,) = map(json.loads, out.getvalue().splitlines())
    assert (said["id"], said["error"]["code"]) == (THREADS, BUSY)
    assert len(asked) <= THREADS


def test_an_answer_to_a_cancelled_call_is_not_taken_for_that_of_a_later_one_with_its_id() -> None:
    first, second = threading.Event(), threading.Event()

    def ask(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        mine = first if b'"one"' in (body or b"") else second
        assert mine.wait(60)
        raise ServiceError("first" if mine is first else "second")

    call = b'{"id": 1, "method": "tools/call", "params": {"name": "memory_pack", "arguments": {"query": "%b"}}}'
    out = io.BytesIO()
    host = Stdio(Service(ask, "", "s"), out)
    host.hear(call % b"one")
    (earlier,) = host._open.values()
    host.hear(b'{"method": "notifications/cancelled", "params": {"requestId": 1}}')
    host.hear(call % b"two")
    first.set()
    earlier.join(60)
    second.set()
    host.end()
    (said,) = map(json.loads, out.getvalue().splitlines())
    assert said["result"]["content"][0]["text"] == "second"


@pytest.mark.parametrize("method", ["tools/list", "tools/call"])
def test_no_depth_of_a_line_ends_the_connection(method: str) -> None:
    def odd(deep: int) -> bytes:
        nested = "[" * deep + "]" * deep
        meta = f'{{"io.modelcontextprotocol/protocolVersion": {nested}}}'
        return f'{{"id": 1, "method": "{method}", "params": {{"_meta": {meta}}}}}'.encode()

    for deep in range(700, sys.getrecursionlimit() + 1):
        (said,) = heard(odd(deep))
        assert said["error"]["code"] in (-32022, -32700)


def test_of_a_version_that_is_not_served_only_the_beginning_is_said_again() -> None:
    meta = {"_meta": {"io.modelcontextprotocol/protocolVersion": "9" * 100_000}}
    (said,) = heard({"id": 1, "method": "tools/list", "params": meta})
    assert len(json.dumps(said)) < 1_000


def test_what_fails_in_an_answer_is_an_error_of_that_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(answers.OFFERED, "tools/list", {"tools": object()})
    failed, pong = heard({"id": 1, "method": "tools/list"}, {"id": 2, "method": "ping"})
    assert failed["error"]["code"] == -32603
    assert pong["result"] == {}


def test_an_odd_answer_of_the_service_does_not_end_the_watching(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.001)
    pack = {"token_budget": {"used": 0}, "metadata": {"memory_empty": True}}
    said = iter([pack, {}, {"token_budget": None}])
    told, updated = [], threading.Event()

    def ask(method: str, path: str, body: bytes | None) -> tuple[int, bytes]:
        return 200, json.dumps(next(said, {**pack, "metadata": {}})).encode()

    def tell(about: dict[str, Any]) -> None:
        told.append(about)
        updated.set()

    watched = watching.Watching(Service(ask, "", "s"), tell)
    watched.listen(1, ["hmx://rules"], {})
    assert updated.wait(60)
    watched.leave(1)
    assert told == [{"uri": "hmx://rules"}]


def test_a_resource_that_cannot_be_read_takes_no_place_once_it_is_left() -> None:
    watched = watching.Watching(Service(away, "", "s"), lambda _: None)
    for number in range(watching.WATCHED + 1):
        watched.listen(number, [f"hmx:\ud800{number}"], {})
        watched.leave(number)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"no json", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"id": 1}', -32600),
        (b'{"id": true, "method": "ping"}', -32600),
        (b'{"id": null, "method": "ping"}', -32600),
        (b" " * LINE_BYTES + b'{"id": 1, "method": "ping"}', -32600),
        (b'{"id": 1, "method": "no/such"}', -32601),
        (b'{"id": 1, "method": "tools/call"}', -32602),
        (b'{"id": 1, "method": "tools/call", "params": {"name": "search", "arguments": []}}', -32602),
        (b'{"id": 1, "method": "prompts/get", "params": {"name": "recover", "arguments": {"error": 1}}}', -32602),
        (b'{"id": 1, "method": "resources/subscribe", "params": []}', -32602),
    ],
)
def test_what_is_no_request_is_refused_by_its_code(line: bytes, code: int) -> None:
    said, pong = heard(line, b'{"id": "after", "method": "ping"}')
    assert said["error"]["code"] == code
    assert pong == {"jsonrpc": "2.0", "id": "after", "result": {}}


@given(METHODS, VALUES, st.booleans())
def test_every_request_has_one_answer_and_no_notification_has_any(method: str, params: Any, new: bool) -> None:
    if new and isinstance(params, dict):
        params = {**params, "_meta": NEW}
    told = heard({"method": method, "params": params}, {"id": 7, "method": method, "params": params})
    assert [one["id"] for one in told] == [7]
    assert ("result" in told[0]) is not ("error" in told[0])


@pytest.mark.parametrize(
    "setting", [{"HMX_API_KEY": "hx_live_secret\n"}, {"HMX_SERVICE_URL": "http://u:hx_live_secret@127.0.0.1:1"}]
)
def test_a_secret_of_the_settings_is_in_no_answer(setting: dict[str, str]) -> None:
    ask = Service.of({"HMX_SERVICE_URL": "http://127.0.0.1:1", **setting}).ask
    for method, params in (
        ("tools/call", {"name": "memory_status"}),
        ("resources/read", {"uri": "hmx://rules"}),
    ):
        (said,) = heard({"id": 1, "method": method, "params": params}, ask=ask)
        assert "secret" not in json.dumps(said)


def test_it_starts_with_the_standard_library_alone() -> None:
    code = (
        "import sys; before = set(sys.modules); import hmx_mcp.stdio; "
        "print(sorted({m.partition('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['hmx_mcp']"
