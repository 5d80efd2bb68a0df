"""Claude Code's transcripts as events: every event is accepted, the same twice, and bad lines lose themselves alone."""

from collections import Counter
from typing import Any

import orjson
import pytest

from hmx_pipeline.doors.claude_code import is_test
from hmx_pipeline.doors.claude_code_transcripts import ClaudeCodeImport
from hmx_pipeline.doors.draft import BETWEEN, DEPTH, TEXT, ImportReport, bounded
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support import data
from tests.support.inprocess import artifacts_of
from tests.support.transcripts import CWD, Transcript, transcripts_of

Events = list[dict[str, Any]]
REFUSED = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. …)."


def at(second: int) -> str:
    return f"2026-03-14T09:{second // 60:02d}:{second % 60:02d}.000Z"


def imported(*files: Transcript | list[bytes]) -> tuple[Events, ImportReport]:
    importing = ClaudeCodeImport("acme")
    lines = [file.written() if isinstance(file, Transcript) else file for file in files]
    events = list(importing.events((f"{n}.jsonl", line) for n, file in enumerate(lines) for line in file))
    return events, importing.report


def of_type(events: Events, event_type: str) -> list[dict[str, Any]]:
    return [event["content"] for event in events if event["event_type"] == event_type]


def mended(session: str) -> Transcript:
    """A session in which tests fail, are mended by a command, and pass."""
    made = Transcript(session)
    made.user("Run the tests of the shop", at(0))
    made.ran("npm test", "Error: Cannot find module 'left-pad'\n1 failed", at(2), exit_code=1)
    made.assistant("A package is missing.", at(3))
    made.ran("npm install --save left-pad", "added 1 package", at(5))
    made.ran("npm test", "12 passed", at(8))
    made.user("Thanks, that works perfectly", at(9))
    return made


def test_real_sessions_become_events_that_are_accepted_and_the_same_twice() -> None:
    files = list(transcripts_of(map(orjson.loads, data.lines("claude_code"))))[:40]
    events, report = imported(*files)
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    assert imported(*files)[0] == events
    assert len({event["event_id"] for event in events}) == len(events) == report.events.total() > 1_000
    for session in report.sessions:
        assert [e["sequence"] for e in events if e["session_id"] == session] == list(
            range(sum(e["session_id"] == session for e in events))
        )


def test_a_transcript_imported_half_and_then_whole_adds_only_what_is_new() -> None:
    lines = mended("s").written()
    whole, _ = imported(lines)
    for half in range(len(lines)):
        begun, _ = imported(lines[:half])
        assert begun == whole[: len(begun)]


def test_a_line_that_cannot_be_read_is_named_and_loses_nothing_else() -> None:
    lines = mended("s").written()
    events, _ = imported(lines)
    bad = [
        b'{"type": "user", "uuid": "cut',
        b'\xff\xfe{"type": "user"}',
        b"[1, 2]",
        b'{"type": "user", "sessionId": "s", "uuid": "u1", "timestamp": "yesterday", "message": {}}',
        b'{"type": "user", "uuid": "u2", "timestamp": "2026-03-14T09:00:00Z", "message": {}}',
        b'{"type": "user", "sessionId": "s", "uuid": "u3", "timestamp": "2026-03-14T09:00:00Z"}',
    ]
    mixed = [line for pair in zip(bad, lines, strict=False) for line in pair] + lines[len(bad) :]
    found, report = imported(mixed)
    assert found == events
    assert report.left_out["lines that cannot be read"] == len(bad) == len(report.unreadable)
    assert report.unreadable[0].startswith("0.jsonl:1: no JSON")
    assert [line.split(": ", 1)[1] for line in report.unreadable[2:]] == [
        "no object with a type", "no timestamp", "no sessionId", "no message",
    ]  # fmt: skip


def test_what_the_client_keeps_for_itself_and_unknown_types_are_counted() -> None:
    made = mended("s")
    events, _ = imported(made)
    made.line("file-history-snapshot", at(20))
    made.line("hologram", at(21))
    made.line("system", at(22), subtype="informational", content="…")
    made.user("<local-command-stdout>Bye!</local-command-stdout>", at(23))
    made.user("Caveat: the messages below were generated", at(24), isMeta=True)
    made.result("toolu_nobody_called", "text", at(25))
    made.call("Read", {"file_path": "a"}, at(26))
    found, report = imported(made)
    assert found == events
    assert +report.left_out == Counter(
        {
            "lines of the client's own": 2,
            "lines of the unknown type hologram": 1,
            "texts that nobody said": 1,
            "lines that the client wrote for the model": 1,
            "results without a call": 1,
            "calls without a result": 1,
            BETWEEN: 1,
        }
    )


def test_commands_tests_edits_and_other_calls_have_their_event_types() -> None:
    made = mended("s")
    edit = made.call("Edit", {"file_path": f"{CWD}/src/a.ts", "old_string": "a", "new_string": "b"}, at(30))
    made.result(edit, "edited", at(31))
    read = made.call("Read", {"file_path": "/etc/hosts"}, at(32))
    made.result(read, "<tool_use_error>File does not exist.</tool_use_error>", at(33), ok=False)
    events, _ = imported(made)
    assert [(c["command"], c["exit_code"], c["success"]) for c in of_type(events, "test_run")] == [
        ("npm test", 1, False), ("npm test", 0, True),
    ]  # fmt: skip
    assert of_type(events, "test_run")[0]["output"].startswith("Error: Cannot find module")
    (install,) = of_type(events, "command_exec")
    assert install["command"] == "npm install --save left-pad"
    (edited,) = of_type(events, "file_edit")
    assert (edited["path"], edited["operation"], edited["old_text"], edited["new_text"]) == (
        "src/a.ts", "modify", "a", "b",
    )  # fmt: skip
    (result,) = of_type(events, "tool_result")
    assert (result["success"], result["result"], result["duration_ms"]) == (
        False, {"text": "File does not exist."}, 1_000,
    )  # fmt: skip


def test_calls_side_by_side_stand_each_with_its_own_result() -> None:
    made = Transcript("s")
    first, second = made.call("Read", {"file_path": "a"}, at(0)), made.call("Grep", {"pattern": "b"}, at(0))
    made.result(second, "B", at(1))
    made.result(first, "A", at(2))
    events, _ = imported(made)
    assert [(e["event_type"], e["content"]["tool_name"], e["content"]["call_id"]) for e in events] == [
        ("tool_call", "Grep", second), ("tool_result", "Grep", second),
        ("tool_call", "Read", first), ("tool_result", "Read", first),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("said", "signal", "comment"),
    [
        (f"{REFUSED} To tell you how to proceed, the user said:\nuse pnpm", "correction", "use pnpm"),
        (f"{REFUSED} STOP what you are doing and wait", "negative", "the user refused the call"),
    ],
)
def test_a_refused_call_is_feedback_and_nothing_that_was_done(said: str, signal: str, comment: str) -> None:
    made = Transcript("s")
    call = made.call("Bash", {"command": "npm install"}, at(0))
    made.result(call, said, at(1), ok=False)
    made.user("[Request interrupted by user for tool use]", at(2))
    events, _ = imported(made)
    refusals = [e for e in events if e["metadata"].get("rejected_tool")]
    assert [(e["event_type"], e["metadata"]["rejected_command"]) for e in refusals] == [("feedback", "npm install")]
    assert (refusals[0]["content"]["signal"], refusals[0]["content"]["comment"]) == (signal, comment)
    assert len(events) == (1 if signal == "negative" else 2)


def test_an_interruption_is_feedback_and_a_compaction_and_a_failed_turn_are_told() -> None:
    made = Transcript("s")
    made.user("[Request interrupted by user]", at(0))
    made.line("system", at(1), subtype="compact_boundary", compactMetadata={"trigger": "manual"})
    made.user("This session is being continued from …", at(2), isCompactSummary=True)
    made.assistant("API Error: 529 overloaded", at(3), isApiErrorMessage=True)
    events, _ = imported(made)
    assert [e["event_type"] for e in events] == ["feedback", "x-claude_code-compaction.completed", "error"]
    assert (events[0]["content"]["signal"], events[1]["content"]["mode"]) == ("negative", "manual")


def test_the_summary_of_a_compaction_is_nothing_that_the_user_said() -> None:
    made = Transcript("s")
    summary = "This session is being continued from a previous conversation that ran out of context. It was of tests."
    made.user(summary, at(0))  # as older clients wrote it, without a field that says so
    made.user("go on with the tests", at(1))
    events, report = imported(made)
    assert [event["content"]["text"] for event in events] == ["go on with the tests"]
    assert +report.left_out == Counter({"texts that nobody said": 1})


def test_what_a_caller_sees_of_a_sub_agent_is_a_call_like_any_other() -> None:
    made = Transcript("s")
    made.user("Ask somebody", at(0))
    call = made.call("Task", {"description": "Find the callers", "prompt": "Who calls it?"}, at(1))
    made.result(call, "Two.", at(2), told={"agentId": "a1b2", "content": [{"type": "text", "text": "Two."}]})
    events, _ = imported(made)
    assert [event["event_type"] for event in events] == ["message", "tool_call", "tool_result"]


def test_a_sub_agent_is_a_session_of_its_own_in_new_files_and_in_old() -> None:
    new = Transcript("s", agentId="a1b2", isSidechain=True)
    new.user("Find the callers", at(0))
    new.assistant("There are two.", at(1), "end_turn")
    old = Transcript("t")
    old.user("Ask somebody", at(0))
    old.line("user", at(1), isSidechain=True, parentUuid=None, message={"role": "user", "content": "Find them"})
    old.assistant("Two.", at(2), "end_turn", isSidechain=True)
    old.assistant("There are two.", at(3), "end_turn")
    events, _ = imported(new, old)
    assert [(e["session_id"], e["agent_id"], e["sequence"]) for e in events] == [
        ("s/a1b2", "claude-code-subagent", 0), ("s/a1b2", "claude-code-subagent", 1),
        ("t", "claude-code", 0), ("t/t-000001", "claude-code-subagent", 0), ("t/t-000001", "claude-code-subagent", 1),
        ("t", "claude-code", 1),
    ]  # fmt: skip


def test_lines_that_a_resumed_session_copies_are_taken_once() -> None:
    first = mended("s")
    second = [orjson.dumps({**orjson.loads(line), "sessionId": "s2"}) for line in first.written()]
    events, report = imported(first, second)
    assert events == imported(first)[0]
    assert report.left_out["lines copied from another transcript"] == len(second)


def test_a_prompt_is_what_the_user_wrote() -> None:
    made = Transcript("s")
    made.user(
        "<system-reminder>\nmemory: [hmx] do this\n</system-reminder>\nShip it<ide_selection>x</ide_selection>", at(0)
    )
    made.user(
        "<command-message>review</command-message><command-name>/review</command-name><command-args>12</command-args>",
        at(1),
    )
    events, _ = imported(made)
    assert [content["text"] for content in of_type(events, "message")] == ["Ship it", "/review 12"]


def test_texts_and_arguments_are_bounded_and_say_so() -> None:
    made = Transcript("s")
    made.ran("make", "a" * TEXT + "the error stands here", at(0))
    deep: Any = "bottom"
    for _ in range(DEPTH * 2):
        deep = [deep]
    call = made.call("mcp__db__query", {"deep": deep, "many": ["x" * 9_000] * 9_000}, at(1))
    made.result(call, "ok", at(2))
    events, _ = imported(made)
    (output,) = (content["output"] for content in of_type(events, "command_exec"))
    assert "characters left out" in output
    assert output.endswith("the error stands here")
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    assert bounded({"a": [1, None, True]}) == {"a": [1, None, True]}


def test_own_commands_come_back_as_fixes() -> None:
    events, _ = imported(*(mended(f"s{n}") for n in range(4)))
    learnt = [a for a in artifacts_of(events) if a["artifact_type"] == "failure_playbook"]
    assert any("npm install --save left-pad" in orjson.dumps(artifact["content"]).decode() for artifact in learnt)


@pytest.mark.parametrize(
    ("command", "tests"),
    [
        ("cd app && go test ./...", True), ("python -m pytest -q tests", True), ("npm run test:unit", True),
        ("mise run lint 2>&1", True), ("FOO=1 .venv/bin/pytest", True), ("make check-test", True),
        ("git add tests", False), ("/tmp/entire-test version", False), ("test -f a && echo b", False),
        ("git commit -m 'add test'", False), ("npm install jest", True),
    ],
)  # fmt: skip
def test_runs_of_tests_are_told_from_other_commands(command: str, tests: bool) -> None:
    assert is_test(command) is tests
