"""The real Codex CLI on a stub of its model: what it writes down is imported, whole and twice the same."""

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.doors.codex_transcripts import CodexImport

CODEX = shutil.which("codex")
PATCH = "apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: shop.py\n+x = 1\n*** End Patch\nEOF"
COMMANDS = ("sh -c 'echo broken; exit 3'", PATCH, "echo works")
CONFIG = """model = "stub"
model_provider = "stub"
[model_providers.stub]
name = "stub"
base_url = "http://127.0.0.1:{port}/v1"
wire_api = "responses"
"""


@pytest.fixture
def model() -> Iterator[int]:
    """The port of a model that asks for one command after the other, then answers."""
    calls = [
        {"type": "function_call", "name": "exec_command", "arguments": json.dumps({"cmd": command}), "call_id": f"c{n}"}
        for n, command in enumerate(COMMANDS)
    ]
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "It works."}]}
    items: list[Any] = [*calls, answer]

    class Responses(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
            for event in (
                {"type": "response.created", "response": {"id": "r"}},
                {"type": "response.output_item.done", "output_index": 0, "item": items.pop(0) if items else answer},
                {"type": "response.completed", "response": {"id": "r", "usage": usage}},
            ):
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())

    with HTTPServer(("127.0.0.1", 0), Responses) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.skipif(CODEX is None, reason="needs codex on the path: npm install --global @openai/codex")
def test_what_codex_writes_down_is_imported(model: int, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text(CONFIG.format(port=model))
    asked = [str(CODEX), "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Mend the shop"]
    env = {**os.environ, "CODEX_HOME": str(tmp_path / "home")}
    subprocess.run(asked, cwd=tmp_path, env=env, stdin=subprocess.DEVNULL, check=True, timeout=120)
    (file,) = (tmp_path / "home" / "sessions").rglob("*.jsonl")
    lines = [(str(file), line) for line in file.read_bytes().splitlines()]
    importing = CodexImport("acme")
    events = list(importing.events(lines))
    assert [(event["event_type"], event["content"].get("success")) for event in events] == [
        ("message", None), ("command_exec", False), ("file_edit", True), ("command_exec", True), ("message", None),
    ]  # fmt: skip
    assert events[1]["content"] | {"exit_code": 3, "output": "broken\n"} == events[1]["content"]
    assert events[2]["content"]["path"] == "shop.py"
    assert list(CodexImport("acme").events(lines)) == events
    assert importing.report.unreadable == []
    told = subprocess.run(
        [sys.executable, "-m", "hmx_pipeline.cli", "import", "codex", str(tmp_path / "home"), "--dry-run", "--json"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert sum(json.loads(told.stdout)["events"].values()) == len(events)
