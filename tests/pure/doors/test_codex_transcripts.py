"""Codex CLI's transcripts as events: every event is accepted, the same twice, and bad lines lose themselves alone."""

import json
from typing import Any

import orjson

from hmx_pipeline.doors.codex_transcripts import CodexImport
from hmx_pipeline.doors.draft import ImportReport
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.inprocess import artifacts_of

Events = list[dict[str, Any]]
PATCH = "*** Begin Patch\n*** Add File: a.py\n+x = 1\n*** Update File: b.py\n@@\n-y\n+z\n w\n*** End Patch\n"


class Rollout:
    """A transcript as Codex writes it."""

    def __init__(self, session: str = "s1", **meta: Any) -> None:
        self.lines: list[bytes] = []
        self.line("session_meta", {"id": session, "cwd": "/shop", "git": {"branch": "main"}, "source": "cli", **meta})

    def line(self, kind: str, payload: dict[str, Any]) -> None:
        second = len(self.lines)
        at = f"2026-03-14T09:{second // 60:02d}:{second % 60:02d}.000Z"
        self.lines.append(json.dumps({"timestamp": at, "type": kind, "payload": payload}).encode())

    def said(self, role: str, text: str, **more: Any) -> None:
        kind = "output_text" if role == "assistant" else "input_text"
        content = [{"type": kind, "text": text}]
        self.line("response_item", {"type": "message", "role": role, "content": content, **more})

    def called(self, name: str, given: Any, output: Any, call_id: str = "") -> None:
        call_id = call_id or f"c{len(self.lines)}"
        custom = isinstance(given, str)
        call = {"type": "custom_tool_call", "input": given} if custom else {"type": "function_call"}
        call |= {} if custom else {"arguments": json.dumps(given)}
        self.line("response_item", {**call, "name": name, "call_id": call_id})
        self.line("response_item", {"type": f"{call['type']}_output", "call_id": call_id, "output": output})

    def ran(self, command: str, output: str, code: int = 0) -> None:
        text = f"Chunk ID: 1\nWall time: 0.3 seconds\nProcess exited with code {code}\nOutput:\n{output}"
        self.called("exec_command", {"cmd": command}, text)

    def ended(self, kind: str = "task_complete") -> None:
        self.line("event_msg", {"type": kind, "turn_id": f"t{len(self.lines)}"})


def imported(*files: Rollout | list[bytes]) -> tuple[Events, ImportReport]:
    importing = CodexImport("acme")
    lines = [file.lines if isinstance(file, Rollout) else file for file in files]
    events = list(importing.events((f"{n}.jsonl", line) for n, file in enumerate(lines) for line in file))
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    return events, importing.report


def contents(*files: Rollout) -> list[tuple[str, dict[str, Any]]]:
    return [(event["event_type"], event["content"]) for event in imported(*files)[0]]


def mended(session: str = "s1") -> Rollout:
    made = Rollout(session)
    made.said("user", "<environment_context>\n  <cwd>/shop</cwd>\n</environment_context>")
    made.said("user", "# AGENTS.md instructions for /shop\n\n<INSTRUCTIONS>\nBe brief.\n</INSTRUCTIONS>")
    made.said("user", "Run the tests of the shop")
    made.said("assistant", "I run them.")
    made.ran("npm test", "Error: Cannot find module 'left-pad'\n1 failed", 1)
    made.ran("npm install --save left-pad", "added 1 package")
    made.ran("npm test", "12 passed")
    made.said("assistant", "They pass.")
    made.ended()
    made.said("user", "Thanks, that works perfectly")
    return made


def test_a_session_becomes_what_was_said_and_done() -> None:
    assert [(kind, content.get("text") or content.get("command")) for kind, content in contents(mended())] == [
        ("message", "Run the tests of the shop"),
        ("test_run", "npm test"),
        ("command_exec", "npm install --save left-pad"),
        ("test_run", "npm test"),
        ("message", "They pass."),
        ("message", "Thanks, that works perfectly"),
    ]
    events, report = imported(mended())
    assert {(e["agent_id"], e["metadata"]["branch"]) for e in events} == {("codex", "main")}
    assert report.left_out["texts that nobody said"] == 2
    assert report.left_out["words of the assistant between its calls"] == 1


def test_what_helped_is_learnt() -> None:
    events, _ = imported(*(mended(f"s{number}") for number in range(4)))
    assert "left-pad" in str([one for one in artifacts_of(events) if one["artifact_type"] == "failure_playbook"])


def test_a_transcript_imported_half_and_then_whole_adds_only_what_is_new() -> None:
    made = mended()
    made.called("exec_command", {"cmd": "make"}, "Process running with session ID 7\nOutput:\nbegun\n")
    made.called("write_stdin", {"session_id": 7, "chars": ""}, "Process exited with code 2\nOutput:\nbroken\n")
    whole, _ = imported(made)
    assert whole[-1]["content"] | {"output": ""} == {"command": "make", "exit_code": 2, "success": False, "output": ""}
    assert whole[-1]["content"]["output"] == "begun\nbroken\n"
    for half in range(len(made.lines)):
        begun, _ = imported(made.lines[:half])
        assert begun == whole[: len(begun)]


def test_commands_of_all_versions_say_how_they_ended() -> None:
    made = Rollout()
    told = json.dumps({"output": "no\n", "metadata": {"exit_code": 3, "duration_seconds": 0.1}})
    made.called("shell", {"command": ["bash", "-lc", "cd x && ls"]}, told)
    made.called("shell_command", {"command": "ls"}, "Exit code: 0\nWall time: 0.1 seconds\nOutput:\nyes\n")
    made.called("shell", {"command": ["ls", "a b"]}, "failed to spawn")
    found = [(c["command"], c["exit_code"], c["output"]) for _, c in contents(made)]
    assert found == [("cd x && ls", 3, "no\n"), ("ls", 0, "yes\n"), ("ls 'a b'", 1, "failed to spawn")]


def test_a_patch_is_an_edit_of_each_file_however_it_was_sent() -> None:
    made = Rollout()
    done = "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess. Updated the following files:\nA a.py\nM b.py\n"
    made.called("apply_patch", PATCH, done)
    made.called("exec_command", {"cmd": f"apply_patch <<'EOF'\n{PATCH}EOF"}, "apply_patch verification failed: no b.py")
    events, _ = imported(made)
    assert len({event["event_id"] for event in events}) == 4
    assert [(c["path"], c["operation"], c["success"]) for c in (event["content"] for event in events)] == [
        ("a.py", "create", True), ("b.py", "modify", True), ("a.py", "create", False), ("b.py", "modify", False),
    ]  # fmt: skip
    assert (events[1]["content"]["old_text"], events[1]["content"]["new_text"]) == ("y\nw", "z\nw")


def test_refusals_interruptions_and_compactions_are_events() -> None:
    made = Rollout()
    made.called("exec_command", {"cmd": "rm -rf /"}, "exec command rejected by user")
    made.ended("turn_aborted")
    made.line("compacted", {"message": ""})
    refused, aborted, compacted = imported(made)[0]
    assert refused["metadata"]["rejected_command"] == "rm -rf /"
    assert [one["content"].get("signal") for one in (refused, aborted)] == ["negative", "negative"]
    assert compacted["event_type"] == "x-codex-compaction.completed"


def test_other_tools_become_calls_with_their_results() -> None:
    made = Rollout(source={"subagent": "review"})
    made.called("create_issue", {"title": "x"}, [{"type": "input_text", "text": "made"}])
    made.called("broken", {"a": 1}, json.dumps({"content": [{"type": "text", "text": "no"}], "isError": True}))
    events, _ = imported(made)
    results = [event["content"] for event in events if event["event_type"] == "tool_result"]
    assert [(one["result"]["text"], one["success"]) for one in results] == [("made", True), ("no", False)]
    assert {event["agent_id"] for event in events} == {"codex-subagent"}


def test_a_fork_gives_only_what_its_parent_has_not() -> None:
    parent, fork = Rollout("parent"), Rollout("fork", forked_from_id="parent")
    for made in (parent, fork):
        made.said("user", "Run the tests", id="msg_01a21966-f106-7f80-9d5a-6cf80285a2b1")
    fork.said("user", "Now lint", id="msg_01a21966-f106-7f80-9d5a-6d03163bf9e8")
    events, report = imported(parent, fork)
    assert [event["content"]["text"] for event in events] == ["Run the tests", "Now lint"]
    assert report.left_out["lines copied from another transcript"] == 1


def test_a_line_that_cannot_be_read_is_named_and_loses_nothing_else() -> None:
    lines = mended().lines
    bad = [b'{"timestamp": "cut', b"[1, 2]", b'{"type": "response_item", "payload": {}, "timestamp": "yesterday"}']
    mixed = [lines[0], *(line for pair in zip(bad, lines[1:], strict=False) for line in pair), *lines[len(bad) + 1 :]]
    found, report = imported(mixed)
    assert found == imported(lines)[0]
    assert len(report.unreadable) == report.left_out["lines that cannot be read"] == len(bad)
    assert report.unreadable[0].startswith("0.jsonl:2: no JSON")
    nothing, lost = imported(lines[1:])
    assert nothing == []
    assert lost.left_out["lines that cannot be read"] == len(lines) - 1
