"""`hmx-mcp`: the MCP server over stdio, until the host closes the connection.

It does without the official SDK, which takes longer to import than a host should wait. It speaks the protocol of
2026-07-28, whose requests carry their version, and the older ones, which begin with `initialize`. What is offered is
answered at once, also while the service is away. Each call waits for the service in a thread of its own, and a
cancelled one is not answered. Beyond AT_ONCE calls or THREADS threads a call is refused, so that pings and
cancellations are heard while the service is silent.
"""

import json
import sys
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO, Final

from hmx_mcp import answers
from hmx_mcp.answers import INTERNAL_ERROR, INVALID_PARAMS, RefusedError
from hmx_mcp.service import Json, Service
from hmx_mcp.tools import INSTRUCTIONS
from hmx_mcp.watching import Watching

MODERN: Final = "2026-07-28"
HANDSHAKE: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
LINE_BYTES: Final = 1024 * 1024
AT_ONCE: Final = 32
"""Calls that wait for the service at a time: every resource that may be watched can be subscribed to at once."""
THREADS: Final = 64
"""These calls, and cancelled ones whose question to the service has not ended yet."""
END_S: Final = 5.0
"""How long requests may still be answered once the host has closed the connection."""
PARSE_ERROR, INVALID_REQUEST, NO_METHOD, NO_VERSION, BUSY = -32700, -32600, -32601, -32022, -32000
_META: Final = "io.modelcontextprotocol/"
_INFO: Final = {"name": answers.NAME, "title": answers.TITLE, "version": answers.VERSION}
_WAITING: Final = (*answers.ASKED, "resources/subscribe", "subscriptions/listen")
_ABOUT: Final = {
    "capabilities": {
        "tools": {"listChanged": False},
        "resources": {"subscribe": True, "listChanged": False},
        "prompts": {"listChanged": False},
    },
    "instructions": INSTRUCTIONS,
}


class Stdio:
    """A host's connection."""

    def __init__(self, service: Service, out: BinaryIO) -> None:
        self._service, self._out = service, out
        self._writing = threading.Lock()
        self._open: dict[str | int, threading.Thread] = {}
        """What is to be answered, and by which thread."""
        self._threads: set[threading.Thread] = set()
        self._watching = Watching(service, lambda about: self._tell("notifications/resources/updated", about))

    def hear(self, line: bytes) -> None:
        """Take one message. It may still be answered after this has returned."""
        try:
            message = json.loads(line) if len(line) <= LINE_BYTES else None
        except (ValueError, RecursionError):
            self._say({"id": None, **_error(RefusedError(PARSE_ERROR, "the line is no JSON"))})
            return
        match message:
            case {"method": str(method), "id": str() | int() as who} if not isinstance(who, bool):
                self._request(who, method, message.get("params"))
            case {"method": "notifications/cancelled", "params": {"requestId": str() | int() as who}}:
                self._open.pop(who, None)
                self._watching.leave(who)
            case {"method": str()} if "id" not in message:
                pass
            case {"id": _, "result": _} | {"id": _, "error": _}:
                pass  # this server asks nothing
            case _:
                why = f"a line is one message of JSON-RPC with at most {LINE_BYTES} bytes"
                self._say({"id": None, **_error(RefusedError(INVALID_REQUEST, why))})

    def end(self) -> None:
        until = time.monotonic() + END_S
        for thread in list(self._open.values()):
            thread.join(max(0.0, until - time.monotonic()))
        if self._writing.acquire(timeout=max(0.0, until - time.monotonic())):  # nobody is in the midst of an answer
            self._writing.release()

    def _request(self, who: str | int, method: str, params: Any) -> None:
        def answering() -> None:
            try:
                self._answer(who, method, params)
            finally:
                self._threads.discard(thread)

        if method not in _WAITING:
            self._open[who] = threading.current_thread()
            self._answer(who, method, params)
            return
        thread = threading.Thread(target=answering, daemon=True)
        if len(self._open) < AT_ONCE and len(self._threads) < THREADS:
            self._open[who] = thread
            self._threads.add(thread)
            thread.start()
        else:
            why = "too many calls wait for the memory service: try again when one of them has ended"
            self._say({"id": who, **_error(RefusedError(BUSY, why))})

    def _answer(self, who: str | int, method: str, params: Any) -> None:
        try:
            said = self._said(who, method, params if isinstance(params, dict) else {})
            line = _line({"id": who, **said}) if said is not None else b""
        except RefusedError as error:
            line = _line({"id": who, **_error(error)})
        except Exception as error:  # noqa: BLE001  nothing that a host sends may end the connection
            sys.excepthook(type(error), error, error.__traceback__)
            failed = RefusedError(INTERNAL_ERROR, "hmx-mcp has failed: its log says where")
            line = _line({"id": who, **_error(failed)})
        with self._writing:
            if self._asks(who):
                del self._open[who]
                self._write(line)

    def _asks(self, who: str | int) -> bool:
        """Whether the request of this thread is still to be answered; a later one may have its id."""
        return self._open.get(who) is threading.current_thread()

    def _said(self, who: str | int, method: str, given: Json) -> Json | None:
        """Nothing as long as somebody listens."""
        version = _version(given)
        if method == "subscriptions/listen":
            return self._listen(who, given)
        result = self._result(method, given)
        if version and method not in ("initialize", "ping"):
            result = {**result, **answers.envelope(method), "_meta": {f"{_META}serverInfo": _INFO}}
        return {"result": result}

    def _result(self, method: str, given: Json) -> Json:
        match method:
            case "initialize":
                asked = given.get("protocolVersion")
                return {"protocolVersion": asked if asked in HANDSHAKE else HANDSHAKE[0], "serverInfo": _INFO, **_ABOUT}
            case "server/discover":
                return {"supportedVersions": [MODERN], **_ABOUT}
            case "ping":
                return {}
            case "resources/subscribe" | "resources/unsubscribe":
                uri = given.get("uri")
                if not isinstance(uri, str):
                    raise RefusedError(INVALID_PARAMS, f"{method} needs `uri`, a text")
                if method == "resources/subscribe":
                    self._watching.listen(("subscribe", uri), [uri], {})
                else:
                    self._watching.leave(("subscribe", uri))
                return {}
        if method not in answers.OFFERED and method not in answers.ASKED:
            raise RefusedError(NO_METHOD, f"there is no method {method[:100]!r}")
        return answers.answer(self._service, method, given)

    def _listen(self, who: str | int, given: Json) -> None:
        """Tell of updates until it is cancelled."""
        wanted = given.get("notifications")
        wanted = wanted if isinstance(wanted, dict) else {}
        uris = [uri for uri in wanted.get("resourceSubscriptions") or () if isinstance(uri, str)]
        about = {"_meta": {f"{_META}subscriptionId": who}}
        self._watching.listen(who, uris, about)
        heard = {name: True for name, value in wanted.items() if value is True}
        if uris:
            heard["resourceSubscriptions"] = uris
        self._tell("notifications/subscriptions/acknowledged", {"notifications": heard, **about})
        if not self._asks(who):
            self._watching.leave(who)  # it was cancelled meanwhile

    def _tell(self, method: str, params: Json) -> None:
        self._say({"method": method, "params": params})

    def _say(self, message: Json) -> None:
        with self._writing:
            self._write(_line(message))

    def _write(self, line: bytes) -> None:
        with suppress(OSError):  # a host that has gone; its end of the input follows
            self._out.write(line)
            self._out.flush()


def _line(message: Json) -> bytes:
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def _version(given: Json) -> str:
    """Return the version that a request carries, if any. Raises RefusedError for one that is not served."""
    meta = given.get("_meta")
    version = meta.get(f"{_META}protocolVersion", "") if isinstance(meta, dict) else ""
    if version not in ("", MODERN):
        requested = version[:100] if isinstance(version, str) else "no text"  # it may nest too deep to be said again
        data = {"supported": [MODERN], "requested": requested}
        raise RefusedError(NO_VERSION, f"this server speaks {MODERN}, and older versions after `initialize`", data)
    return str(version)


def _error(error: RefusedError) -> Json:
    data = {"data": error.data} if error.data else {}
    return {"error": {"code": error.code, "message": str(error), **data}}


def main() -> None:
    host, reading = Stdio(Service.of(), sys.stdout.buffer), sys.stdin.buffer
    while line := reading.readline(LINE_BYTES + 1):
        whole = len(line) <= LINE_BYTES or line.endswith(b"\n")
        while not whole and (rest := reading.readline(LINE_BYTES)):
            whole = rest.endswith(b"\n")
        if line.strip():
            host.hear(line)
    host.end()
