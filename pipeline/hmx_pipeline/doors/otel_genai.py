"""OpenTelemetry's spans and log records of agents as HMX events: what was said, which tools ran and how they ended.

Enters: the records of an export. Leaves: events in the order of their times. Their ids, times and sequences follow from
the records, so an export that is sent twice gives the same twice. A span is exported when it ends, so its events are
dated at its end: then few come late. A tool call becomes events when its outcome is known. Its span tells it; without
one, the next request to the model does, whose history has both. Of a history only what follows the model's last words
is new.
"""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.episode import SUBJECT_ID, own_session
from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.limits import TAG
from hmx_pipeline.contracts.timestamps import NS_PER_MS, format_ms
from hmx_pipeline.contracts.versions import HMX_VERSION
from hmx_pipeline.doors.draft import DraftEvent, bounded, cut, message_of
from hmx_pipeline.doors.otel_messages import (
    MESSAGES,
    Chat,
    ChatMessage,
    ToolUse,
    chat_of,
    chat_of_events,
)
from hmx_pipeline.doors.otel_tools import (
    ToolRun,
    exception,
    first_text,
    result_of,
    says_failed,
    tool_name,
    tool_run,
    written,
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
_AROUND: Final = frozenset(
    ("invoke_agent", "create_agent", "invoke_workflow", "agent", "chain", "workflow", "task", "execute_task")
)
_SESSION: Final = ("gen_ai.conversation.id", "session.id", "traceloop.association.properties.session_id")
_SUBJECT: Final = ("user.id", "enduser.id", "traceloop.association.properties.user_id")
_NAMED: Final = ("gen_ai.agent.name", "gen_ai.agent.id", "agent.name")
_MODEL: Final = ("gen_ai.request.model", "llm.model_name")
_BAD: Final = frozenset(("fail", "failed", "false", "incorrect", "bad", "no", "negative", "irrelevant", "unsafe"))
"""Labels of evaluations."""


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
        self._by_id: dict[tuple[str, str], ToolUse] = {}
        self._failing: set[str] = set()
        """Traces of which a failure was told: it ends the spans around it, too."""
        for one in records:
            for known, names in ((self._sessions, _SESSION), (self._subjects, _SUBJECT)):
                if one.trace_id and (value := first_text(one.attributes, names)):
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
            self._add(index, list(_tool(record, tool_run(record, self._announced[record.trace_id, tool_name(record)]))))
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
        drafts = [*self._news(record, chat.told), *_answers(record, chat.said)]
        for call in (call for one in chat.said for call in one.calls):
            known = self._announced[record.trace_id, call.name]
            known += [call] if len(known) < ANNOUNCED else []
            self._by_id[record.trace_id, call.call_id] = call
        if record.failed:
            drafts.append(_Drafted(_error(record)))
        self._add(index, drafts)

    def _news(self, record: OtelRecord, told: list[ChatMessage]) -> Iterator[_Drafted]:
        """Yield what was told since the model's last words: it alone is new. What came before makes it one event; where
        nothing did, the trace does."""
        said = [one for one in told if one.role != "system"]
        ended = max((at for at, one in enumerate(said) if one.role == "assistant"), default=-1)
        calls: defaultdict[str, list[ToolUse]] = defaultdict(list)
        for call in reversed(said[ended].calls if ended >= 0 else ()):
            calls[call.call_id].append(call)
        before = _digest("" if ended >= 0 else record.trace_id, said[: ended + 1])
        for one in said[ended + 1 :]:
            before = _digest(before, one)
            for place, answer in enumerate(one.answers):
                if calls[answer.call_id]:
                    call = calls[answer.call_id].pop()
                else:  # the model's server remembers it
                    known = self._by_id.get((record.trace_id, answer.call_id))
                    call = known or ToolUse(answer.call_id, answer.name, {})
                if call.name:
                    yield from _outcome(call, answer.result, f"{before}/{place}")
                else:
                    self._mapped.left_out["results without a call"] += 1
            if one.role == "user" and one.text.strip():
                yield _Drafted(message_of("user", one.text, f"said/{before}"))
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
        subject = first_text(record.attributes, _SUBJECT) or self._subjects.get(record.trace_id) or sender.subject
        about = {"model": first_text(record.attributes, _MODEL), SUBJECT_ID: subject}
        service = first_text(record.resource, ("service.name",))
        service = "" if service.startswith("unknown_service") else service  # what SDKs say where nobody has named it
        tags = [tag for tag in (service, first_text(record.resource, ("deployment.environment.name",))) if tag]
        for part, (draft, mark, unless) in enumerate(drafts):
            event_id = keyed_id(sender.tenant, session, draft.key)
            event = {
                "hmx_version": HMX_VERSION,
                "event_id": event_id,
                "event_type": draft.event_type,
                "agent_id": first_text(record.attributes, _NAMED) or sender.agent or service or AGENT,
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
            ids = (f"mark:{keyed_id(sender.tenant, session, name)}" for name in (mark, unless))  # no event's id
            marked, superfluous = ((found,) if name else () for found, name in zip(ids, (mark, unless), strict=True))
            self._mapped.events.append(OtelEvent(event, index, marked, (event_id, *superfluous)))

    def _session(self, record: OtelRecord) -> str:
        """Return its session, empty for none; of a bound key its own, so that ids of two people never meet."""
        session = first_text(record.attributes, _SESSION) or self._sessions.get(record.trace_id) or record.trace_id
        return own_session(self._sender.subject, session) if self._sender.subject and session else session

    def _inside_its_like(self, record: OtelRecord, kind: str) -> bool:
        """Return whether a span only repeats one around it, as where two libraries tell of the same request."""
        mine = tool_name(record) if kind == "tool" else ""
        for _ in range(16):
            around = self._spans.get((record.trace_id, record.parent_id))
            if around is None:
                return False
            if _kind(around) == kind and (not mine or tool_name(around) == mine):
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
        yield _Drafted(message_of("assistant", text, _answer_key(record) + (f"/{index}" if index else "")))


def _answer_key(record: OtelRecord) -> str:
    """Return the key of the last words of a span."""
    return f"{record.trace_id}/{record.span_id}/answer"


def _outcome(call: ToolUse, result: Any, digest: str) -> Iterator[_Drafted]:
    """Yield a call and its result from a history. Only the result's own words tell whether the call succeeded."""
    told, found = f"tool/{call.name}", result_of(result)
    yield _Drafted(_called(call, f"call/{digest}"), unless=told)
    content = {"tool_name": call.name, "call_id": call.call_id, "result": found, "success": not says_failed(found)}
    yield _Drafted(DraftEvent("tool_result", content, f"result/{digest}"), unless=told)


def _called(call: ToolUse, key: str) -> DraftEvent:
    content = {"tool_name": call.name, "call_id": call.call_id, "arguments": bounded(call.arguments)}
    return DraftEvent("tool_call", content, key)


def _tool(record: OtelRecord, run: ToolRun) -> Iterator[_Drafted]:
    key, name = f"{record.trace_id}/{record.span_id}", run.call.name
    content = {
        "tool_name": name,
        "call_id": run.call.call_id,
        "result": run.result,
        "success": run.ok,
        "duration_ms": (record.end_ns - record.start_ns) / NS_PER_MS,
    }
    yield _Drafted(_called(run.call, f"{key}/call"), mark=f"tool/{name}")
    yield _Drafted(DraftEvent("tool_result", content, f"{key}/result"))


def _error(record: OtelRecord) -> DraftEvent:
    kind = str(record.attributes.get("error.type") or exception(record, "type") or "error")
    message = exception(record, "message") or record.status
    content = {"error_type": cut(kind, 256), "message": cut(message), "stack": "", "recoverable": True}
    return DraftEvent("error", content, f"{record.trace_id}/{record.span_id}/error")


def _digest(*parts: Any) -> str:
    return hashlib.sha256(written(parts).encode()).hexdigest()[:32]
