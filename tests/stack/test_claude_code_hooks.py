"""Claude Code's hooks against the service on a real Kafka and Redis, and the plugin's script against both."""

import json
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

from hmx_pipeline.service import hook_routes
from hmx_pipeline.service.hook_routes import APPENDED
from hmx_pipeline.settings import Settings
from tests.support.memory import artifact, artifact_as_read, procedure
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import remembering, serving
from tests.support.waiting import PATIENCE_S

PLUGIN = Path(__file__).parents[2] / "integrations" / "claude-code"
ROUTE = "/v1/hooks/claude-code"
ACME = {"X-HMX-Tenant": "acme"}
CALL = {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "tool_use_id": "toolu_1"}
PATIENT = {"X-HMX-Deadline-Ms": "30000"}


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Iterator[Settings]:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    known = artifact_as_read(artifact("a1", "Deploy staging", content=procedure("check namespace", "apply it")), 0)
    with remembering(made, [known]) as filled:
        yield filled


def hook(name: str, session: str, **fields: Any) -> dict[str, Any]:
    return {"hook_event_name": name, "session_id": session, "cwd": "/home/dev/shop", **fields}


def post(service: httpx.Client, fields: dict[str, Any], **headers: str) -> httpx.Response:
    said = {name.replace("_", "-"): value for name, value in headers.items()}
    return service.post(ROUTE, json=fields, headers={**ACME, **PATIENT, **said})


def test_a_prompt_is_appended_and_answered_with_memory_in_the_hooks_form(
    service: httpx.Client, settings: Settings
) -> None:
    answer = post(service, hook("UserPromptSubmit", "s1", prompt="deploy staging"), X_HMX_Delivery="d1")
    assert (answer.status_code, answer.headers[APPENDED]) == (200, "yes")
    said = answer.json()["hookSpecificOutput"]
    assert said["hookEventName"] == "UserPromptSubmit"
    assert "check namespace" in said["additionalContext"]
    (event,) = logged(settings, "s1")
    assert (event["event_type"], event["content"]["text"]) == ("message", "deploy staging")
    assert (event["tenant_id"], event["agent_id"]) == ("acme", "claude-code")


def test_a_hook_sent_twice_is_one_event(service: httpx.Client, settings: Settings) -> None:
    done = hook("PostToolUse", "s2", **CALL, tool_response={"stdout": "12 passed", "stderr": ""})
    assert [post(service, done).headers[APPENDED] for _ in range(2)] == ["yes", "duplicate"]
    (event,) = logged(settings, "s2")
    assert (event["event_type"], event["content"]["output"]) == ("test_run", "12 passed")


def test_a_hook_that_is_not_known_is_answered_empty_and_counted(service: httpx.Client) -> None:
    before = counted(service, 'hook="unknown"')
    answer = post(service, hook("HologramShown", "s3"))
    assert (answer.status_code, answer.json(), answer.headers[APPENDED]) == (200, {}, "none")
    assert counted(service, 'hook="unknown"') == before + 1


def counted(service: httpx.Client, label: str) -> float:
    lines = [line for line in service.get("/metrics").text.splitlines() if line.startswith("hmx_http_hooks_total")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if label in line)


def test_an_event_that_intake_refuses_is_said_to_be(service: httpx.Client) -> None:
    answer = post(service, hook("Stop", "s" * 600, last_assistant_message="Done."))
    assert (answer.status_code, answer.headers[APPENDED]) == (200, "rejected")


@pytest.mark.parametrize("body", [b"", b"[]", b'"x"', b'{"session_id": "s"}', b'{"hook_event_name": "Stop'])
def test_what_is_no_hook_is_a_problem(service: httpx.Client, body: bytes) -> None:
    headers = {**ACME, "Content-Type": "application/json"}
    assert service.post(ROUTE, content=body, headers=headers).json()["error"]["code"] == "validation_error"


def test_it_answers_empty_rather_than_late(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    free = threading.Event()

    def held(*_: Any) -> Any:
        free.wait(PATIENCE_S)
        raise AssertionError("nobody waits for it")

    monkeypatch.setattr(hook_routes, "make_pack", held)
    try:
        answer = post(service, hook("PreToolUse", "s4", **CALL), X_HMX_Deadline_Ms="20")
        assert (answer.status_code, answer.json()) == (200, {})
    finally:
        free.set()


def test_without_kafka_a_hook_is_answered_in_time_and_asks_to_be_sent_again(redis_url: str) -> None:
    with serving(new_settings("127.0.0.1:1", redis_url)) as away:
        answer = post(away, hook("Stop", "s5", last_assistant_message="Done."), X_HMX_Deadline_Ms="50")
    assert (answer.status_code, answer.json(), answer.headers[APPENDED]) == (200, {}, "pending")


def run_script(spool: Path, url: str, mode: str, fields: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    named = {"HMX_SERVICE_URL": url, "HMX_TENANT": "acme", "HMX_SPOOL": str(spool)}
    return subprocess.run(
        [PLUGIN / "hooks" / "hmx-hook", mode, "20000"],
        input=json.dumps(fields), env={"PATH": os.environ["PATH"], **named}, capture_output=True, text=True,
        timeout=60,
    )  # fmt: skip


needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="the plugin's script needs curl")


@needs_curl
def test_the_script_keeps_what_it_cannot_deliver_and_sends_it_when_the_service_is_back(
    service: httpx.Client, settings: Settings, tmp_path: Path
) -> None:
    spool = tmp_path / "spool"
    for number in range(9):
        ran = run_script(spool, "http://127.0.0.1:1", "tell", hook("UserPromptSubmit", "s6", prompt=f"go on {number}"))
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert len(list(spool.glob("*.json"))) == 9
    assert spool.stat().st_mode & 0o077 == 0
    ran = run_script(spool, str(service.base_url), "tell", hook("UserPromptSubmit", "s6", prompt="deploy staging"))
    assert "check namespace" in json.loads(ran.stdout)["hookSpecificOutput"]["additionalContext"]
    deadline = time.monotonic() + PATIENCE_S
    while list(spool.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(spool.iterdir()) == []
    said = [event["content"]["text"] for event in logged(settings, "s6")]
    assert said == ["deploy staging", *(f"go on {number}" for number in range(9))]


@needs_curl
def test_the_script_has_answered_while_what_waited_is_still_being_sent(tmp_path: Path) -> None:
    spool, free, first, again = tmp_path / "spool", threading.Event(), threading.Event(), threading.Event()

    class Service(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            if first.is_set():
                again.set()
                free.wait(PATIENCE_S)
            first.set()
            self.send_response(200)
            self.send_header(APPENDED, "yes")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None: ...

    run_script(spool, "http://127.0.0.1:1", "tell", hook("Stop", "s8"))
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            run_script(spool, f"http://127.0.0.1:{server.server_port}", "tell", hook("Stop", "s8"))
            assert again.wait(PATIENCE_S)
            assert (spool / "lock").exists()
        finally:
            free.set()
            server.shutdown()


@needs_curl
def test_the_script_keeps_no_question_and_never_fails(tmp_path: Path) -> None:
    ran = run_script(tmp_path / "spool", "http://127.0.0.1:1", "ask", hook("PreToolUse", "s7", **CALL))
    assert (ran.returncode, ran.stdout, ran.stderr, list((tmp_path / "spool").iterdir())) == (0, "", "", [])
    (tmp_path / "file").touch()
    ran = run_script(tmp_path / "file" / "spool", "http://127.0.0.1:1", "tell", hook("Stop", "s7"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_the_script_ends_though_no_event_is_what_fills_its_folder(tmp_path: Path) -> None:
    with (tmp_path / "killed.ask").open("wb") as left:
        os.posix_fallocate(left.fileno(), 0, 140_000_000)
    ran = run_script(tmp_path, "http://127.0.0.1:1", "tell", hook("Stop", "s9"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")


def test_every_hook_of_the_plugin_runs_the_script_and_is_one_that_the_service_maps() -> None:
    hooks = json.loads((PLUGIN / "hooks" / "hooks.json").read_text())["hooks"]
    assert set(hooks) <= set(hook_routes.HOOKS)
    for name, groups in hooks.items():
        for one in (one for group in groups for one in group["hooks"]):
            script, mode, _ = one["command"].rsplit(" ", 2)
            assert (script, one["type"]) == ('"${CLAUDE_PLUGIN_ROOT}/hooks/hmx-hook"', "command")
            assert (mode == "tell") is (hook_routes.HOOKS[name].tells is not None)
