"""Whoever asks for the headers of a stream gets these alone."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager

from starlette.types import Message, Receive, Scope, Send

from hmx_pipeline.service.request_metrics import RequestMetrics
from hmx_pipeline.service.streams import SSE, Streaming


def test_headers_of_a_stream_begin_no_stream() -> None:
    begun, sent = [], list[Message]()

    @contextmanager
    def counted() -> Iterator[None]:
        begun.append("place")
        yield

    async def endless() -> AsyncGenerator[bytes]:
        begun.append("content")
        while True:
            yield b": still there\n"
            await asyncio.sleep(0)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await Streaming(endless(), counted(), SSE, {"Cache-Control": "no-store"})(scope, receive, send)

    async def receive() -> Message:
        return await asyncio.Future[Message]()

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "HEAD", "path": "/v1/hmx/stream", "headers": []}
    asyncio.run(asyncio.wait_for(RequestMetrics(app)(scope, receive, send), 5))
    start, body = sent
    assert start["status"] == 200
    assert {b"content-type", b"cache-control"} <= dict(start["headers"]).keys()
    assert not body.get("body")
    assert not body.get("more_body")
    assert begun == []
