"""Gemini CLI's sessions as events: every event is accepted, the same twice, and bad lines lose themselves alone."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.doors.draft import ImportReport
from hmx_pipeline.doors.gemini_transcripts import GeminiImport
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.inprocess import artifacts_of

Json = dict[str, Any]


class Chat:
    """A session as Gemini CLI writes it."""

    def __init__(self, session: str = "0b6ae5ab-54c6-4d5c-9e53-5d5a6f4a7a10", **about: Any) -> None:
        self.about = {"sessionId": session, "projectHash": "ab12", "startTime": "2026-03-14T09:00:00.000Z", **about}
        self.messages: list[Json] = []

    def say(self, kind: str, content: Any, **more: Any) -> Json:
        number = len(self.messages)
        at = f"2026-03-14T09:{number // 60:02d}:{number % 60:02d}.000Z"
        self.messages.append({"id": f"m{number}", "timestamp": at, "type": kind, "content": content, **more})
        return self.messages[-1]

    def call(self, name: str, args: Json, output: str, status: str = "success", words: str = "") -> None:
        response = {"output": output} if status == "success" else {"error": output}
        result = [{"functionResponse": {"id": "c1", "name": name, "response": response}}]
        call = {"id": f"{name}-1", "name": name, "args": args, "result": result, "status": status}
        self.say("gemini", words, toolCalls=[{**call, "timestamp": "2026-03-14T10:00:00.000Z"}])
        self.say("user", result)

    def lines(self) -> list[bytes]:
        """Of a message with calls the first line lacks them, as the CLI tells it anew when they have ended."""
        found = [self.about]
        for one in self.messages:
            bare = {name: value for name, value in one.items() if name != "toolCalls"}
            found += [bare, {"$set": {"lastUpdated": one["timestamp"]}}, *([one] if bare != one else [])]
        return [json.dumps(one).encode() for one in found]

    def older(self) -> list[bytes]:
        """As one object over many lines."""
        return json.dumps({**self.about, "messages": self.messages}, indent=2).encode().split(b"\n")


def imported(*files: list[bytes]) -> tuple[list[Json], ImportReport]:
    importing = GeminiImport("acme")
    events = list(importing.events((f"{n}.jsonl", line) for n, lines in enumerate(files) for line in lines))
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    return events, importing.report


def worked(session: str) -> Chat:
    chat = Chat(session)
    chat.say("user", "<session_context>\nThis is the Gemini CLI.\n</session_context>")
    chat.say(
        "user",
        "Make @package.json pass\n--- Content from referenced files ---\n{}",
        displayContent="Make the tests pass",
    )
    failure = "Error: Cannot find module 'left-pad'"
    output = f"Command: npm test\nDirectory: (root)\nOutput: {failure}\nError: (none)\nExit Code: 1\nSignal: (none)"
    chat.call("run_shell_command", {"command": "npm test"}, output, words="I run them first.")
    chat.call("run_shell_command", {"command": "npm install left-pad"}, "Output: added 1 package")
    edit = {"file_path": "src/a.ts", "old_string": "x", "new_string": "y"}
    chat.call("replace", edit, "Successfully modified file")
    passed = "<untrusted_context>\nOutput: 12 passed\nProcess Group PGID: 14443\n</untrusted_context>"
    chat.call("run_shell_command", {"command": "npm test"}, passed)
    chat.call("read_file", {"absolute_path": "src/a.ts"}, "y")
    chat.say("gemini", [{"text": "All pass now."}])
    return chat


def test_a_session_becomes_what_was_said_and_done() -> None:
    events, report = imported(worked("s1").lines())
    told = [(event["event_type"], event["content"]) for event in events]
    assert told[0] == ("message", {"role": "user", "text": "Make the tests pass", "attachments": []})
    failed = {"exit_code": 1, "success": False, "output": "Error: Cannot find module 'left-pad'"}
    assert told[1] == ("test_run", {"command": "npm test", **failed})
    assert (told[2][0], told[2][1]["output"]) == ("command_exec", "added 1 package")
    assert told[3][0] == "file_edit"
    assert (told[3][1]["path"], told[3][1]["operation"], told[3][1]["success"]) == ("src/a.ts", "modify", True)
    assert told[4] == ("test_run", {"command": "npm test", "exit_code": 0, "success": True, "output": "12 passed"})
    assert [kind for kind, _ in told[5:]] == ["tool_call", "tool_result", "message"]
    assert told[-1][1]["text"] == "All pass now."
    assert {event["agent_id"] for event in events} == {"gemini-cli"}
    assert report.left_out["words of the assistant between its calls"] == 1
    assert report.left_out["messages that nobody said"] == 6


def test_both_forms_of_a_file_and_a_second_import_give_the_same() -> None:
    chat = worked("s1")
    events, _ = imported(chat.lines())
    assert imported(chat.older())[0] == events
    again, report = imported(chat.older(), chat.lines())
    assert again == events
    assert report.left_out["messages copied from another file"] == len(chat.messages)
    longer = worked("s1")
    longer.say("user", "Thanks")
    assert imported(longer.lines())[0][: len(events)] == events


def test_a_refused_call_is_feedback_and_a_failed_one_says_why() -> None:
    chat = Chat("s1")
    chat.call("run_shell_command", {"command": "rm -rf /"}, "[Operation Cancelled] Reason: User denied.", "cancelled")
    chat.call("web_fetch", {"prompt": "x"}, "no network", "error")
    chat.say("gemini", "", toolCalls=[{"id": "c", "name": "glob", "args": {}, "status": "executing"}])
    events, report = imported(chat.lines())
    assert [event["event_type"] for event in events] == ["feedback", "tool_call", "tool_result"]
    assert events[0]["metadata"]["rejected_command"] == "rm -rf /"
    result = events[2]["content"]
    assert (result["success"], result["result"]["text"]) == (False, "no network")
    assert report.left_out["calls without a result"] == 1


def test_a_subagent_is_an_agent_of_its_own() -> None:
    chat = Chat("s2", kind="subagent", directories=["/shop"])
    chat.call("write_file", {"file_path": "/shop/a.py", "content": "x = 1"}, "ok")
    (event,) = imported(chat.lines())[0]
    assert (event["agent_id"], event["content"]["path"]) == ("gemini-cli-subagent", "a.py")


def test_bad_lines_are_named_and_lose_themselves_alone() -> None:
    lines = worked("s1").lines()
    events, _ = imported(lines)
    bad = [lines[0], b"{", b"[1]", b'{"id": "x", "type": "user", "content": "no time"}', *lines[1:], lines[-1][:20]]
    found, report = imported(bad)
    assert found == events
    assert len(report.unreadable) == 3
    assert imported(lines[1:])[1].unreadable == ["0.jsonl: no sessionId"]


parts = st.recursive(
    st.none() | st.integers() | st.text(max_size=4), lambda one: st.lists(one, max_size=2) | st.dictionaries(
        st.sampled_from(["text", "functionResponse", "response", "output", "id", "name", "args", "status", "result"]),
        one, max_size=3,
    ), max_leaves=6,
)  # fmt: skip


@given(st.sampled_from(["user", "gemini", "info", "x"]), parts, parts, parts)
def test_no_message_breaks_an_import(kind: str, content: Any, calls: Any, about: Any) -> None:
    message = {"id": "m", "timestamp": "2026-03-14T09:00:00Z", "type": kind, "content": content, "toolCalls": calls}
    imported([orjson.dumps(one) for one in (about, {"sessionId": "s", "directories": about}, message)])


@pytest.mark.parametrize(
    "result",
    [
        "Output: x\nExit Code: " + "9" * 5_000,
        json.loads("[" * 900 + '"x"' + "]" * 900),
        [{"functionResponse": {"response": json.loads('{"a":' * 400 + "1" + "}" * 400)}}],
        json.loads('[{"functionResponse":{"response":{"output":' * 200 + '"x"' + "}}}]" * 200),
    ],
)
def test_no_tools_output_ends_an_import(result: Any) -> None:
    call = {"id": "c", "name": "run_shell_command", "args": {"command": "x"}, "status": "success", "result": result}
    said = {"id": "m", "type": "gemini", "timestamp": "2026-03-14T09:30:00Z", "toolCalls": [call], "content": result}
    told = json.dumps({"sessionId": "s", "messages": [said]}).encode()
    events, report = imported([told])
    assert {"tool_call", "command_exec"} & {event["event_type"] for event in events}
    assert report.unreadable == []


@pytest.mark.parametrize("form", [Chat.lines, Chat.older])
def test_what_helped_is_learnt(form: Any) -> None:
    events, _ = imported(*(form(worked(f"s{number}")) for number in range(4)))
    assert "left-pad" in str([one for one in artifacts_of(events) if one["artifact_type"] == "failure_playbook"])
