"""A stub of a model's server: answers chat completions, as OpenAI's API has them, from a script."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class RefusedError(Exception):
    """What a script raises to have a request answered with this status, headers and body."""

    def __init__(self, status: int, body: bytes = b"{}", **headers: str) -> None:
        super().__init__(status)
        self.status, self.body = status, body
        self.headers = {"content-type": "application/json", **headers}


@contextmanager
def answering(script: Callable[[list[Json]], Json], seen: list[tuple[Json, Json]] | None = None) -> Iterator[str]:
    """The base URL of a server whose answer to some messages is what the script makes of them, in pieces if a stream is
    asked for. `seen` gets each request's headers and fields."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            if seen is not None:
                seen.append(({name.lower(): value for name, value in self.headers.items()}, asked))
            try:
                said = script(asked["messages"])
            except RefusedError as refused:
                self._send(refused.status, refused.body, **refused.headers)
                return
            if asked.get("stream"):
                self._send(
                    200, b"".join(map(_event, [*_pieces(said), "[DONE]"])), **{"content-type": "text/event-stream"}
                )
                return
            choice = {"index": 0, "message": {"role": "assistant", **said}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            body = {"id": "c", "object": "chat.completion", "created": 1, "model": "stub", "choices": [choice]}
            self._send(200, json.dumps({**body, "usage": usage}).encode(), **{"content-type": "application/json"})

        def _send(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _event(data: Any) -> bytes:
    return f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n".encode()


def _pieces(said: Json) -> Iterator[Json]:
    """The deltas of an answer: its text by characters, of each call first the name, then its arguments in halves."""
    deltas: list[Json] = [{"role": "assistant"}, *({"content": one} for one in said.get("content") or "")]
    for index, call in enumerate(said.get("tool_calls", ())):
        function = call["function"]
        half = len(function["arguments"]) // 2
        deltas.append({"tool_calls": [{**call, "index": index, "function": {**function, "arguments": ""}}]})
        halves = (function["arguments"][:half], function["arguments"][half:])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in halves]
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "stub"}
    for delta in deltas:
        yield {**whole, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**whole, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
