"""A shop's clerk made with pydantic-ai."""

from collections.abc import Iterator
from typing import Any

from hmx_pydantic_ai import HmxCapability, record
from pydantic_ai import Agent, ModelRetry
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from shop import FAILURE, ORDERS, answer, calls, play, result, wish

from hmx_client import AgentMemory

shown: list[str | None] = []


def clerk(memory: AgentMemory, session: str, steps: list[Any]) -> Agent[Any, str]:
    script: Iterator[Any] = iter(steps)

    def said(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append(info.instructions)
        step = next(script)
        if isinstance(step, Exception):
            raise step
        return ModelResponse(parts=[step])

    capability = HmxCapability(memory, session)
    agent = Agent(FunctionModel(said), instructions="You help.", capabilities=[capability])

    @agent.tool_plain
    def get_order(id: str) -> dict[str, Any]:  # noqa: A002
        return result(id)

    @agent.tool_plain
    def check_policy(id: str) -> dict[str, Any]:  # noqa: A002
        return result(id)

    @agent.tool_plain
    def refund(id: str) -> dict[str, Any]:  # noqa: A002
        if id == "closed":
            raise ModelRetry(FAILURE)
        return result(id)

    @agent.tool_plain
    def cancel(id: str) -> str:  # noqa: A002
        raise RuntimeError(FAILURE)

    return agent


def steps_of(order: str) -> list[Any]:
    asked = [ToolCallPart(name, given, tool_call_id=call) for call, name, given in calls(order)]
    return [*asked, TextPart(answer(order))]


def learn() -> dict[str, Any]:
    with AgentMemory.of() as memory:
        for order in ORDERS:
            clerk(memory, f"pydantic-{order}", steps_of(order)).run_sync(wish(order))
    return {"shown": shown, "lost": memory.lost, "refused": memory.refused}


def fail() -> dict[str, Any]:
    raised = []
    with AgentMemory.of() as memory:
        closed = ToolCallPart("refund", {"id": "closed"}, tool_call_id="c1")
        clerk(memory, "failing", [closed, TextPart("It failed.")]).run_sync(wish("closed"))
        for steps in ([ToolCallPart("cancel", {"id": "A7"}, tool_call_id="c2")], [ValueError("no model")]):
            try:
                clerk(memory, "failing", steps).run_sync("Go on")
            except Exception as error:  # noqa: BLE001
                raised.append(type(error).__name__)
    return {"raised": raised, "shown": shown}


def again() -> dict[str, Any]:
    """A run that was told as it went on, and then its history, written and read again."""
    with AgentMemory.of() as memory:
        found = clerk(memory, "again-live", steps_of("R1")).run_sync(wish("R1"))
        more = clerk(memory, "again-live", [TextPart("Gladly.")]).run_sync(
            "Thanks", message_history=found.all_messages()
        )
        kept = more.all_messages_json()
    with AgentMemory.of() as memory:  # which remembers nothing of what was told
        for _ in range(2):
            record(memory, ModelMessagesTypeAdapter.validate_json(kept), "again-live")
    return {}


def away() -> dict[str, Any]:
    memory = AgentMemory.of()
    found = clerk(memory, "away", steps_of("A1")).run_sync(wish("A1"))
    memory.close(0.2)
    return {"answer": found.output, "lost": memory.lost}


play({"learn": learn, "fail": fail, "again": again, "away": away})
