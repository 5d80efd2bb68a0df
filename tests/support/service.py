"""The service on a real port, in a thread of the test's process."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from hmx_pipeline.service.app import create_app
from hmx_pipeline.service.main import HttpServer
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import Blocks, connect
from hmx_pipeline.store.projection import TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import Keys

START_S = 60.0


@contextmanager
def serving(settings: Settings) -> Iterator[httpx.Client]:
    """A client of a service of its own; what it asks for may take as long as an append does."""
    server = HttpServer.of(create_app(settings), port=0)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + START_S
        while not server.started:
            assert thread.is_alive(), "the service did not start"
            assert time.monotonic() < deadline, "the service did not start in time"
            time.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30.0) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join(START_S)
        assert not thread.is_alive(), "the service did not stop in time"


def is_problem(answer: httpx.Response, status: int, reason: str) -> dict[str, Any]:
    """The members of a problem (RFC 9457) of that status and reason."""
    assert answer.headers["content-type"] == "application/problem+json"
    body = dict(answer.json())
    assert (answer.status_code, body["status"], body["reason"]) == (status, status, reason)
    assert {"type", "title", "detail"} <= body.keys()
    return body


@contextmanager
def remembering(settings: Settings, records: Sequence[TopicRecord]) -> Iterator[Settings]:
    """A memory that holds these records, as the materialiser writes them; nothing of it is left."""
    client, keys = connect(settings.redis_url), Keys(settings.topic_prefix)
    blocks = Blocks(client, keys)
    for topic in {record.topic for record in records}:
        block = [record for record in records if record.topic == topic]
        assert blocks.apply(f"{topic}/0", None, len(block), commands_of(keys, block)).at == len(block)
    yield settings
    for key in client.scan_iter(match=f"{settings.topic_prefix}*"):
        client.delete(key)
    client.close()
