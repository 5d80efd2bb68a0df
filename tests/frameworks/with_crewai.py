"""A shop's clerk made with CrewAI."""

import contextlib
import json
import sys
from typing import Any

from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import BaseTool
from hmx_crewai import HmxCrewMemory
from pydantic import Field
from shop import FAILURE, ORDERS, answer, calls, play, result, wish

from hmx_client import AgentMemory


class ScriptedLlm(BaseLLM):
    steps: list[Any]
    seen: list[str] = Field(default_factory=list)

    def call(self, messages: Any, *_: Any, **__: Any) -> str:
        self.seen.append(json.dumps(messages))
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return str(step)

    def supports_function_calling(self) -> bool:
        return False


class ShopTool(BaseTool):
    description: str = "A step of the shop."

    def _run(self, id: str) -> dict[str, Any]:  # noqa: A002
        if id == "closed":
            raise RuntimeError(FAILURE)
        return result(id)


def act(name: str, given: dict[str, str]) -> str:
    return f"Thought: next\nAction: {name}\nAction Input: {json.dumps(given)}"


def final(text: str) -> str:
    return f"Thought: done\nFinal Answer: {text}"


def crew(memory: HmxCrewMemory, asked: str, steps: list[Any]) -> tuple[Crew, ScriptedLlm]:
    llm = ScriptedLlm(model="stub", steps=steps)
    tools = [ShopTool(name=name) for _, name, _ in calls("")]
    agent = Agent(role="clerk", goal="help", backstory="A clerk.", llm=llm, tools=tools, max_retry_limit=0)
    task = Task(description=asked, expected_output="done", agent=agent)
    return Crew(agents=[agent], tasks=[task], memory=memory), llm


def steps_of(order: str) -> list[Any]:
    return [*(act(name, given) for _, name, given in calls(order)), final(answer(order))]


def learn() -> dict[str, Any]:
    shown = []
    with AgentMemory.of() as memory:
        for order in ORDERS:
            working, llm = crew(HmxCrewMemory(memory, f"crewai-{order}"), wish(order), steps_of(order))
            working.kickoff()
            shown.append(llm.seen[0])
    return {"shown": shown, "lost": memory.lost, "refused": memory.refused}


def fail() -> dict[str, Any]:
    raised = []
    with AgentMemory.of() as memory:
        kept = HmxCrewMemory(memory, "failing")
        crew(kept, wish("closed"), [act("refund", {"id": "closed"}), final("It failed.")])[0].kickoff()
        try:
            crew(kept, "Go on", [ValueError("no model")] * 4)[0].kickoff()
        except Exception as error:  # noqa: BLE001
            raised.append(type(error).__name__)
    return {"raised": raised}


def again() -> dict[str, Any]:
    """A fact that is remembered twice; a crew that has another memory tells this one nothing."""
    with AgentMemory.of() as memory:
        kept = HmxCrewMemory(memory, "again-live")
        for _ in range(2):
            kept.remember("The bank is closed on Sundays.")
        kept.remember_many(["The bank is closed on Sundays.", "Refunds take a day."])
        other, _ = crew(HmxCrewMemory(memory, "another"), "Say hello", [final("Hello.")])
        other.kickoff()
        refused = ""
        try:
            kept.forget("/")
        except ValueError as error:
            refused = str(error)
    return {"refused": refused}


def away() -> dict[str, Any]:
    memory = AgentMemory.of()
    working, _ = crew(HmxCrewMemory(memory, "away"), wish("A1"), steps_of("A1"))
    found = working.kickoff()
    memory.close(0.2)
    return {"answer": found.raw, "lost": memory.lost}


with contextlib.redirect_stdout(sys.stderr):  # CrewAI prints as it works
    scenario = {"learn": learn, "fail": fail, "again": again, "away": away}[sys.argv[1]]()
play({sys.argv[1]: lambda: scenario})
