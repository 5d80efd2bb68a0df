"""The plugin in the real Claude Code, offline: its own checks, its hooks, the MCP server, and the transcript it wrote.

A model that follows a script stands in for the real one. The program is proprietary: tests need it, we never ship it.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.doors.claude_code_transcripts import ClaudeCodeImport
from hmx_pipeline.settings import Settings
from tests.support.memory import artifact, artifact_as_read, procedure
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import remembering, serving

pytestmark = [
    pytest.mark.frameworks,
    pytest.mark.skipif("HMX_CLAUDE_CODE" not in os.environ, reason="make test-claude-code fetches the program"),
]
PLUGIN = Path(__file__).parents[2] / "integrations" / "claude-code"
STEPS = ("ls /no-such-shop", "echo shipped")
Run = Callable[..., str]


class _Scripted(BaseHTTPRequestHandler):
    """Calls Bash with each of STEPS, then says that it is done; as the model's API streams it."""

    asked: list[str]

    def log_message(self, *_: Any) -> None: ...

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.asked.append(body)
        done, block, delta = body.count('"type":"tool_result"'), {}, {}
        if done < len(STEPS):
            block = {"type": "tool_use", "id": f"toolu_{done}", "name": "Bash", "input": {}}
            given = {"command": STEPS[done], "description": "a step"}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
        else:
            block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "The shop is shipped."}
        usage, reason = {"input_tokens": 1, "output_tokens": 1}, "tool_use" if done < len(STEPS) else "end_turn"
        begun = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": [], "usage": usage}
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        for name, data in (
            ("message_start", {"message": {**begun, "stop_reason": None, "stop_sequence": None}}),
            ("content_block_start", {"index": 0, "content_block": block}),
            ("content_block_delta", {"index": 0, "delta": delta}),
            ("content_block_stop", {"index": 0}),
            ("message_delta", {"delta": {"stop_reason": reason, "stop_sequence": None}, "usage": usage}),
            ("message_stop", {}),
        ):
            self.wfile.write(f"event: {name}\ndata: {json.dumps({'type': name, **data})}\n\n".encode())


@contextmanager
def scripted_model() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the bodies of the requests that reached it."""
    asked: list[str] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), type("Model", (_Scripted,), {"asked": asked})) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


@pytest.fixture
def settings(kafka: str, redis_url: str) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    known = artifact_as_read(artifact("a1", "Ship the shop", content=procedure("check namespace", "apply it")), 0)
    with remembering(made, [known]) as filled:
        yield filled


@pytest.fixture
def service(settings: Settings) -> Iterator[httpx.Client]:
    with serving(settings) as client:
        yield client


@pytest.fixture
def claude(service: httpx.Client, tmp_path: Path) -> Run:
    (program,) = Path(os.environ["HMX_CLAUDE_CODE"]).glob("node_modules/@anthropic-ai/claude-code-*/claude")
    server, home = tmp_path / "bin" / "hmx-mcp", tmp_path / "home"
    server.parent.mkdir()
    source = PLUGIN.parent / "mcp" / "src"
    server.write_text(f"#!/bin/sh\nPYTHONPATH='{source}' exec '{sys.executable}' -m hmx_mcp\n")
    server.chmod(0o755)
    for folder in (home, tmp_path / "shop"):
        folder.mkdir()
    known = {
        "PATH": f"{server.parent}{os.pathsep}{os.environ['PATH']}", "HOME": str(home), "ANTHROPIC_API_KEY": "none",
        "DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "HMX_TENANT": "acme",
        "HMX_SERVICE_URL": str(service.base_url).rstrip("/"),
    }  # fmt: skip

    def run(*words: str, **more: str) -> str:
        ran = subprocess.run(
            [program, *words], env={**known, **more}, cwd=tmp_path / "shop", text=True, capture_output=True, timeout=300
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


def test_claude_code_takes_the_plugin_and_what_it_does_reaches_memory_and_comes_back(
    claude: Run, settings: Settings, tmp_path: Path
) -> None:
    for manifest in (PLUGIN, PLUGIN / ".claude-plugin" / "plugin.json"):
        claude("plugin", "validate", "--strict", str(manifest))
    claude("plugin", "marketplace", "add", str(PLUGIN))
    claude("plugin", "install", "hmx-memory@hmx")
    parts = claude("plugin", "details", "hmx-memory@hmx")
    assert all(part in parts for part in ("Skills (1)  memory", "Hooks (11)", "MCP servers (1)  hmx"))
    assert "Connected" in claude("mcp", "list")
    with scripted_model() as (url, asked):
        said = claude("-p", "Ship the shop", "--allowedTools", "Bash", ANTHROPIC_BASE_URL=url)
    assert said.strip() == "The shop is shipped."
    assert "check namespace" in asked[0], "what memory knows stands in the first request"
    (transcript,) = (tmp_path / "home" / ".claude" / "projects").rglob("*.jsonl")
    kept = ClaudeCodeImport("acme").events((transcript.name, line) for line in transcript.read_bytes().splitlines())
    imported = [(event["event_type"], event["event_id"]) for event in kept]
    assert [kind for kind, _ in imported] == ["message", "command_exec", "command_exec", "message"]
    told = [(event["event_type"], event["event_id"]) for event in logged(settings, transcript.stem)]
    assert told == [*imported, ("x-claude_code-session.ended", told[-1][1])]
