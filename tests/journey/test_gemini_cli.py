"""The real Gemini CLI on a stub of its model: what it writes down is imported, whole and twice the same."""

import json
import os
import shutil
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hmx_pipeline.doors.gemini_transcripts import GeminiImport

GEMINI = shutil.which("gemini")
CALLS: list[tuple[str, dict[str, Any]]] = [
    ("run_shell_command", {"command": "sh -c 'echo broken; exit 3'"}),
    ("write_file", {"file_path": "shop.py", "content": "x = 1\n"}),
    ("replace", {"file_path": "shop.py", "old_string": "x = 1", "new_string": "x = 2", "instruction": "Mend it"}),
    ("run_shell_command", {"command": "echo works"}),
]
SETTINGS = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}


@pytest.fixture
def model() -> Iterator[int]:
    """The port of a model that asks for one call after the other, then answers."""

    class Model(BaseHTTPRequestHandler):
        def log_message(self, *_: Any) -> None: ...

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            parts = [part for content in asked["contents"] for part in content["parts"]]
            done = sum("functionResponse" in part for part in parts)
            said: Any = {"text": "It works."}
            if done < len(CALLS):
                said = {"functionCall": {"name": CALLS[done][0], "args": CALLS[done][1]}}
            usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
            candidate = {"content": {"role": "model", "parts": [said]}, "finishReason": "STOP", "index": 0}
            body = json.dumps({"candidates": [candidate], "usageMetadata": usage})
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.end_headers()
            self.wfile.write(f"data: {body}\n\n".encode())

    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.skipif(GEMINI is None, reason="needs gemini on the path: npm install --global @google/gemini-cli")
def test_what_the_gemini_cli_writes_down_is_imported(model: int, tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    (home / ".gemini").mkdir(parents=True)
    work.mkdir()
    (home / ".gemini" / "settings.json").write_text(json.dumps(SETTINGS))
    env = {
        "PATH": os.environ["PATH"], "HOME": str(home), "GEMINI_API_KEY": "none", "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{model}",
    }  # fmt: skip
    asked = [str(GEMINI), "--yolo", "-m", "gemini-2.5-flash", "-p", "Mend the shop"]
    subprocess.run(asked, cwd=work, env=env, stdin=subprocess.DEVNULL, check=True, timeout=120)
    (file,) = (home / ".gemini" / "tmp").rglob("chats/session-*")
    lines = [(str(file), line) for line in file.read_bytes().splitlines()]
    importing = GeminiImport("acme")
    events = list(importing.events(lines))
    assert [(event["event_type"], event["content"].get("success")) for event in events] == [
        ("message", None), ("command_exec", False), ("file_edit", True), ("file_edit", True), ("command_exec", True),
        ("message", None),
    ]  # fmt: skip
    assert events[0]["content"]["text"] == "Mend the shop"
    assert (events[1]["content"]["exit_code"], events[1]["content"]["output"]) == (3, "broken")
    assert events[4]["content"]["output"] == "works"
    assert list(GeminiImport("acme").events(lines)) == events
    assert importing.report.unreadable == []
