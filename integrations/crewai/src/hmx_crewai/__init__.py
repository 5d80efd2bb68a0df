"""HMX memory as the memory of a CrewAI crew: it recalls without a model, and tells what its crews do.

    crew = Crew(agents=[…], tasks=[…], memory=HmxCrewMemory())

The service being away never fails a crew: memory is then empty, and events wait (hmx_client.agents).
"""

import re
from functools import cache
from itertools import count
from typing import Any, Final, NoReturn

from crewai.events import TaskCompletedEvent, TaskFailedEvent, crewai_event_bus
from crewai.hooks import register_after_tool_call_hook, register_before_llm_call_hook
from crewai.memory.types import MemoryMatch, MemoryRecord, ScopeInfo
from crewai.memory.unified_memory import Memory
from pydantic import Field, PrivateAttr

from hmx_client import AgentMemory
from hmx_client.agents import key_of

__all__ = ["HmxCrewMemory"]
_BLOCKED: Final = "Tool execution blocked by hook."
_FAILED: Final = re.compile(
    r"\s*I encountered an error while trying to use the tool\. This was the error: (.*?)\.\s+Tool .* accepts these",
    re.DOTALL,
)
"""How CrewAI tells a model that its tool has raised."""
_OWN: Final = ("search_memory", "save_to_memory")
_DELEGATES: Final = ("delegate_work_to_coworker", "ask_question_to_coworker")


class _Nothing:
    """The storage that CrewAI's own memory would write to. Nothing is in it."""

    def search(self, *_: Any, **__: Any) -> list[tuple[MemoryRecord, float]]:
        return []

    async def asearch(self, *_: Any, **__: Any) -> list[tuple[MemoryRecord, float]]:
        return []

    def get_record(self, record_id: str) -> None:
        return None

    def list_records(self, *_: Any, **__: Any) -> list[MemoryRecord]:
        return []

    def list_scopes(self, parent: str = "/") -> list[str]:
        return []

    def list_categories(self, scope_prefix: str | None = None) -> dict[str, int]:
        return {}

    def get_scope_info(self, scope: str) -> ScopeInfo:
        return ScopeInfo(path=scope)

    def count(self, scope_prefix: str | None = None) -> int:
        return 0

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise ValueError("memory deletes nothing by a scope: see `hmx knowledge` and `hmx erase`")

    async def arefuse(self, *_: Any, **__: Any) -> NoReturn:
        self.refuse()

    save = delete = update = reset = refuse
    asave = adelete = arefuse


class HmxCrewMemory(Memory):
    """`recall` asks memory, `remember` tells a fact; scopes and categories do not matter, the key decides.

    Crews and agents that have this memory tell it their tasks, tool calls, results and errors.
    """

    storage: Any = Field(default_factory=_Nothing)
    _hmx: AgentMemory = PrivateAttr()
    _session: str = PrivateAttr()
    _calls: Any = PrivateAttr(default_factory=count)

    def __init__(self, memory: AgentMemory | None = None, session: str = "", **fields: Any) -> None:
        super().__init__(**fields)
        self._hmx = memory if memory is not None else AgentMemory.of()
        self._session = session or self._hmx.session
        _listen()

    def recall(self, query: str, *_: Any, limit: int = 10, **__: Any) -> list[MemoryMatch]:
        """Returns at most one match: what memory has on the query, marked as memory."""
        text = self._hmx.recall(query, self._session)
        record = MemoryRecord(id=key_of(text), content=text, source="hmx")
        return [MemoryMatch(record=record, score=1.0)] if text and limit > 0 else []

    async def arecall(self, query: str, *_: Any, limit: int = 10, **__: Any) -> list[MemoryMatch]:
        text = await self._hmx.arecall(query, self._session)
        record = MemoryRecord(id=key_of(text), content=text, source="hmx")
        return [MemoryMatch(record=record, score=1.0)] if text and limit > 0 else []

    def extract_memories(self, content: str) -> list[str]:
        """Returns nothing: what a task did is told as it happens, and no model summarises it."""
        return []

    async def aextract_memories(self, content: str) -> list[str]:
        return []

    def remember(self, content: str, *_: Any, **__: Any) -> MemoryRecord | None:
        if self.read_only:
            return None
        record = MemoryRecord(id=key_of("fact", content), content=content, source="hmx")
        self._hmx.tell(self._session, "observation", {"text": content, "kind": "fact"}, record.id)
        return record

    def remember_many(self, contents: list[str], *_: Any, **__: Any) -> list[MemoryRecord]:
        return [record for content in contents if (record := self.remember(content)) is not None]

    async def aremember(self, content: str, *_: Any, **__: Any) -> MemoryRecord | None:
        return self.remember(content)

    async def aremember_many(self, contents: list[str], *_: Any, **__: Any) -> list[MemoryRecord]:
        return self.remember_many(contents)

    def drain_writes(self) -> None:
        """Waits for nothing: what was told is sent in the background."""

    def close(self) -> None:
        self._hmx.close()

    def asked(self, task: Any) -> None:
        self._hmx.said(self._session, "user", str(task.description), key_of(_execution(task), "asked"))

    def done(self, task: Any, output: Any) -> None:
        self._hmx.said(self._session, "assistant", str(output), key_of(_execution(task), "done"))

    def failed(self, task: Any, error: str) -> None:
        self._hmx.failed(self._session, error, key_of(_execution(task), "failed"))

    def used(self, tool: str, given: Any, result: Any, task: Any) -> None:
        call_id = key_of(_execution(task), next(self._calls))
        raised = _FAILED.match(result) if isinstance(result, str) else None
        told, ok = (raised[1], False) if raised else (result, None)
        self._hmx.called(self._session, call_id, tool, given, call_id)
        self._hmx.returned(self._session, call_id, tool, told, call_id, ok=ok)
        if tool in _DELEGATES:
            self._hmx.handed_over(self._session, "crew", str(given.get("coworker", "")), f"{call_id}/handoff")


def _execution(task: Any) -> tuple[str, str]:
    """Returns what tells one execution of a task from another."""
    return str(task.id), str(task.start_time)


def _memory_of(agent: Any, crew: Any) -> HmxCrewMemory | None:
    for owner in (agent, crew):
        for name in ("memory", "_memory"):
            found = getattr(owner, name, None)
            if isinstance(found, HmxCrewMemory):
                return found
    return None


@cache
def _listen() -> None:
    """Registers with CrewAI once: its hooks are of the process, and each finds the memory of its crew."""
    register_before_llm_call_hook(_on_model)
    register_after_tool_call_hook(_on_tool)
    crewai_event_bus.register_handler(TaskCompletedEvent, _on_done)
    crewai_event_bus.register_handler(TaskFailedEvent, _on_failed)


def _on_model(context: Any) -> None:
    memory = _memory_of(context.agent, context.crew)
    if memory is not None and context.task is not None:
        memory.asked(context.task)


def _on_tool(context: Any) -> None:
    memory = _memory_of(context.agent, context.crew)
    told = str(context.tool_result)
    if memory is None or context.task is None or context.tool_name in _OWN or told.startswith(_BLOCKED):
        return
    raw = context.raw_tool_result
    memory.used(context.tool_name, context.tool_input, raw if isinstance(raw, dict) else told, context.task)


def _on_done(_: Any, event: TaskCompletedEvent) -> None:
    agent = getattr(event.task, "agent", None)
    memory = _memory_of(agent, getattr(agent, "crew", None))
    if memory is not None:
        memory.done(event.task, event.output.raw)


def _on_failed(_: Any, event: TaskFailedEvent) -> None:
    agent = getattr(event.task, "agent", None)
    memory = _memory_of(agent, getattr(agent, "crew", None))
    if memory is not None:
        memory.failed(event.task, event.error)
