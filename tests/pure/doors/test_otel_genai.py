"""Spans and log records of agents as events: conventions old and new teach the same, in whatever order they arrive."""

import itertools
import json
import random
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.doors import otel_genai, otel_messages
from hmx_pipeline.doors.otel_genai import Mapped, Sender
from hmx_pipeline.doors.otel_messages import CUT
from hmx_pipeline.doors.otlp import read_traces
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.inprocess import events_log, learnt, run, sessions_fold
from tests.support.spans import Json, export, log, mapped, span, span_id

CONVERSATION = {"session.id": "c1"}
ARGUMENTS = {"id": "A7"}
RESULT = {"status": "shipped"}
HISTORY: list[Json] = [
    {"role": "system", "content": "You help."},
    {"role": "user", "content": "Refund order A7"},
    {"role": "assistant", "content": "", "calls": [("call_1", "get_order", ARGUMENTS)]},
    {"role": "tool", "content": json.dumps(RESULT), "id": "call_1"},
    {"role": "assistant", "content": "Refunded."},
]
"""A conversation of two requests to the model: after the second and the fourth message."""


def parts(message: Json) -> Json:
    """As in `gen_ai.input.messages`."""
    if message["role"] == "tool":
        made = [{"type": "tool_call_response", "id": message["id"], "response": message["content"]}]
    else:
        made = [{"type": "text", "content": message["content"]}] if message["content"] else []
        calls = message.get("calls", [])
        made += [{"type": "tool_call", "id": id_, "name": name, "arguments": args} for id_, name, args in calls]
    return {"role": message["role"], "parts": made}


def openai(message: Json) -> Json:
    """As clients of OpenAI write it."""
    calls = [
        {"id": id_, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for id_, name, args in message.get("calls", [])
    ]
    made = {
        "role": message["role"],
        "content": message["content"],
        "tool_calls": calls,
        "tool_call_id": message.get("id"),
    }
    return {name: value for name, value in made.items() if value not in (None, [])}


def flat(prefix: str, value: Any) -> Json:
    if not isinstance(value, dict | list):
        return {prefix: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    return {name: one for key, inner in pairs for name, one in flat(f"{prefix}.{key}", inner).items()}


def semantic(told: list[Json], said: Json) -> Json:
    messages = {"gen_ai.input.messages": [parts(one) for one in told], "gen_ai.output.messages": [parts(said)]}
    return {"gen_ai.operation.name": "chat", **messages}


def semantic_as_text(told: list[Json], said: Json) -> Json:
    return {
        name: value if isinstance(value, str) else json.dumps(value) for name, value in semantic(told, said).items()
    }


def openinference(told: list[Json], said: Json) -> Json:
    def message(one: Json) -> Json:
        made = openai(one)
        calls = [{"tool_call": call} for call in made.pop("tool_calls", [])]
        return {"message": {**made, **({"tool_calls": calls} if calls else {})}}

    return {
        "openinference.span.kind": "LLM",
        **flat("llm.input_messages", list(map(message, told))),
        **flat("llm.output_messages", [message(said)]),
    }


def openllmetry(told: list[Json], said: Json) -> Json:
    def message(one: Json) -> Json:
        made = openai(one)
        made["tool_calls"] = [{"id": call["id"], **call["function"]} for call in made.get("tool_calls", [])]
        return made

    prompt, completion = flat("gen_ai.prompt", list(map(message, told))), flat("gen_ai.completion", [message(said)])
    return {"llm.request.type": "chat", **prompt, **completion}


CONVENTIONS = [semantic, semantic_as_text, openinference, openllmetry]


def conversation(convention: Any) -> list[Json]:
    return [
        span(1, {**CONVERSATION, **convention(HISTORY[:2], HISTORY[2])}),
        span(3, {**CONVERSATION, **convention(HISTORY[:4], HISTORY[4])}),
    ]


def as_logs() -> list[Json]:
    """The same as older log records, one for each message."""
    found = []
    for at, end in ((1, 2), (3, 4)):
        found += [
            log(at, f"gen_ai.{one['role']}.message", openai(one), CONVERSATION, of=f"t1/{at}") for one in HISTORY[:end]
        ]
        choice = {"index": 0, "message": openai(HISTORY[end]), "finish_reason": "stop"}
        found.append(log(at, "gen_ai.choice", choice, CONVERSATION, of=f"t1/{at}"))
    return found


def as_span_events() -> list[Json]:
    names = ["name", "attributes"]
    found = []
    for at, end in ((1, 2), (3, 4)):
        events = [log(at, f"gen_ai.{one['role']}.message", attributes=content(openai(one))) for one in HISTORY[:end]]
        events.append(log(at, "gen_ai.choice", attributes=content({"message": openai(HISTORY[end])})))
        told = [dict(zip(names, (one["eventName"], one["attributes"]), strict=True)) for one in events]
        found.append(span(at, {**CONVERSATION, "gen_ai.operation.name": "chat", "gen_ai.system": "x"}, events=told))
    return found


def content(message: Json) -> Json:
    return {"gen_ai.event.content": json.dumps(message)}


def tool(at: float, name: str = "get_order", **more: Any) -> Json:
    given = {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
        "gen_ai.tool.call.arguments": json.dumps(ARGUMENTS), "gen_ai.tool.call.result": json.dumps(RESULT),
    }  # fmt: skip
    return span(at, {**CONVERSATION, **given, **more.pop("given", {})}, **more)


def told(found: Mapped) -> list[tuple[str, Json]]:
    return [(one.event["event_type"], one.event["content"]) for one in found.events]


def kinds(found: Mapped) -> list[str]:
    return [kind for kind, _ in told(found)]


@pytest.mark.parametrize(
    "found",
    [*(mapped(conversation(one)) for one in CONVENTIONS), mapped(as_span_events()), mapped(as_logs(), logs=True)],
    ids=[*(one.__name__ for one in CONVENTIONS), "span events", "logs"],
)
def test_every_convention_tells_a_conversation_once_though_requests_repeat_it(found: Mapped) -> None:
    call = {"tool_name": "get_order", "call_id": "call_1"}
    assert told(found) == [
        ("message", {"role": "user", "text": "Refund order A7", "attachments": []}),
        ("tool_call", {**call, "arguments": ARGUMENTS}),
        ("tool_result", {**call, "result": RESULT, "success": True}),
        ("message", {"role": "assistant", "text": "Refunded.", "attachments": []}),
    ]
    assert {one.event["session_id"] for one in found.events} == {"c1"}
    assert not found.left_out
    assert all(isinstance(decode(orjson.dumps(one.event)), Accepted) for one in found.events)


def events(found: Mapped) -> list[Json]:
    return [one.event for one in found.events]


def test_an_export_that_is_sent_twice_is_the_same_twice_in_any_order_and_in_any_pieces() -> None:
    named = tool(2, given={"gen_ai.tool.call.id": "call_1"})
    spans = [*conversation(semantic), named, span(4, {**CONVERSATION, "gen_ai.operation.name": "invoke_agent"})]
    whole = events(mapped(spans))
    for order in itertools.permutations(spans):
        assert events(mapped(list(order))) == whole
    remembered: set[str] = set()
    for piece in sorted(spans, key=lambda one: int(one["endTimeUnixNano"])):  # the service remembers what it has taken
        for one in mapped([piece]).events:
            if remembered.isdisjoint(one.unless):
                assert one.event in whole
                remembered |= {one.event["event_id"], *one.marks}
    assert remembered >= {event["event_id"] for event in whole}


def test_words_that_are_said_again_are_said_again() -> None:
    yes, done = {"role": "user", "content": "yes"}, {"role": "assistant", "content": "Done. More?"}
    alone = [span(at, {**CONVERSATION, **semantic([yes], done)}, trace=f"t{at}") for at in (1, 2)]
    assert [one["text"] for _, one in told(mapped(alone))] == ["yes", "Done. More?"] * 2
    history = [[yes], [yes, done, yes], [yes, done, yes, done, yes]]
    turns = [span(at, {**CONVERSATION, **semantic(one, done)}, trace=f"t{at}") for at, one in enumerate(history, 1)]
    assert [one["text"] for _, one in told(mapped(turns))] == ["yes", "Done. More?"] * 3


def test_a_prompt_that_several_requests_of_a_trace_have_is_said_once() -> None:
    asked = [span(at, {**CONVERSATION, **semantic(HISTORY[:2], HISTORY[4])}) for at in (1, 2)]
    assert [one["role"] for _, one in told(mapped(asked))] == ["user", "assistant", "assistant"]


def test_a_result_whose_call_the_server_remembers_is_told_with_it() -> None:
    spans = [span(1, semantic(HISTORY[:2], HISTORY[2])), span(2, semantic(HISTORY[3:4], HISTORY[4]))]
    found = told(mapped(spans))
    assert [kind for kind, _ in found] == ["message", "tool_call", "tool_result", "message"]
    assert found[1][1]["arguments"] == ARGUMENTS


def test_a_tools_own_span_tells_of_it_rather_than_the_history() -> None:
    found = told(mapped([*conversation(openinference), tool(2)]))
    (result,) = [content for kind, content in found if kind == "tool_result"]
    assert (result["success"], result["duration_ms"], result["result"]) == (True, 500.0, RESULT)
    assert [kind for kind, _ in found] == ["message", "tool_call", "tool_result", "message"]


@pytest.mark.parametrize(
    ("given", "success"),
    [
        ({}, True),
        ({"input.value": "A7"}, True),
        ({"input.value": json.dumps(ARGUMENTS)}, True),
        ({"output.value": json.dumps({"content": json.dumps(RESULT), "tool_call_id": "call_1"})}, True),
        ({"output.value": json.dumps({"data": {"content": "no", "tool_call_id": "call_1", "status": "error"}})}, False),
    ],
)
def test_what_a_tools_span_lacks_the_models_words_have(given: Json, success: bool) -> None:
    """OpenInference names no call of a tool; LangChain gives a single argument bare, and wraps the result."""
    bare = span(2, {**CONVERSATION, "openinference.span.kind": "TOOL", "tool.name": "get_order", **given})
    found = told(mapped([bare, *conversation(openinference)]))
    assert [kind for kind, _ in found] == ["message", "tool_call", "tool_result", "message"]
    assert found[1][1] == {"tool_name": "get_order", "call_id": "call_1", "arguments": ARGUMENTS}
    assert found[2][1]["success"] is success
    if "output.value" in given and success:
        assert found[2][1]["result"] == RESULT


def test_openllmetry_wraps_what_langchain_and_its_own_decorators_give_and_take() -> None:
    message = {"content": json.dumps(RESULT), "tool_call_id": "call_1", "status": "success"}
    langchain = {"input_str": "{'id': 'A7'}", "inputs": ARGUMENTS, "kwargs": {"tool_call_id": "call_1"}}
    for taken, gave in (
        (langchain, {"output": {"lc": 1, "kwargs": message}, "kwargs": {}}),
        ({"args": [], "kwargs": ARGUMENTS}, RESULT),
    ):
        given = {"traceloop.entity.name": "get_order", "traceloop.entity.input": json.dumps(taken)}
        kind = {"traceloop.span.kind": "tool", "traceloop.entity.output": json.dumps(gave)}
        (call, result) = told(mapped([span(2, {**CONVERSATION, **given, **kind})]))
        assert (call[1]["tool_name"], call[1]["arguments"], result[1]["result"]) == ("get_order", ARGUMENTS, RESULT)


def test_calls_that_look_alike_are_not_guessed() -> None:
    calls = [("call_1", "get_order", {"id": "A7"}), ("call_2", "get_order", {"id": "B8"})]
    asked = span(1, {**CONVERSATION, **semantic(HISTORY[:2], {**HISTORY[2], "calls": calls})})
    bare = {**CONVERSATION, "openinference.span.kind": "TOOL", "tool.name": "get_order"}
    (_, call, _) = told(mapped([asked, span(2, {**bare, "input.value": "B8"})]))
    assert (call[1]["call_id"], call[1]["arguments"]) == ("call_2", {"id": "B8"})
    (_, call, _) = told(mapped([asked, span(2, bare)]))
    assert call[1]["arguments"] == {}


def test_a_call_that_failed_says_why() -> None:
    event = {"name": "exception", "attributes": span(1, {"exception.message": "amount above limit"})["attributes"]}
    found = told(mapped([tool(2, failed="ValueError", events=[event]), tool(3, failed="no such order")]))
    results = [content for kind, content in found if kind == "tool_result"]
    assert [one["success"] for one in results] == [False, False]
    assert [one["result"]["text"] for one in results] == ["amount above limit", "no such order"]


@pytest.mark.parametrize(
    ("result", "success"),
    [
        ("shipped", True), ('{"status": "shipped", "error": null}', True), ("No errors found.", True), ("", True),
        ("Error: no such order", False), ("ValueError: amount above limit", False), ("Tool execution failed: x", False),
        ("An error occurred while running the tool.", False), ("Traceback (most recent call last):", False),
        ('{"error": "no such order"}', False), ('{"ok": false}', False), ('{"status": "FAILED"}', False),
    ],
)  # fmt: skip
def test_a_history_tells_by_a_results_words_whether_the_call_failed(result: str, success: bool) -> None:
    told_so = [*HISTORY[:3], {"role": "tool", "content": result, "id": "call_1"}]
    (found,) = [one for kind, one in told(mapped([span(3, semantic(told_so, HISTORY[4]))])) if kind == "tool_result"]
    assert found["success"] is success


def test_a_failure_is_told_by_the_innermost_span_alone() -> None:
    around = {"gen_ai.operation.name": "invoke_agent", "error.type": "TimeoutError"}
    chat = {"gen_ai.operation.name": "chat", "error.type": "TimeoutError"}
    inner = span(1, chat, "inner", parent="outer", failed="timed out")
    outer = span(2, around, "outer", failed="timed out")
    (error,) = told(mapped([inner, outer]))
    assert error == (
        "error", {"error_type": "TimeoutError", "message": "timed out", "stack": "", "recoverable": True},
    )  # fmt: skip
    assert kinds(mapped([outer])) == ["error"]


def test_spans_that_two_libraries_make_of_the_same_request_count_once() -> None:
    given = {**CONVERSATION, **semantic(HISTORY[:2], HISTORY[4])}
    twice = [span(1, given, "inner", parent="outer"), span(1.1, given, "outer", parent="agent")]
    served = {"mcp.method.name": "tools/call", "gen_ai.tool.name": "get_order"}
    calls = [span(2, served, "served", parent="called"), tool(2.1)]
    assert kinds(mapped(twice)) == ["message", "message"]
    called = {**calls[1], "spanId": span_id("called")}
    assert kinds(mapped([calls[0], called])) == ["tool_call", "tool_result"]


def test_a_span_without_a_session_takes_that_of_its_trace_and_else_the_trace() -> None:
    bare = {name: value for name, value in tool(2).items() if name != "attributes"}
    bare["attributes"] = [one for one in tool(2)["attributes"] if one["key"] != "session.id"]
    assert {event["session_id"] for event in events(mapped([bare, *conversation(semantic)]))} == {"c1"}
    assert {event["session_id"] for event in events(mapped([bare]))} == {span_id("t1", 32)}


def test_who_acted_and_for_whom_follows_the_records_and_else_the_key() -> None:
    named = tool(2, given={"gen_ai.agent.name": "refunds", "user.id": "ada"})
    (event, _) = events(mapped([named]))
    assert (event["agent_id"], event["metadata"]["subject_id"], event["tags"]) == ("refunds", "ada", ["shop"])
    (event, _) = events(mapped([tool(2)], Sender("acme", "", "ben")))
    assert (event["agent_id"], event["metadata"]["subject_id"], event["tenant_id"]) == ("shop", "ben", "acme")
    assert events(mapped([tool(2)], Sender("acme", "bound")))[0]["agent_id"] == "bound"


def test_an_evaluation_is_feedback_on_the_answer_that_it_judges() -> None:
    spans = conversation(semantic)
    answer = events(mapped(spans))[-1]
    judged = {
        **CONVERSATION,
        "gen_ai.evaluation.name": "correctness",
        "gen_ai.evaluation.explanation": "No such policy.",
    }
    for more, signal in (
        ({"gen_ai.evaluation.score.label": "fail"}, "negative"),
        ({"gen_ai.evaluation.score.label": "pass", "gen_ai.evaluation.score.value": 0.0}, "positive"),
        ({"gen_ai.evaluation.score.value": 0.0}, "negative"),
        ({"gen_ai.evaluation.score.value": 0.8}, "positive"),
    ):
        (event,) = events(mapped([log(9, "gen_ai.evaluation.result", None, {**judged, **more}, "t1/3")], logs=True))
        assert (event["event_type"], event["content"]["signal"]) == ("feedback", signal)
        assert event["content"]["target_event_id"] == answer["event_id"]
        assert "No such policy." in event["content"]["comment"]


def test_what_was_cut_or_sampled_loses_itself_alone() -> None:
    first, second = conversation(semantic_as_text)
    cut = dict(second, attributes=[dict(one) for one in second["attributes"]])
    for one in cut["attributes"]:
        if one["key"] == "gen_ai.input.messages":
            one["value"] = {"stringValue": one["value"]["stringValue"][:90]}
    found = mapped([first, cut])
    assert kinds(found) == ["message", "message"]
    assert found.left_out == {CUT: 1}
    assert kinds(mapped([second])) == ["tool_call", "tool_result", "message"]
    without_call = semantic(HISTORY[3:4], HISTORY[4])
    found = mapped([span(3, without_call)])
    assert (kinds(found), found.left_out) == (["message"], {"results without a call": 1})


def test_what_is_not_mapped_is_counted() -> None:
    found = mapped([span(1, {"http.request.method": "GET"}), span(2, {"gen_ai.operation.name": "embeddings"})])
    assert found.left_out == {"records that tell of no agent": 1, "spans of another operation": 1}
    assert not found.events


def test_no_request_becomes_more_events_than_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otel_genai, "EVENTS", 3)
    monkeypatch.setattr(otel_messages, "LATEST", 2)
    many = [{"role": "user", "content": f"line {n}"} for n in range(9)]
    found = mapped([span(1, semantic(many, HISTORY[4])), tool(2)])
    assert [content["text"] for _, content in told(found)] == ["line 7", "line 8", "Refunded."]
    assert found.refused == {"beyond 3 events of a request": 1}


NAMES = [
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.prompt.0.content", "gen_ai.completion.0.tool_calls.0",
    "llm.input_messages.0.message.contents.0", "llm.output_messages.0.message", "input.value", "session.id", "user.id",
    "gen_ai.tool.call.arguments", "gen_ai.tool.call.result", "traceloop.entity.input", "error.type", "tool.name",
    "gen_ai.evaluation.score.value", "gen_ai.event.content", "gen_ai.agent.name", "gen_ai.tool.call.id",
]  # fmt: skip
plain = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5) | st.sampled_from(["[", '[{"type": 1}]', "{}"])
)
keys = st.sampled_from(["role", "content", "parts", "type", "message", "tool_calls", "id", "name", "function", "0"])
anything = st.recursive(
    plain, lambda one: st.lists(one, max_size=3) | st.dictionaries(keys, one, max_size=3), max_leaves=6
)
kind = st.sampled_from(["chat", "execute_tool", "invoke_agent", "tool", "x"])


@given(kind, st.dictionaries(st.sampled_from(NAMES), anything, max_size=6), anything, st.booleans())
def test_no_attributes_break_the_mapping(kind: str, attributes: Json, body: Any, failed: bool) -> None:
    attributes["gen_ai.operation.name"] = kind
    event = {"name": "gen_ai.user.message", "attributes": span(1, attributes)["attributes"]}
    records = [span(1, attributes, failed="x" if failed else None, events=[event, {**event, "name": "gen_ai.choice"}])]
    logs = [log(1, name, body, attributes) for name in ("gen_ai.choice", "gen_ai.evaluation.result", "x")]
    for found in (mapped(records), mapped(logs, logs=True)):
        for event in events(found):
            assert isinstance(decode(orjson.dumps(event)), Accepted)


def agent_run(number: int) -> tuple[list[Json], list[Json]]:
    """One run of an agent, as its own HMX events and as spans."""
    order, session = f"B{number}", f"s{number}"
    steps = [("get_order", {"id": order}), ("check_policy", {"order": order}), ("refund", {"id": order})]
    common = {"hmx_version": "HMX-1.0", "agent_id": "shop", "tenant_id": "acme", "session_id": session}
    stamp = {"metadata": {}, "timestamp": f"2026-03-14T09:{number:02d}:00Z"}
    messages: list[Json] = [{"role": "user", "content": f"Refund order {order}"}]
    written: list[tuple[str, Json]] = [
        ("message", {"role": "user", "text": f"Refund order {order}", "attachments": []})
    ]
    spans, at = list[Json](), 60.0 * number
    about = {"session.id": session}
    for step, (name, arguments) in enumerate(steps):
        call = {"role": "assistant", "content": "", "calls": [(f"{session}-{step}", name, arguments)]}
        spans.append(span(at := at + 1, {**about, **semantic(messages, call)}, trace=session))
        result = {"ok": True, "step": name}
        given = {
            **about, "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
            "gen_ai.tool.call.arguments": json.dumps(arguments), "gen_ai.tool.call.result": json.dumps(result),
        }  # fmt: skip
        spans.append(span(at := at + 1, given, trace=session))
        messages += [call, {"role": "tool", "id": f"{session}-{step}", "content": json.dumps(result)}]
        called = {"tool_name": name, "call_id": f"{session}-{step}"}
        written.append(("tool_call", {**called, "arguments": arguments}))
        written.append(("tool_result", {**called, "result": result, "success": True, "duration_ms": 500.0}))
    answer = {"role": "assistant", "content": f"Refunded {order}."}
    spans.append(span(at + 1, {**about, **semantic(messages, answer)}, trace=session))
    written.append(("message", {"role": "assistant", "text": f"Refunded {order}.", "attachments": []}))
    own = [
        {**common, **stamp, "event_id": f"{session}-{n}", "event_type": kind, "sequence": n, "content": content}
        for n, (kind, content) in enumerate(written)
    ]
    return own, spans


def tells_of_a_tool(one: Json) -> bool:
    return any(field["key"] == "gen_ai.tool.name" for field in one["attributes"])


def test_spans_that_arrive_one_by_one_in_any_order_are_put_in_order() -> None:
    spans = [one for one in agent_run(1)[1] if not tells_of_a_tool(one)]
    in_order = [event["event_id"] for event in events(mapped(spans))]
    random.Random(3).shuffle(spans)
    arriving = [event for one in spans for event in events(mapped([one]))]
    assert [event["event_id"] for event in arriving] != in_order
    assert run(lambda: sessions_fold(1), events_log(arriving, 1)[0]).released == in_order


def test_the_same_agent_teaches_the_same_through_its_own_events_and_through_spans() -> None:
    runs = [agent_run(number) for number in range(8)]
    own = learnt([event for events_, _ in runs for event in events_])
    assert any(kind == "task_schema" for kind, _ in own)
    spans = [one for _, made in runs for one in made]
    random.Random(7).shuffle(spans)
    assert learnt(events(mapped(spans))) == own
    without_tools = [one for one in spans if not tells_of_a_tool(one)]
    assert len(without_tools) < len(spans)
    assert learnt(events(mapped(without_tools))) == own


DEEP = "[" * 300 + "]" * 300
"""Deeper than the library writes that reads it."""


@pytest.mark.parametrize(
    "given",
    [
        {"gen_ai.tool.call.result": DEEP},
        {"gen_ai.tool.call.arguments": f'{{"a": {DEEP}}}'},
        {"gen_ai.tool.call.arguments": {"a": 10**20 - 1}},
    ],
)
def test_no_record_keeps_the_others_of_its_export_from_being_written(given: Json) -> None:
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "get_order", **CONVERSATION, **given}
    told = events(mapped([span(1, about), tool(2)]))
    assert len(orjson.loads(orjson.dumps(told))) == 4


@pytest.mark.parametrize("at", ["arguments", "content"])
def test_no_history_is_too_deep_to_be_written(at: str) -> None:
    call = {"id": "1", "function": {"name": "t", "arguments": f'{{"a": {DEEP}}}' if at == "arguments" else "{}"}}
    answer = {"role": "tool", "tool_call_id": "1", "content": DEEP if at == "content" else "done"}
    told = json.dumps([{"role": "user", "content": "go"}, {"role": "assistant", "tool_calls": [call]}, answer])
    about = {"gen_ai.operation.name": "chat", **CONVERSATION, "gen_ai.input.messages": told}
    assert kinds(mapped([span(1, about)])) == ["tool_call", "tool_result"]


def test_ids_of_people_whose_keys_are_bound_never_meet() -> None:
    """Each bound key writes sessions of its own, so what one says must not make superfluous what another says."""
    spans = [*conversation(semantic), tool(3)]
    names = [
        {name for one in mapped(spans, Sender("acme", "", who)).events for name in (*one.unless, *one.marks)}
        for who in ("ada", "ben")
    ]
    assert all(names)
    assert names[0].isdisjoint(names[1])


def test_the_work_grows_with_the_records_and_not_with_their_square(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [0]

    def counted(value: Any) -> str:
        text = orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str).decode()
        written[0] += len(text)
        return text

    monkeypatch.setattr(otel_genai, "written", counted)
    calls = [{"id": str(n), "function": {"name": "t", "arguments": "{}"}} for n in range(300)]
    results = [{"type": "tool_result", "tool_use_id": str(n), "content": "r"} for n in range(300)]
    messages = [
        {"role": "assistant", "content": "x" * 10_000, "tool_calls": calls},
        {"role": "user", "content": results},
    ]
    text = json.dumps(messages)
    mapped([span(1, {"gen_ai.operation.name": "chat", **CONVERSATION, "gen_ai.input.messages": text})])
    assert written[0] < 3 * len(text)
    announced = [span(1, {"gen_ai.operation.name": "chat", "gen_ai.output.messages": json.dumps(messages[:1])})]
    mapping = otel_genai._Mapping([], Sender("acme"))
    mapping._records = read_traces(orjson.dumps(export(announced)), protobuf=False).records
    mapping.record(0)
    assert {len(held) for held in mapping._announced.values()} == {otel_genai.ANNOUNCED}
