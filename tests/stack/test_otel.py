"""OTLP/HTTP against the service on a real Kafka and Redis, with OpenTelemetry's own exporter."""

import gzip
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor

from hmx_pipeline.service import body, otel_routes
from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.settings import Settings
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import serving
from tests.support.spans import export, log, span

ACME = {"X-HMX-Tenant": "acme"}
ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Refund order A7"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Refunded."}]}]',
}
REFUNDED = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund", "gen_ai.tool.call.id": "call_1"}


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Settings:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    return made


def post(service: httpx.Client, sent: Any, route: str = "/v1/traces", **headers: str) -> httpx.Response:
    said = {
        **ACME,
        "Content-Type": "application/json",
        **{name.replace("_", "-"): one for name, one in headers.items()},
    }
    return service.post(route, content=sent if isinstance(sent, bytes) else orjson.dumps(sent), headers=said)


def test_the_sdks_exporter_is_answered_and_its_spans_become_events(service: httpx.Client, settings: Settings) -> None:
    sent = OTLPSpanExporter(f"{service.base_url}/v1/traces", headers=ACME)
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(sent))
    tracer = provider.get_tracer("shop.agent")
    with tracer.start_as_current_span("invoke_agent", attributes={"gen_ai.conversation.id": "o1"}) as around:
        about = {"gen_ai.conversation.id": "o1"}
        tracer.start_span("chat", attributes={**ASKED, **about}).end()
        with tracer.start_as_current_span("execute_tool refund", attributes={**REFUNDED, **about}):
            pass
    assert around.is_recording() is False
    events = logged(settings, "o1")
    assert [event["event_type"] for event in events] == ["message", "message", "tool_call", "tool_result"]
    assert [event["source"] for event in events] == ["otel:shop.agent"] * 4
    sequences = [event["sequence"] for event in events]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize("packed", [False, True])
def test_an_export_that_is_sent_twice_is_appended_once(service: httpx.Client, settings: Settings, packed: bool) -> None:
    session = f"o2-{packed}"
    sent = orjson.dumps(export([span(1, {**ASKED, "session.id": session}, trace=session)]))
    headers = {"Content_Encoding": "gzip"} if packed else {}
    for _ in range(2):
        answer = post(service, gzip.compress(sent) if packed else sent, **headers)
        assert (answer.status_code, answer.json()) == (200, {})
    assert [event["content"]["text"] for event in logged(settings, session)] == ["Refund order A7", "Refunded."]


def test_a_history_that_comes_after_its_tools_span_adds_nothing(service: httpx.Client, settings: Settings) -> None:
    call = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "call_1", "name": "refund", "arguments": {}}]}'
    told = f'{call}, {{"role": "tool", "parts": [{{"type": "tool_call_response", "id": "call_1", "response": "ok"}}]}}]'
    chat = {"gen_ai.operation.name": "chat", "gen_ai.input.messages": told}
    for one in (span(1, {**REFUNDED, "session.id": "o3"}), span(2, {**chat, "session.id": "o3"})):
        assert post(service, export([one])).json() == {}
    assert [event["event_type"] for event in logged(settings, "o3")] == ["tool_call", "tool_result"]


def test_what_is_refused_is_counted_and_named_and_the_rest_taken(service: httpx.Client, settings: Settings) -> None:
    good, long = span(1, {**ASKED, "session.id": "o4"}), span(2, {**ASKED, "session.id": "s" * 600})
    answer = post(service, export([good, long, {**good, "traceId": "x"}])).json()["partialSuccess"]
    assert answer["rejectedSpans"] == "2"
    assert "no traceId and spanId (1)" in answer["errorMessage"]
    assert "id_too_long" in answer["errorMessage"]
    assert len(logged(settings, "o4")) == 2


def test_log_records_are_taken_too(service: httpx.Client, settings: Settings) -> None:
    about = {"session.id": "o5"}
    records = [log(1, "gen_ai.user.message", {"content": "Hi"}, about), log(1, "gen_ai.choice", {"message": {}}, about)]
    assert post(service, export(records, logs=True), "/v1/logs").json() == {}
    assert [event["content"]["text"] for event in logged(settings, "o5")] == ["Hi"]


def test_what_is_no_export_is_a_problem(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert post(service, b"[]").status_code == 422
    assert post(service, b"{}", Content_Encoding="gzip").status_code == 422
    assert post(service, gzip.compress(b"{}")[:-4], Content_Encoding="gzip").status_code == 422
    assert post(service, b"\xff\xff", Content_Type="application/x-protobuf").status_code == 422
    assert post(service, b"{}", Content_Type="text/plain").status_code == 415
    assert post(service, b"{}", Content_Encoding="br").status_code == 415
    with monkeypatch.context() as patch:  # what a small body unpacks to counts as held, like a large body
        patch.setattr(body, "TENANT_BYTES", 10_000)
        assert post(service, gzip.compress(b" " * 20_000), Content_Encoding="gzip").status_code == 503
    monkeypatch.setattr(otel_routes, "BODY_BYTES", 1_000)
    assert post(service, gzip.compress(b" " * 2_000), Content_Encoding="gzip").status_code == 413


def test_an_empty_export_of_protobuf_is_answered_as_one(service: httpx.Client) -> None:
    answer = post(service, b"", Content_Type="application/x-protobuf")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-protobuf")
    assert not ExportTraceServiceResponse.FromString(answer.content).HasField("partial_success")


def test_spans_are_of_the_subject_that_the_key_is_bound_to(settings: Settings, tmp_path: Any) -> None:
    file = tmp_path / "keys"
    key = add(file, Grant("acme", frozenset({Scope.WRITE}), subject="ada"))
    with serving(replace(settings, api_keys=str(file))) as service:
        own, other = span(1, {**ASKED, "session.id": "o6"}), span(2, {**ASKED, "session.id": "o6", "user.id": "ben"})
        other["traceId"] = "f" * 32
        answer = post(service, export([own, other]), Authorization=f"Bearer {key}").json()["partialSuccess"]
        assert answer["rejectedSpans"] == "1"
        assert "subject_mismatch" in answer["errorMessage"]
        assert service.post("/v1/traces", json={}).status_code == 401
    events = logged(settings, "ada/o6")
    assert {event["metadata"]["subject_id"] for event in events} == {"ada"}
    assert len(events) == 2


def test_without_kafka_the_exporter_is_asked_to_send_it_again(redis_url: str) -> None:
    with serving(new_settings("127.0.0.1:1", redis_url)) as away:
        answer = post(away, export([span(1, {**ASKED, "session.id": "o7"})]))
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "2")
