"""HMX memory for the OpenAI Agents SDK: a session that records, hooks that record more, and packs as instructions.

    session = HmxSession("conversation-1")
    await Runner.run(agent, "Refund order A7", session=session, hooks=session.hooks(), run_config=session.recalling())

The service being away never fails a run: memory is then empty, and events wait (hmx_client.agents).
"""

import asyncio
import time
import uuid
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Final

from agents import Agent, RunConfig, RunContextWrapper, RunHooks, Session, SessionSettings, SQLiteSession, Tool
from agents.items import ModelResponse, TResponseInputItem
from agents.run import CallModelData, ModelInputData
from agents.tool_context import ToolContext
from agents.tracing import Span, Trace, TracingProcessor, add_trace_processor, get_current_span, get_current_trace

from hmx_client import AgentMemory
from hmx_client.agents import key_of, says_failed, text_of

__all__ = ["HmxHooks", "HmxSession", "recalling"]
_NAMES: Final = 1_024
"""Calls of a conversation whose tool is remembered until its result."""
_ASIDE: Final = ("system", "developer")
_RUNS: Final = 16_384  # runs under way that are remembered


class HmxSession(Session):
    """Keeps a conversation in `own`, a session of the SDK's, and tells memory what is added to it.

    What an item says and how often it was said before are its key, so adding the same conversation again adds nothing
    to memory. With `hooks()` these tell what the model and the tools do.
    """

    def __init__(self, session_id: str, memory: AgentMemory | None = None, own: Session | None = None) -> None:
        self.session_id = session_id
        self.memory = memory if memory is not None else AgentMemory.of()
        self._own: Session = own if own is not None else SQLiteSession(session_id)
        self._hooked = False
        self._said: Counter[str] | None = None
        self._tools: OrderedDict[str, str] = OrderedDict()
        self._lock = asyncio.Lock()

    @property
    def session_settings(self) -> SessionSettings | None:  # type: ignore[override]
        return self._own.session_settings

    def hooks(self, run: str = "") -> "HmxHooks":
        self._hooked = True
        return HmxHooks(self.memory, self.session_id, run, users=False)

    def recalling(self, config: RunConfig | None = None) -> RunConfig:
        return recalling(self.memory, self.session_id, config)

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        return await self._own.get_items(limit)

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        async with self._lock:
            said = await self._before()
            await self._own.add_items(items)
            for item in items:
                key = key_of(item)
                if item.get("role") == "user" or not self._told_by_hooks():
                    self._tell(item, key_of(key, said[key]))
                said[key] += 1

    def _told_by_hooks(self) -> bool:
        """Returns whether hooks of this session tell the run that adds something. Without tracing nobody knows."""
        trace = get_current_trace()
        if trace is None or trace.trace_id == "no-op":
            return self._hooked
        return _ERRORS.hears(trace.trace_id, self.session_id)

    async def pop_item(self) -> TResponseInputItem | None:
        async with self._lock:
            said = await self._before()
            item = await self._own.pop_item()
            if item is not None:
                said[key_of(item)] -= 1
            return item

    async def clear_session(self) -> None:
        async with self._lock:
            await self._own.clear_session()
            self._said = Counter()

    async def _before(self) -> Counter[str]:
        if self._said is None:
            self._said = Counter(key_of(item) for item in await self._own.get_items())
        return self._said

    def _tell(self, item: Mapping[str, Any], key: str) -> None:
        match item.get("type", "message"):
            case "message" if item.get("role") in ("user", "assistant"):
                self.memory.said(self.session_id, str(item["role"]), text_of(item.get("content")), key)
            case "function_call":
                call_id, name = str(item.get("call_id")), str(item.get("name"))
                self._tools[call_id] = name
                while len(self._tools) > _NAMES:
                    self._tools.popitem(last=False)
                self.memory.called(self.session_id, call_id, name, item.get("arguments"), key)
            case "function_call_output":
                call_id = str(item.get("call_id"))
                name = self._tools.pop(call_id, "tool")
                self.memory.returned(self.session_id, call_id, name, text_of(item.get("output")), key)


@dataclass
class _Run:
    """What was told of one run, so that each thing is told once."""

    name: str
    told: int = 0
    calls: Counter[str] = field(default_factory=Counter)
    open: dict[str, tuple[str, str, float, str]] = field(default_factory=dict)
    """Call id → tool, key, start and id of the span, of calls without a result."""


class HmxHooks(RunHooks[Any]):
    """Tells memory what happens in runs: messages, tool calls with their outcome and duration, errors, handoffs.

    The trace names a run, so hooks may serve several runs at a time. Without tracing, `run` does; a run that is told
    again under the same name adds nothing.
    """

    def __init__(self, memory: AgentMemory, session_id: str, run: str = "", *, users: bool = True) -> None:
        """`users`: whether to tell what users say, which a session of the same name tells otherwise."""
        self._memory = memory
        self._users = users
        self.session_id = session_id
        self._own = _Run(run or uuid.uuid4().hex)
        _watch()

    async def on_llm_start(
        self, context: RunContextWrapper[Any], agent: Agent[Any], system_prompt: str | None, input_items: Any
    ) -> None:
        """Tells what the user has said since the model's last words or call; the rest was told before."""
        run, fresh = self._current(), list[tuple[int, str]]()
        for place, item in enumerate(input_items if self._users else ()):
            user = item.get("role") == "user"
            said = [(place, text_of(item.get("content")))] if user else []
            fresh = fresh + said if user or item.get("role") in _ASIDE else []
        for place, text in fresh:
            self._memory.said(self.session_id, "user", text, key_of(run.name, place, text))

    async def on_llm_end(self, context: RunContextWrapper[Any], agent: Agent[Any], response: ModelResponse) -> None:
        run = self._current()
        for item in response.output:
            if getattr(item, "type", "") == "message":
                run.told += 1
                text = text_of(getattr(item, "content", ""))
                self._memory.said(self.session_id, "assistant", text, key_of(run.name, run.told))

    async def on_tool_start(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool) -> None:
        if isinstance(context, ToolContext):
            run, call_id = self._current(), context.tool_call_id
            key = key_of(run.name, call_id, run.calls[call_id])
            run.calls[call_id] += 1
            span = get_current_span()
            run.open[call_id] = (tool.name, key, time.monotonic(), span.span_id if span else "")
            self._memory.called(self.session_id, call_id, tool.name, context.tool_arguments, key)

    async def on_tool_end(self, context: RunContextWrapper[Any], agent: Agent[Any], tool: Tool, result: object) -> None:
        if isinstance(context, ToolContext):
            span = get_current_span()
            self._returned(self._current(), context.tool_call_id, result, False if span and span.error else None)

    async def on_handoff(self, context: RunContextWrapper[Any], from_agent: Agent[Any], to_agent: Agent[Any]) -> None:
        run = self._current()
        run.told += 1
        key = key_of(run.name, "handoff", run.told)
        self._memory.handed_over(self.session_id, from_agent.name, to_agent.name, key)

    def errored(self, run: _Run, span: Span[Any]) -> None:
        """Tells an error that a span ended with: of a tool that then has no result, or of the run."""
        assert span.error is not None
        about = span.error.get("data") or {}
        message = str(about.get("error") or span.error["message"])
        if span.span_data.type == "function":
            for call_id in [call_id for call_id, (*_, of) in run.open.items() if of == span.span_id]:
                self._returned(run, call_id, message, False)
        else:
            self._memory.failed(self.session_id, message, key_of(run.name, "error", message))

    def _returned(self, run: _Run, call_id: str, result: object, ok: bool | None) -> None:
        unknown = ("tool", key_of(run.name, call_id), time.monotonic(), "")
        name, key, since, _ = run.open.pop(call_id, unknown)
        ms = 1000 * (time.monotonic() - since)
        told = (text_of(result) or result) if isinstance(result, list | tuple) else result
        self._memory.returned(self.session_id, call_id, name, told, key, ok=ok, ms=ms)

    def _current(self) -> _Run:
        trace = get_current_trace()
        if trace is None or trace.trace_id == "no-op":
            return self._own
        return _ERRORS.run(trace.trace_id, self)


class _Errors(TracingProcessor):
    """Hears of the errors that hooks are not told of: a tool or a model that ends the run."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, tuple[_Run, HmxHooks]] = OrderedDict()

    def run(self, name: str, hooks: HmxHooks) -> _Run:
        found = self._runs.setdefault(name, (_Run(name), hooks))
        self._runs.move_to_end(name)
        while len(self._runs) > _RUNS:
            self._runs.popitem(last=False)
        return found[0]

    def hears(self, name: str, session_id: str) -> bool:
        found = self._runs.get(name)
        return found is not None and found[1].session_id == session_id

    def on_span_end(self, span: Span[Any]) -> None:
        found = self._runs.get(span.trace_id)
        if found is not None and span.error is not None:
            found[1].errored(found[0], span)

    def on_trace_end(self, trace: Trace) -> None:
        self._runs.pop(trace.trace_id, None)

    def on_trace_start(self, trace: Trace) -> None: ...
    def on_span_start(self, span: Span[Any]) -> None: ...
    def shutdown(self) -> None: ...
    def force_flush(self) -> None: ...


_ERRORS: Final = _Errors()


@cache
def _watch() -> None:
    add_trace_processor(_ERRORS)


def recalling(memory: AgentMemory, session_id: str, config: RunConfig | None = None) -> RunConfig:
    """Returns a configuration whose runs have memory of the user's last words, and of a failed result, in the
    instructions. Memory is asked when one of them changes."""

    async def recalled(data: CallModelData[Any]) -> ModelInputData:
        given, trace = data.model_data, get_current_trace()
        pack = await memory.arecall(_question(given.input), session_id, trace.trace_id if trace else "")
        told = [text for text in (given.instructions, pack) if text]
        return ModelInputData(input=given.input, instructions="\n\n".join(told) or None)

    return replace(config or RunConfig(), call_model_input_filter=recalled)


def _question(items: Sequence[Any]) -> str:
    asked = [text_of(item.get("content")) for item in items if item.get("role") == "user"][-1:]
    last = text_of(items[-1].get("output")) if items and items[-1].get("type") == "function_call_output" else ""
    return "\n".join([*asked, *([last[:500]] if says_failed({"text": last}) else [])])
