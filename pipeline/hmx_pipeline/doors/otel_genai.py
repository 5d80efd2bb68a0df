"""OpenTelemetry's spans and log records of agents as HMX events: what was said, which tools ran and how they ended.

Enters: the records of an export. Leaves: events in the order of their times. Their ids, times and sequences follow from
the records, so an export that is sent twice gives the same twice. A span is exported when it ends, so its events are
dated at its end: then few come late. A tool call becomes events when its outcome is known. Its span tells it; without
one, the next request to the model does, whose history has both. Of a history only what follows the model's last words
is new.
"""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.episode import SUBJECT_ID, own_session
from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.limits import TAG
from hmx_pipeline.contracts.timestamps import NS_PER_MS, format_ms
from hmx_pipeline.contracts.versions import HMX_VERSION
from hmx_pipeline.doors.draft import DraftEvent, bounded, cut
from hmx_pipeline.doors.otel_messages import (
    MESSAGES,
    Chat,
    ChatMessage,
    ToolUse,
    arguments_of,
    as_json,
    chat_of,
    chat_of_events,
)
from hmx_pipeline.doors.otlp import FIRST_NS, Json, OtelRecord

TICKS: Final = 4_096
"""Sequence numbers per millisecond since 2020."""
EVENTS: Final = 20_000
"""Events of a request; records beyond are refused."""
ANNOUNCED: Final = 256
"""Calls of a tool in a trace that await their spans, the first."""
AGENT: Final = "default"
_OPERATION: Final = "gen_ai.operation.name"
_CHATS: Final = frozenset(("chat", "text_completion", "generate_content", "completion", "llm"))
_TOOLS: Final = frozenset(("execute_tool", "tool"))
_AROUND: Final = frozenset(("invoke_agent", "create_agent", "invoke_workflow", "agent", "chain", "workflow", "task"))
_SESSION: Final = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_SUBJECT: Final = ("user.id", "enduser.id", "traceloop.association.properties.user_id")
_NAMED: Final = ("gen_ai.agent.name", "gen_ai.agent.id", "agent.name")
_MODEL: Final = ("gen_ai.request.model", "llm.model_name")
_TOOL: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_GIVEN: Final = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input")
_RESULT: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_BAD: Final = frozenset(("fail", "failed", "false", "incorrect", "bad", "no", "negative", "irrelevant", "unsafe"))
"""Labels of evaluations."""

_FAILURE: Final = re.compile(
    r"\W*(?:(?:an? |the |tool |execution |command )*(?:error|exception|failed|failure)\b"
    r"|traceback \(most recent|[\w.]*(?:error|exception):)",
    re.IGNORECASE,
)


class Sender(NamedTuple):
    tenant: str
    agent: str = ""
    """Of records that name no agent; their service if empty."""
    subject: str = ""
    """To whom its key is bound: of records that name no person."""


class OtelEvent(NamedTuple):
    event: Json
    record: int
    """Index of the record that tells it."""
    marks: tuple[str, ...]
    """Ids to remember with the event's own."""
    unless: tuple[str, ...]
    """Ids that make it superfluous, if one is remembered."""


@dataclass
class Mapped:
    events: list[OtelEvent] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    """What it was → records, or parts of records, without an event."""
    refused: Counter[str] = field(default_factory=Counter)
    """Why → records that are to be sent again in a smaller request."""


class _Drafted(NamedTuple):
    draft: DraftEvent
    mark: str = ""
    unless: str = ""


def map_records(records: list[OtelRecord], sender: Sender) -> Mapped:
    """Return the events of an export; those that a record repeats from another one only once."""
    mapping = _Mapping(records, sender)
    order = sorted(range(len(records)), key=lambda index: (records[index].end_ns, index))
    for index in order:
        mapping.record(index)
    for indexes in mapping.told_by_logs.values():
        mapping.logged_chat(indexes)
    return mapping.done()


class _Mapping:
    def __init__(self, records: list[OtelRecord], sender: Sender) -> None:
        self.told_by_logs: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._records, self._sender, self._mapped = records, sender, Mapped()
        self._spans = {(one.trace_id, one.span_id): one for one in records}
        self._sessions: dict[str, str] = {}
        self._subjects: dict[str, str] = {}
        self._announced: dict[tuple[str, str], list[ToolUse]] = defaultdict(list)
        """Trace and tool → calls that models have asked for, and no span has told of yet."""
        self._failing: set[str] = set()
        """Traces of which a failure was told: it ends the spans around it, too."""
        for one in records:
            for known, names in ((self._sessions, _SESSION), (self._subjects, _SUBJECT)):
                if one.trace_id and (value := _first(one.attributes, names)):
                    known.setdefault(one.trace_id, value)

    def done(self) -> Mapped:
        events = self._mapped.events
        events.sort(key=lambda one: (one.event["sequence"], one.event["event_id"]))
        known = {mark for one in events for mark in one.marks}
        kept = []
        for one in events:
            if known.isdisjoint(one.unless):
                known.add(one.event["event_id"])
                kept.append(one)
        self._mapped.events = kept
        return self._mapped

    def record(self, index: int) -> None:
        """Map a record, or keep it for the request that it is a part of."""
        record = self._records[index]
        event = record.name or str(record.attributes.get("event.name", ""))
        kind = _kind(record)
        if event in MESSAGES:
            self.told_by_logs[record.trace_id, record.span_id or str(index)].append(index)
        elif event == "gen_ai.evaluation.result":
            self._add(index, [_Drafted(self._evaluated(record))])
        elif event == "gen_ai.client.inference.operation.details":
            self._chat(index, chat_of_events([(event, record.attributes), (event, record.body)]))
        elif kind in ("chat", "tool") and self._inside_its_like(record, kind):
            self._mapped.left_out[f"{kind} spans inside another one of the same"] += 1
        elif kind == "chat":
            self._chat(index, chat_of(record))
        elif kind == "tool":
            self._add(index, list(_tool(record, self._announced[record.trace_id, _tool_name(record)])))
        elif kind == "around" and record.failed and record.trace_id not in self._failing:
            self._add(index, [_Drafted(_error(record))])
        elif kind != "around":
            known = record.attributes.get(_OPERATION) or record.attributes.get("openinference.span.kind")
            self._mapped.left_out["spans of another operation" if known else "records that tell of no agent"] += 1
        if kind and record.failed:
            self._failing.add(record.trace_id)

    def logged_chat(self, indexes: list[int]) -> None:
        """Map the messages that log records tell one by one."""
        told = [self._records[index] for index in indexes]
        names = ((one, one.name or str(one.attributes.get("event.name", ""))) for one in told)
        self._chat(indexes[-1], chat_of_events((name, one.body or one.attributes) for one, name in names))

    def _chat(self, index: int, chat: Chat) -> None:
        record = self._records[index]
        self._mapped.left_out.update(chat.unread)
        for call in (call for one in chat.said for call in one.calls):
            known = self._announced[record.trace_id, call.name]
            known += [call] if len(known) < ANNOUNCED else []
        drafts = [*self._news(chat.told), *_answers(record, chat.said)]
        if record.failed:
            drafts.append(_Drafted(_error(record)))
        self._add(index, drafts)

    def _news(self, told: list[ChatMessage]) -> Iterator[_Drafted]:
        """Yield what was told since the model's last words: it alone is new."""
        ended = max((at for at, one in enumerate(told) if one.role == "assistant"), default=-1)
        last = told[ended] if ended >= 0 else ChatMessage("assistant")
        asked = next((one.text for one in reversed(told[: max(0, ended)]) if one.role == "user" and one.text), "")
        calls: defaultdict[str, list[ToolUse]] = defaultdict(list)
        for call in reversed(last.calls):
            calls[call.call_id].append(call)
        before, ended_with = _digest(asked, last.text), _digest(last.text, [call[:2] for call in last.calls])
        seen: Counter[str] = Counter()
        for one in told[ended + 1 :]:
            for answer in one.answers:
                known = calls[answer.call_id]
                call = known.pop() if known else ToolUse(answer.call_id, answer.name, {})
                if call.name:
                    yield from _outcome(call, answer.result, _digest(before, *call))
                else:
                    self._mapped.left_out["results without a call"] += 1
            if one.role == "user" and one.text.strip():
                seen[one.text] += 1
                yield _Drafted(_message("user", one.text, f"said/{_digest(ended_with, one.text, seen[one.text])}"))
        if left := sum(map(len, calls.values())):
            self._mapped.left_out["calls without a result"] += left

    def _add(self, index: int, drafts: list[_Drafted]) -> None:
        record, sender = self._records[index], self._sender
        session = self._session(record)
        if not session:
            self._mapped.left_out["log records of no session and no trace"] += 1
            return
        if len(self._mapped.events) + len(drafts) > EVENTS:
            self._mapped.refused[f"beyond {EVENTS} events of a request"] += 1
            return
        subject = _first(record.attributes, _SUBJECT) or self._subjects.get(record.trace_id) or sender.subject
        about = {"model": _first(record.attributes, _MODEL), SUBJECT_ID: subject}
        service = _first(record.resource, ("service.name",))
        service = "" if service.startswith("unknown_service") else service  # what SDKs say where nobody has named it
        tags = [tag for tag in (service, _first(record.resource, ("deployment.environment.name",))) if tag]
        for part, (draft, mark, unless) in enumerate(drafts):
            event_id = keyed_id(sender.tenant, session, draft.key)
            event = {
                "hmx_version": HMX_VERSION,
                "event_id": event_id,
                "event_type": draft.event_type,
                "agent_id": _first(record.attributes, _NAMED) or sender.agent or service or AGENT,
                "tenant_id": sender.tenant,
                "session_id": session,
                "timestamp": format_ms(record.end_ns // NS_PER_MS),
                "sequence": (record.end_ns - FIRST_NS) * TICKS // NS_PER_MS + part,
                "content": draft.content,
                "metadata": {**{name: value for name, value in about.items() if value}, **draft.metadata},
                "source": cut(f"otel:{record.scope}", 256),
                **({"trace_id": record.trace_id} if record.trace_id else {}),
                **({"tags": [tag[:TAG] for tag in tags]} if tags else {}),
            }
            ids = (keyed_id(sender.tenant, session, name) for name in (mark, unless))
            marked, superfluous = ((found,) if name else () for found, name in zip(ids, (mark, unless), strict=True))
            self._mapped.events.append(OtelEvent(event, index, marked, (event_id, *superfluous)))

    def _session(self, record: OtelRecord) -> str:
        """Return its session, empty for none; of a bound key its own, so that ids of two people never meet."""
        session = _first(record.attributes, _SESSION) or self._sessions.get(record.trace_id) or record.trace_id
        return own_session(self._sender.subject, session) if self._sender.subject and session else session

    def _inside_its_like(self, record: OtelRecord, kind: str) -> bool:
        """Return whether a span only repeats one around it, as where two libraries tell of the same request."""
        mine = _tool_name(record) if kind == "tool" else ""
        for _ in range(16):
            around = self._spans.get((record.trace_id, record.parent_id))
            if around is None:
                return False
            if _kind(around) == kind and (not mine or _tool_name(around) == mine):
                return True
            record = around
        return False

    def _evaluated(self, record: OtelRecord) -> DraftEvent:
        given = record.attributes
        name, label = (str(given.get(f"gen_ai.evaluation.{part}") or "") for part in ("name", "score.label"))
        score = given.get("gen_ai.evaluation.score.value")
        bad = label.lower() in _BAD if label else isinstance(score, int | float) and score <= 0
        explained = str(given.get("gen_ai.evaluation.explanation") or "")
        session = self._session(record)
        content = {
            "signal": "negative" if bad else "positive",
            "target_event_id": keyed_id(self._sender.tenant, session, _answer_key(record)),
            "comment": cut(f"{name}: {label or score}. {explained}".strip()),
        }
        return DraftEvent("feedback", content, f"{record.trace_id}/{record.span_id}/evaluation/{name}/{record.end_ns}")


def _kind(record: OtelRecord) -> str:
    """Return `chat`, `tool`, `around` or nothing."""
    given = record.attributes
    if given.get("mcp.method.name") == "tools/call":
        return "tool"
    said = (given.get(n) for n in (_OPERATION, "openinference.span.kind", "traceloop.span.kind", "llm.request.type"))
    kind = next((str(one).lower() for one in said if one), "")
    return "chat" if kind in _CHATS else "tool" if kind in _TOOLS else "around" if kind in _AROUND else ""


def _answers(record: OtelRecord, said: list[ChatMessage]) -> Iterator[_Drafted]:
    texts = [one.text for one in said if one.text.strip()]
    for index, text in enumerate(texts, 1 - len(texts)):
        yield _Drafted(_message("assistant", text, _answer_key(record) + (f"/{index}" if index else "")))


def _answer_key(record: OtelRecord) -> str:
    """Return the key of the last words of a span."""
    return f"{record.trace_id}/{record.span_id}/answer"


def _message(role: str, text: str, key: str) -> DraftEvent:
    return DraftEvent("message", {"role": role, "text": cut(text.strip()), "attachments": []}, key)


def _outcome(call: ToolUse, result: Any, digest: str) -> Iterator[_Drafted]:
    """Yield a call and its result from a history. Only the result's own words tell whether the call succeeded."""
    told, found = f"tool/{call.name}", _result(result)
    yield _Drafted(_called(call, f"call/{digest}"), unless=told)
    content = {"tool_name": call.name, "call_id": call.call_id, "result": found, "success": not _says_failed(found)}
    yield _Drafted(DraftEvent("tool_result", content, f"result/{digest}"), unless=told)


def _called(call: ToolUse, key: str) -> DraftEvent:
    content = {"tool_name": call.name, "call_id": call.call_id, "arguments": bounded(call.arguments)}
    return DraftEvent("tool_call", content, key)


def _tool(record: OtelRecord, announced: list[ToolUse]) -> Iterator[_Drafted]:
    """Yield a call and its result from a tool's span."""
    given, name = record.attributes, _tool_name(record)
    ok, result = not record.failed and not given.get("error.type"), _told(given, _RESULT)
    call_id = str(given.get("gen_ai.tool.call.id") or "")
    match result:  # LangChain's message of a result
        case {"data": {"content": inner, "tool_call_id": named, **rest}} | {
            "content": inner, "tool_call_id": named, **rest
        }:  # fmt: skip
            ok, result, call_id = ok and rest.get("status") != "error", as_json(inner), call_id or str(named)
    if not ok:
        result = _exception(record, "message") or record.status or result or str(given.get("error.type") or "")
    call = _asked(call_id, _told(given, _GIVEN), announced)
    call = call._replace(call_id=call.call_id or record.span_id, name=name)
    content = {
        "tool_name": name,
        "call_id": call.call_id,
        "result": _result(result),
        "success": ok,
        "duration_ms": (record.end_ns - record.start_ns) / NS_PER_MS,
    }
    key = f"{record.trace_id}/{record.span_id}"
    yield _Drafted(_called(call, f"{key}/call"), mark=f"tool/{name}")
    yield _Drafted(DraftEvent("tool_result", content, f"{key}/result"))


def _told(given: Json, names: tuple[str, ...]) -> Any:
    return as_json(next((given[one] for one in names if one in given), None))


def _asked(call_id: str, given: Any, announced: list[ToolUse]) -> ToolUse:
    """Return the call that a span is of. If it lacks the id or the arguments, a model's words have them."""
    match given:
        case {"kwargs": dict(inner)} | {"inputs": dict(inner)}:  # OpenLLMetry's form
            given = inner
    whole = isinstance(given, dict)
    fitting = [call for call in announced if call.call_id == call_id]
    if not call_id:
        fitting = [one for one in announced if given in (None, one.arguments, *one.arguments.values())]
    if len(fitting) != 1:
        return ToolUse(call_id, "", arguments_of(given))
    announced.remove(fitting[0])
    return fitting[0]._replace(arguments=given) if whole else fitting[0]


def _tool_name(record: OtelRecord) -> str:
    named = _first(record.attributes, _TOOL) or record.name.removeprefix("execute_tool ").removeprefix("tools/call ")
    return cut(named or "tool", 256)


def _result(given: Any) -> Json:
    found = as_json(given)
    if isinstance(found, dict):
        kept: Json = bounded(found)
        return kept
    return {"text": cut(found if isinstance(found, str) else "" if found is None else _written(found))}


def _says_failed(result: Json) -> bool:
    """Return whether a result for the model says that its call failed, as frameworks and most tools put it."""
    text, status = result.get("text"), result.get("status")
    return (
        any(result.get(name) for name in ("error", "isError", "is_error"))
        or any(result.get(name) is False for name in ("success", "ok"))
        or (isinstance(status, str) and status.lower() in ("error", "failed", "failure"))
        or (isinstance(text, str) and _FAILURE.match(text[:200]) is not None)
    )


def _error(record: OtelRecord) -> DraftEvent:
    kind = str(record.attributes.get("error.type") or _exception(record, "type") or "error")
    message = _exception(record, "message") or record.status
    content = {"error_type": cut(kind, 256), "message": cut(message), "stack": "", "recoverable": True}
    return DraftEvent("error", content, f"{record.trace_id}/{record.span_id}/error")


def _exception(record: OtelRecord, part: str) -> str:
    found = (event.attributes.get(f"exception.{part}") for event in record.events if event.name == "exception")
    return next((value for value in found if isinstance(value, str)), "")


def _first(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for value in map(fields.get, names) if isinstance(value, str) and value), "")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(_written(parts).encode()).hexdigest()[:32]


def _written(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str).decode()
