"""What a model was told and what it answered, in the attributes and events of a span or a log record.

Enters: attributes of any of these conventions: OpenTelemetry's since 1.37 (`gen_ai.input.messages`), its older events
(`gen_ai.user.message`, `gen_ai.choice`, `gen_ai.content.prompt`), OpenInference (`llm.input_messages.0.…`) and older
OpenLLMetry (`gen_ai.prompt.0.…`). Leaves: messages of one form. What cannot be read, as a text that was cut, is named.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.doors.otlp import Json, OtelRecord

LATEST: Final = 1_024
"""Messages of a request that are read, the last."""
SHALLOW: Final = 128
"""Lists and objects in each other that orjson writes in any case; it ends at 254."""
CUT: Final = "messages that are no whole JSON"
_INPUT: Final = "gen_ai.input.messages"
_OUTPUT: Final = "gen_ai.output.messages"
_FLAT_INPUT: Final = ("llm.input_messages.", "gen_ai.prompt.")
_FLAT_OUTPUT: Final = ("llm.output_messages.", "gen_ai.completion.")
_ROLES: Final = {
    "user": "user", "human": "user", "assistant": "assistant", "ai": "assistant", "model": "assistant",
    "system": "system", "developer": "system", "tool": "tool", "function": "tool",
}  # fmt: skip
MESSAGES: Final = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
    "gen_ai.choice": "",
}
"""Event of one message → its role; a choice is an answer."""


class ToolUse(NamedTuple):
    call_id: str
    name: str
    arguments: Json


class ToolAnswer(NamedTuple):
    call_id: str
    name: str
    result: Any


class ChatMessage(NamedTuple):
    role: str
    text: str = ""
    calls: tuple[ToolUse, ...] = ()
    answers: tuple[ToolAnswer, ...] = ()


class Chat(NamedTuple):
    told: list[ChatMessage]
    said: list[ChatMessage]
    unread: list[str]


def chat_of(record: OtelRecord) -> Chat:
    """Return what a record of a request to a model holds; nothing if its exporter sends no content."""
    chat = Chat([], [], [])
    given = record.attributes
    for messages, role, name, prefixes in (
        (chat.told, "user", _INPUT, _FLAT_INPUT),
        (chat.said, "assistant", _OUTPUT, _FLAT_OUTPUT),
    ):
        messages.extend(_messages(given.get(name), role, chat.unread))
        if not messages:
            messages.extend(_message(one, role) for prefix in prefixes for one in _nested(given, prefix))
    for event in record.events:
        _of_event(event.name, event.attributes, chat)
    return chat


def chat_of_events(events: Iterable[tuple[str, Any]]) -> Chat:
    """Return what the log records of one request hold together, each given with its name and body."""
    chat = Chat([], [], [])
    for name, body in events:
        _of_event(name, body if isinstance(body, dict) else {}, chat)
    return chat


def _of_event(name: str, fields: Json, chat: Chat) -> None:
    if name == "gen_ai.client.inference.operation.details":
        chat.told.extend(_messages(fields.get(_INPUT), "user", chat.unread))
        chat.said.extend(_messages(fields.get(_OUTPUT), "assistant", chat.unread))
    elif name == "gen_ai.content.prompt":
        chat.told.extend(_messages(fields.get("gen_ai.prompt"), "user", chat.unread))
    elif name == "gen_ai.content.completion":
        chat.said.extend(_messages(fields.get("gen_ai.completion"), "assistant", chat.unread))
    elif name in MESSAGES:
        content = as_json(fields.get("gen_ai.event.content"))
        one = _message(content if isinstance(content, dict) else fields, MESSAGES[name] or "assistant")
        (chat.told if MESSAGES[name] else chat.said).append(one)


def _messages(given: Any, role: str, unread: list[str]) -> Iterator[ChatMessage]:
    found = as_json(given)
    if isinstance(found, list):
        yield from (_message(one, role) for one in found[-LATEST:] if isinstance(one, dict))
    elif given is not None:
        unread.append(CUT)


def _message(one: Json, role: str) -> ChatMessage:
    inner = one.get("message")
    if isinstance(inner, dict):
        one = {**one, **inner}
    role = _ROLES.get(str(one.get("role", role)).lower(), role)
    called_for = str(one.get("tool_call_id") or one.get("id") or "")
    texts: list[str] = []
    calls = [_tool_use(call) for call in items(one.get("tool_calls"), "tool_call")]
    answers: list[ToolAnswer] = []
    parts = (*items(one.get("parts")), *items(one.get("contents"), "message_content"), *_content(one.get("content")))
    for part in parts:
        match part.get("type"):
            case "tool_call" | "tool_use":
                calls.append(_tool_use(part))
            case "tool_call_response" | "tool_result":
                result = next((part[key] for key in ("response", "result", "content") if key in part), None)
                answers.append(ToolAnswer(str(part.get("id") or part.get("tool_use_id") or called_for), "", result))
            case _:
                text = part.get("content", part.get("text"))
                texts += [text] if isinstance(text, str) else []
    if role == "tool" and not answers:
        answers.append(ToolAnswer(called_for, str(one.get("name") or ""), "\n".join(texts)))
    return ChatMessage(role, "" if answers and role == "tool" else "\n".join(texts), tuple(calls), tuple(answers))


def _content(given: Any) -> list[Json]:
    """Return the parts of a content: a text, a list of parts, or such a list as text."""
    if isinstance(given, str):
        parts = as_json(given) if given.startswith('[{"') else None
        typed = isinstance(parts, list) and all(isinstance(part, dict) and "type" in part for part in parts)
        return list(items(parts)) if typed else [{"text": given}]
    return list(items(given))


def _tool_use(call: Json) -> ToolUse:
    function = call.get("function")
    told = function if isinstance(function, dict) else call
    given = told.get("arguments", told.get("input"))
    return ToolUse(str(call.get("id") or ""), str(told.get("name") or ""), arguments_of(given))


def arguments_of(given: Any) -> Json:
    """Return a call's arguments, which may be written as JSON."""
    found = as_json(given)
    return found if isinstance(found, dict) else {} if found in (None, "") else {"input": found}


def as_json(given: Any) -> Any:
    """Return the value of a text that is JSON, else what was given; also where it is too deep to be written again."""
    if not isinstance(given, str) or given[:1] not in ("{", "["):
        return given
    try:
        found = orjson.loads(given)
        if given.count("[") + given.count("{") > SHALLOW:
            orjson.dumps([[[[[[[[found]]]]]]]])  # room for what it will be a part of
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return given
    return found


def items(given: Any, inside: str = "") -> Iterator[Json]:
    """Yield the objects of a list, or of an object whose names number them; or what each has `inside`."""
    if isinstance(given, dict):
        given = [value for _, value in sorted(given.items(), key=lambda pair: str(pair[0]).zfill(9))]
    for one in given if isinstance(given, list) else ():
        found = one.get(inside, one) if isinstance(one, dict) else None
        if isinstance(found, dict):
            yield found


def _nested(attributes: Mapping[str, Any], prefix: str) -> Iterator[Json]:
    """Yield the messages of attributes such as `llm.input_messages.0.message.role`."""
    root: Json = {}
    for name, value in attributes.items():
        if name.startswith(prefix):
            *path, last = name.removeprefix(prefix).split(".")
            place = root
            for step in path[:12]:
                inner = place.setdefault(step, {})
                place = inner if isinstance(inner, dict) else {}
            place[last] = value
    yield from items(root)
