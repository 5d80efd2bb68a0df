"""Agents of several frameworks, as their own packages make them, and the inspector of MCP, on a real service.

Each runs in an environment of its own below HMX_FRAMEWORKS, since frameworks need other versions than the pipeline.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.settings import Settings
from tests.frameworks.shop import FAILURE, ORDERS, answer, calls, result, wish
from tests.support.inprocess import learnt
from tests.support.memory import artifact, artifact_as_read, procedure
from tests.support.model_server import answering
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import remembering, serving

pytestmark = pytest.mark.frameworks
HERE, INTEGRATIONS = Path(__file__).parent, Path(__file__).parents[2] / "integrations"
NOTE = "The lines that begin with `> ` are memory"
PROGRAMS = ("with_openai_agents", "with_pydantic_ai", "with_crewai")
program = pytest.mark.parametrize("program", PROGRAMS)
SDKS = ("ai", "ai-next")
_PACKAGES = {"with_crewai": "crewai", "with_otel": "otel"}


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    known = artifact_as_read(artifact("a1", "Refund order", content=procedure("check namespace", "apply it")), 0)
    with remembering(made, [known]) as filled:
        yield filled


@pytest.fixture
def service(settings: Settings) -> Iterator[httpx.Client]:
    with serving(settings) as client:
        yield client


def environment(folder: Path, url: object, **more: str) -> dict[str, str]:
    """What an agent's process knows: where its packages and the adapters are, and the service."""
    sources = [str(path) for path in sorted(INTEGRATIONS.glob("*/src"))]
    own = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join([str(HERE), *sources, str(folder)])}
    quiet = {"CREWAI_DISABLE_TELEMETRY": "true", "OTEL_SDK_DISABLED": "true", "HOME": str(folder / "home")}
    return {**own, **quiet, "HMX_SERVICE_URL": str(url), "HMX_TENANT": "acme", **more}


def played(name: str, scenario: str, url: object, **more: str) -> dict[str, Any]:
    folder = Path(os.environ["HMX_FRAMEWORKS"]) / _PACKAGES.get(name, "agents")
    command = [sys.executable, "-S", HERE / f"{name}.py", scenario]  # -S: without the packages of the pipeline
    ran = subprocess.run(command, env=environment(folder, url, **more), text=True, capture_output=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def kinds(events: list[dict[str, Any]]) -> list[str]:
    return [event["event_type"] for event in events]


def told_by_itself(order: str, session: str) -> Iterator[dict[str, Any]]:
    """What an agent that knows HMX tells of a run."""
    contents: list[tuple[str, Mapping[str, Any]]] = [("message", {"role": "user", "text": wish(order)})]
    for call_id, name, given in calls(order):
        named = {"tool_name": name, "call_id": call_id}
        contents.append(("tool_call", {**named, "arguments": given}))
        contents.append(("tool_result", {**named, "result": result(order), "success": True}))
    contents.append(("message", {"role": "assistant", "text": answer(order)}))
    for sequence, (kind, content) in enumerate(contents):
        yield {
            "hmx_version": "HMX-1.0", "event_id": f"{session}-{sequence}", "event_type": kind, "agent_id": "clerk",
            "tenant_id": "acme", "session_id": session, "timestamp": "2026-03-14T09:00:00Z", "sequence": sequence,
            "content": content, "metadata": {},
        }  # fmt: skip


EXPECTED = learnt(event for order in ORDERS for event in told_by_itself(order, order))
WHOLE = ["message", *["tool_call", "tool_result"] * 3, "message"]


def teaches_what_its_own_events_would(settings: Settings, prefix: str) -> None:
    sessions = [logged(settings, f"{prefix}-{order}") for order in ORDERS]
    assert [kinds(events) for events in sessions] == [WHOLE] * len(ORDERS)
    assert {event["tenant_id"] for events in sessions for event in events} == {"acme"}
    assert any(kind == "task_schema" for kind, _ in EXPECTED)
    assert learnt(event for events in sessions for event in events) == EXPECTED


@pytest.mark.parametrize(
    ("program", "scenario", "prefix"),
    [
        ("with_openai_agents", "learn", "hooked"),
        ("with_openai_agents", "learn plainly", "plain"),
        ("with_pydantic_ai", "learn", "pydantic"),
        ("with_crewai", "learn", "crewai"),
    ],
)
def test_an_agent_has_memory_marked_as_data_and_teaches_what_its_own_events_would(
    service: httpx.Client, settings: Settings, program: str, scenario: str, prefix: str
) -> None:
    found = played(program, scenario, service.base_url)
    assert (found["lost"], found["refused"]) == (0, 0)
    for shown in found["shown"]:
        assert NOTE in shown
        assert "> [hmx]" in shown
        assert "check namespace" in shown
    teaches_what_its_own_events_would(settings, prefix)


def model_says(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """One step after the other, then that it is done."""
    (order,) = (one["content"].split()[-1] for one in messages if one["role"] == "user")
    done = sum(one["role"] == "assistant" for one in messages)
    asked = [
        {"id": call, "type": "function", "function": {"name": name, "arguments": json.dumps(given)}}
        for call, name, given in calls(order)
    ]
    return {"content": None, "tool_calls": [asked[done]]} if done < len(asked) else {"content": answer(order)}


@pytest.mark.parametrize("scenario", ["agents-sdk", "langgraph", "openllmetry", "pydantic-ai"])
def test_an_agent_that_only_exports_spans_teaches_what_its_own_events_would(
    service: httpx.Client, settings: Settings, scenario: str
) -> None:
    with answering(model_says) as url:
        played("with_otel", scenario, service.base_url, HMX_MODEL=url, OTEL_SDK_DISABLED="false")
    teaches_what_its_own_events_would(settings, scenario)


@program
def test_failures_are_told_and_reach_the_agent_unchanged(
    service: httpx.Client, settings: Settings, program: str
) -> None:
    found = played(program, "fail", service.base_url)
    events = logged(settings, "failing")
    ended = [event["content"] for event in events if event["event_type"] == "tool_result"]
    errors = [event["content"]["message"] for event in events if event["event_type"] == "error"]
    assert [content["success"] for content in ended] == [False] * len(ended)
    assert "no model" in errors
    if program == "with_crewai":
        assert (found["raised"], len(ended)) == (["ValueError"], 1)
        assert ended[0]["result"] == {"text": FAILURE}
        return
    assert len(ended) == 2, "the tool that told its model, and the one that ended the run"
    assert FAILURE in ended[1]["result"]["text"]
    assert ended[1]["call_id"] == "c2"
    assert found["raised"][-1] == "ValueError"
    if program == "with_openai_agents":
        (handoff,) = [event["content"] for event in events if event["event_type"] == "x-agents-handoff"]
        assert (handoff["from_agent"], handoff["to_agent"]) == ("clerk", "bank")


def test_each_of_two_calls_at_a_time_has_its_own_result(service: httpx.Client, settings: Settings) -> None:
    played("with_openai_agents", "together", service.base_url)
    ended = [event["content"] for event in logged(settings, "together") if event["event_type"] == "tool_result"]
    assert [(one["call_id"], one["tool_name"], one["success"]) for one in ended] == [
        ("closed", "refund", False), ("A7", "refund", True),
    ]  # fmt: skip
    assert ended[1]["result"] == {"text": "A7"}


def test_what_is_told_again_adds_nothing(service: httpx.Client, settings: Settings) -> None:
    played("with_openai_agents", "again", service.base_url)
    for session in ("again-live", "again-untraced", "streamed"):
        assert kinds(logged(settings, session)) == WHOLE
    assert kinds(logged(settings, "again-kept")) == [*WHOLE, "message", "message"], "thanked twice, told twice once"


def test_a_history_adds_nothing_to_what_was_told_live(service: httpx.Client, settings: Settings) -> None:
    played("with_pydantic_ai", "again", service.base_url)
    assert kinds(logged(settings, "again-live")) == [*WHOLE, "message", "message"]


def test_facts_of_a_crew_are_told_once_and_by_its_own_memory_alone(service: httpx.Client, settings: Settings) -> None:
    found = played("with_crewai", "again", service.base_url)
    texts = [event["content"]["text"] for event in logged(settings, "again-live")]
    assert texts == ["The bank is closed on Sundays.", "Refunds take a day."]
    assert kinds(logged(settings, "another")) == ["message", "message"]
    assert "deletes nothing" in found["refused"]


@program
def test_without_the_service_an_agent_works_and_what_is_lost_is_counted(program: str) -> None:
    found = played(program, "away", "http://127.0.0.1:1")
    assert found["answer"] == answer("A1")
    assert found["lost"] == len(WHOLE)


def test_the_inspector_of_mcp_sees_what_is_offered_and_calls_it(service: httpx.Client) -> None:
    packages = Path(os.environ["HMX_FRAMEWORKS"]) / "vercel-ai" / "node_modules"

    def asked(method: str, *words: str) -> dict[str, Any]:
        program = packages / "@modelcontextprotocol" / "inspector-cli" / "build" / "index.js"
        ran = subprocess.run(
            ["node", program, sys.executable, "-m", "hmx_mcp", "--method", method, *words],
            env=environment(packages, service.base_url), capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stdout + ran.stderr
        found: dict[str, Any] = json.loads(ran.stdout)
        return found

    tools = asked("tools/list")["tools"]
    assert tools[0]["name"] == "memory_pack"
    assert all(tool["title"] and tool["outputSchema"] and tool["annotations"] for tool in tools)
    called = asked("tools/call", "--tool-name", "memory_pack", "--tool-arg", "query=Refund order A1")
    assert called["content"][0]["text"].startswith(NOTE)
    assert "check namespace" in called["content"][0]["text"]
    assert [one["uri"] for one in asked("resources/list")["resources"]] == ["hmx://rules"]
    assert asked("resources/read", "--uri", "hmx:a1")["contents"][0]["text"].startswith(NOTE)
    given = ("--prompt-name", "start_task", "--prompt-args", "goal=Refund order A1")
    assert "check namespace" in asked("prompts/get", *given)["messages"][0]["content"]["text"]


@pytest.mark.parametrize("sdk", SDKS)
def test_middleware_of_the_vercel_ai_sdk(service: httpx.Client, settings: Settings, sdk: str, tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(Path(os.environ["HMX_FRAMEWORKS"]) / "vercel-ai" / "node_modules")
    (tmp_path / "vercel.test.mjs").write_bytes((HERE / "vercel.test.mjs").read_bytes())
    adapter = INTEGRATIONS / "javascript" / "vercel-ai.js"
    ran = subprocess.run(
        ["node", "--test", "--test-reporter=spec", tmp_path / "vercel.test.mjs"],
        env={**environment(tmp_path, service.base_url), "HMX_AI": sdk, "HMX_ADAPTER": adapter.as_uri()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    teaches_what_its_own_events_would(settings, sdk)
    failing = logged(settings, f"{sdk}-failing")
    assert kinds(failing) == ["message", "tool_call", "tool_result", "message", "message", "error"]
    assert failing[2]["content"]["success"] is False
    assert FAILURE in failing[2]["content"]["result"]["text"]
    streamed = [event["content"]["text"] for event in logged(settings, f"{sdk}-stream")]
    assert streamed == ["Hello", "Good day."]
    assert kinds(logged(settings, f"{sdk}-again")) == ["message"] * 4
