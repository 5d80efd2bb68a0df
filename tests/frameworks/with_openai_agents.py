"""A shop's clerk made with the OpenAI Agents SDK."""

import asyncio
import json
from collections.abc import Coroutine
from typing import Any

from agents import Agent, FunctionTool, RunConfig, Runner, function_tool, set_trace_processors
from agents.testing import ScriptedModel, assistant_message, function_call
from hmx_openai_agents import HmxHooks, HmxSession
from shop import FAILURE, ORDERS, answer, calls, play, result, wish

from hmx_client import AgentMemory

set_trace_processors([])  # or the SDK sends traces to its maker


@function_tool
def get_order(id: str) -> str:  # noqa: A002
    return json.dumps(result(id))


@function_tool
def check_policy(id: str) -> str:  # noqa: A002
    return json.dumps(result(id))


@function_tool
def refund(id: str) -> str:  # noqa: A002
    if id == "closed":
        raise RuntimeError(FAILURE)
    return json.dumps(result(id))


@function_tool(failure_error_function=None)
def cancel(id: str) -> str:  # noqa: A002
    raise RuntimeError(FAILURE)


TOOLS: list[FunctionTool] = [get_order, check_policy, refund, cancel]


def clerk(steps: list[Any], **more: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([step if isinstance(step, Exception) else [step] for step in steps])
    return Agent(name="clerk", instructions="You help.", model=model, tools=list(TOOLS), **more), model


def steps_of(order: str) -> list[Any]:
    return [
        *(function_call(name, given, call_id=call) for call, name, given in calls(order)),
        assistant_message(answer(order)),
    ]


async def learn(hooked: bool) -> dict[str, Any]:
    shown = []
    with AgentMemory.of() as memory:
        for order in ORDERS:
            session = HmxSession(f"{'hooked' if hooked else 'plain'}-{order}", memory)
            agent, model = clerk(steps_of(order))
            hooks = session.hooks() if hooked else None
            await Runner.run(agent, wish(order), session=session, hooks=hooks, run_config=session.recalling())
            shown.append(model.calls[0].system_instructions)
    return {"shown": shown, "lost": memory.lost, "refused": memory.refused}


async def fail() -> dict[str, Any]:
    """A tool that tells the model of its failure, one that ends the run, a model that fails, and a handoff."""
    raised = []
    with AgentMemory.of() as memory:
        session = HmxSession("failing", memory)
        told, told_model = clerk(
            [function_call("refund", {"id": "closed"}, call_id="c1"), assistant_message("It failed.")]
        )
        await Runner.run(told, wish("closed"), session=session, hooks=session.hooks(), run_config=session.recalling())
        other, _ = clerk([assistant_message("This is the bank.")])
        other.name = "bank"
        giving, _ = clerk([function_call("transfer_to_bank", {}, call_id="c3")], handoffs=[other])
        for agent in (
            clerk([function_call("cancel", {"id": "A7"}, call_id="c2")])[0],
            clerk([ValueError("no model")])[0],
            giving,
        ):
            try:
                await Runner.run(agent, "Go on", session=session, hooks=session.hooks())
            except Exception as error:  # noqa: BLE001
                raised.append(type(error).__name__)
        said = [call.system_instructions for call in told_model.calls]
    return {"raised": raised, "shown": said}


async def again() -> dict[str, Any]:
    """A run that is told twice under the same name, and the same conversation added to another session of its name."""
    with AgentMemory.of() as memory:
        for _ in range(2):
            config = RunConfig(trace_id="trace_" + "7" * 32)
            await Runner.run(
                clerk(steps_of("R1"))[0], wish("R1"), hooks=HmxHooks(memory, "again-live"), run_config=config
            )
            untraced = HmxHooks(memory, "again-untraced", run="job-1")
            config = RunConfig(tracing_disabled=True)
            await Runner.run(clerk(steps_of("R1"))[0], wish("R1"), hooks=untraced, run_config=config)
        streamed = HmxSession("streamed", memory)
        running = Runner.run_streamed(clerk(steps_of("R3"))[0], wish("R3"), session=streamed, hooks=streamed.hooks())
        async for _ in running.stream_events():
            pass
        first = HmxSession("again-kept", memory)
        await Runner.run(clerk(steps_of("R2"))[0], wish("R2"), session=first)
        await first.add_items([{"role": "user", "content": "Thanks"}, {"role": "user", "content": "Thanks"}])
        items = await first.get_items()
    with AgentMemory.of() as memory:  # which remembers nothing of what was told
        second = HmxSession("again-kept", memory)
        await second.add_items(items)
        popped = await second.pop_item()
        assert popped is not None
        await second.add_items([popped])
    return {"items": len(items)}


async def away() -> dict[str, Any]:
    memory = AgentMemory.of()
    session = HmxSession("away", memory)
    found = await Runner.run(
        clerk(steps_of("A1"))[0], wish("A1"), session=session, hooks=session.hooks(), run_config=session.recalling()
    )
    memory.close(0.2)
    await session.clear_session()
    return {"answer": found.final_output, "lost": memory.lost, "left": await session.get_items()}


@function_tool(name_override="refund")
async def refund_in_turn(id: str) -> list[Any]:  # noqa: A002
    if id == "closed":
        raise RuntimeError(FAILURE)
    await asyncio.sleep(0.1)  # goes on while the other has failed
    return [id, {"step": "done"}]


async def together() -> dict[str, Any]:
    """The model calls one tool twice at a time: the first call fails, the second gives a list."""
    asked = [function_call("refund", {"id": order}, call_id=order) for order in ("closed", "A7")]
    with AgentMemory.of() as memory:
        model = ScriptedModel([asked, [assistant_message("One failed.")]])
        agent = Agent(name="clerk", model=model, tools=[refund_in_turn])
        session = HmxSession("together", memory)
        found = await Runner.run(agent, "Refund both", session=session, hooks=session.hooks())
    return {"answer": found.final_output}


def ran(scenario: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any]:
    return asyncio.run(scenario)


play({
    "learn": lambda: ran(learn(hooked=True)), "learn plainly": lambda: ran(learn(hooked=False)),
    "fail": lambda: ran(fail()), "again": lambda: ran(again()), "away": lambda: ran(away()),
    "together": lambda: ran(together()),
})  # fmt: skip
