"""Spans: none unless asked for; else one for each trace, within the trace that its producer began."""

import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from queue import Queue
from typing import Any

import pytest
from faust.types import TP
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from hmx_pipeline.contracts.headers import TRACEPARENT
from hmx_pipeline.observe.tracing import Spans, spans
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import SESSIONS
from hmx_pipeline.worker.partition import FetchedBatch, OwnedPartition
from tests.support.inprocess import sessions_fold
from tests.support.records import event, log

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
HEADER = f"00-{TRACE}-{PARENT}-01".encode()
UNSAMPLED = f"00-{TRACE}-{PARENT}-00".encode()
PATIENCE_S = 60


@pytest.fixture
def collector() -> Iterator[tuple[str, Queue[ExportTraceServiceRequest]]]:
    """What spans are sent to, and what it is sent."""
    received: Queue[ExportTraceServiceRequest] = Queue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            assert self.path == "/v1/traces"
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.put(ExportTraceServiceRequest.FromString(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Collector)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", received
    server.shutdown()
    thread.join()
    server.server_close()


def test_nobody_asks_for_spans_unless_told_to() -> None:
    assert spans(Settings(), "worker") is None


def test_a_span_arrives_within_the_trace_of_its_producer(
    collector: tuple[str, "Queue[ExportTraceServiceRequest]"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
    address, received = collector
    tracing = spans(Settings(otlp_endpoint=address), "worker")
    assert tracing is not None
    tracing.took("hmx sessions", [None, UNSAMPLED, HEADER, HEADER], 1_000, messaging_system="kafka")
    (resource,) = received.get(timeout=PATIENCE_S).resource_spans
    assert {item.key: item.value.string_value for item in resource.resource.attributes}["service.name"] == "hmx-worker"
    (span,) = resource.scope_spans[0].spans
    assert (span.trace_id.hex(), span.parent_span_id.hex(), span.name) == (TRACE, PARENT, "hmx sessions")
    assert span.start_time_unix_nano == 1_000 < span.end_time_unix_nano
    assert [(item.key, item.value.string_value) for item in span.attributes] == [("messaging.system", "kafka")]


class Noted(Spans):
    def __init__(self) -> None:
        self.taken: list[tuple[str, list[bytes | None], dict[str, str]]] = []

    def took(self, step: str, traces: Any, began_ns: int, **attributes: str) -> None:
        self.taken.append((step, list(traces), attributes))


class Kept:
    """Transactions that keep nothing."""

    def append(self, *_: Any) -> None: ...

    def commit(self, *_: Any, **__: Any) -> None: ...


def test_a_partitions_batch_says_which_traces_it_took() -> None:
    noted, kept = Noted(), Kept()
    records = log([(n, event("s", n)) for n in range(3)])
    records[1] = replace(records[1], headers=[(TRACEPARENT, HEADER)])
    tp = TP("hmx.events.v1", 0)
    partition = OwnedPartition(tp, SESSIONS, sessions_fold, kept, noted)  # type: ignore[arg-type]
    counts = partition.process(FetchedBatch(tp, 0, 0, 3, records, 0))
    assert counts["released"] == 3
    ((step, traces, said),) = noted.taken
    assert (step, traces) == ("hmx sessions", [None, HEADER, None])
    assert said["messaging_destination_partition_id"] == "0"
