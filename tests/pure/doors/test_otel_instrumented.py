"""Agents instrumented with real packages, against a stub of the model: they teach what their own events would."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hmx_pipeline.doors.otel_genai import Sender, map_records
from hmx_pipeline.doors.otlp import read_traces
from tests.support.inprocess import learnt
from tests.support.model_server import Json, answering

STEPS = ("get_order", "check_policy", "refund")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in STEPS]
RUNS = 6


def script(messages: list[Json]) -> Json:
    """What the model says: one step after the other, then that it is done."""
    order = messages[1]["content"].split()[-1]
    done = sum(one["role"] == "assistant" for one in messages)
    if done == len(STEPS):
        return {"content": f"Refunded {order}."}
    function = {"name": STEPS[done], "arguments": json.dumps({"id": order})}
    return {"content": None, "tool_calls": [{"id": f"call_{order}_{done}", "type": "function", "function": function}]}


class OwnEvents:
    """What an agent that knows HMX tells of itself."""

    def __init__(self) -> None:
        self.all: list[Json] = []

    def tell(self, session: str, kind: str, content: Json) -> None:
        sequence = sum(one["session_id"] == session for one in self.all)
        self.all.append({
            "hmx_version": "HMX-1.0", "event_id": f"{session}-{sequence}", "event_type": kind, "agent_id": "shop",
            "tenant_id": "acme", "session_id": session, "timestamp": "2026-03-14T09:00:00Z", "sequence": sequence,
            "content": content, "metadata": {},
        })  # fmt: skip


def agent(client: Any, tracer: Tracer, order: str, own: OwnEvents, spans_of_tools: bool) -> None:
    """One run: asks the model, and does what it says."""
    session = f"session-{order}"
    asked = f"Refund order {order}"
    messages: list[Json] = [{"role": "system", "content": "You help."}, {"role": "user", "content": asked}]
    own.tell(session, "message", {"role": "user", "text": asked, "attachments": []})
    about = {"gen_ai.operation.name": "invoke_agent", "gen_ai.conversation.id": session}
    with tracer.start_as_current_span("invoke_agent shop", attributes=about):
        while True:
            said = client.chat.completions.create(model="stub", messages=messages, tools=TOOLS).choices[0].message
            messages.append(said.model_dump(exclude_none=True))
            if not said.tool_calls:
                break
            for call in said.tool_calls:
                name, arguments, result = call.function.name, call.function.arguments, {"order": order, "step": "done"}
                if spans_of_tools:
                    given = {
                        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
                        "gen_ai.tool.call.id": call.id,
                        "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": json.dumps(result),
                    }  # fmt: skip
                    tracer.start_span(f"execute_tool {name}", attributes=given).end()
                messages.append({"role": "tool", "tool_call_id": call.id, "content": json.dumps(result)})
                named = {"tool_name": name, "call_id": call.id}
                own.tell(session, "tool_call", {**named, "arguments": json.loads(arguments)})
                own.tell(session, "tool_result", {**named, "result": result, "success": True, "duration_ms": 1.0})
    own.tell(session, "message", {"role": "assistant", "text": said.content, "attachments": []})


@pytest.fixture(params=["openinference.instrumentation.openai", "opentelemetry.instrumentation.openai"])
def spans(request: pytest.FixtureRequest) -> Iterator[tuple[TracerProvider, InMemorySpanExporter]]:
    """Spans that the client is instrumented to make."""
    pytest.importorskip("openai")
    module = pytest.importorskip(request.param)
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    instrumentor = module.OpenAIInstrumentor()
    instrumentor.instrument(tracer_provider=provider)
    yield provider, kept
    instrumentor.uninstrument()


@pytest.mark.parametrize("spans_of_tools", [False, True])
def test_an_instrumented_agent_teaches_what_its_own_events_teach(
    spans: tuple[TracerProvider, InMemorySpanExporter], spans_of_tools: bool
) -> None:
    provider, kept = spans
    own = OwnEvents()
    with answering(script) as url:
        client = pytest.importorskip("openai").OpenAI(base_url=url, api_key="none")
        for number in range(RUNS):
            agent(client, provider.get_tracer("shop"), f"B{number}", own, spans_of_tools)
        client.close()
    body = encode_spans(kept.get_finished_spans()).SerializeToString()
    found = map_records(read_traces(body, protobuf=True).records, Sender("acme", "shop"))
    events = [one.event for one in found.events]
    kinds = ["message", *["tool_call", "tool_result"] * len(STEPS), "message"]
    for session in (f"session-B{number}" for number in range(RUNS)):
        assert [one["event_type"] for one in events if one["session_id"] == session] == kinds
    assert not found.left_out
    expected = learnt(own.all)
    assert any(kind == "task_schema" for kind, _ in expected)
    assert learnt(events) == expected
