"""Cursor's chats as events: every event is accepted, the same twice, and bad rows lose themselves alone."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.cli.lines import LineReader
from hmx_pipeline.doors.cursor_transcripts import CursorImport
from hmx_pipeline.doors.draft import ImportReport
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.inprocess import artifacts_of

Json = dict[str, Any]


class CursorChat:
    """A chat as Cursor keeps it."""

    def __init__(self, name: str, **about: Any) -> None:
        self.name, self.messages = name, dict[str, Json]()
        self.about = {"_v": 10, "composerId": name, "createdAt": 1_773_478_800_000, "status": "completed", **about}

    def say(self, kind: int, text: str, **more: Any) -> None:
        number = len(self.messages)
        at = f"2026-03-14T09:{number // 60:02d}:{number % 60:02d}.000Z"
        self.messages[f"m{number}"] = {"_v": 3, "type": kind, "text": text, "createdAt": at, **more}

    def call(self, name: str, args: Json, result: Any = None, **more: Any) -> None:
        told = {"name": name, "toolCallId": "c", "status": "completed", "rawArgs": json.dumps(args), **more}
        self.say(2, "", toolFormerData=told | ({} if result is None else {"result": json.dumps(result)}))

    def rows(self) -> list[tuple[str, str]]:
        heads = [{"bubbleId": name, "type": one["type"]} for name, one in self.messages.items()]
        about = {"fullConversationHeadersOnly": heads, **self.about}
        found = [(f"bubbleId:{self.name}:{name}", json.dumps(one)) for name, one in self.messages.items()]
        return [(f"composerData:{self.name}", json.dumps(about)), *found]


def worked(name: str) -> CursorChat:
    chat = CursorChat(name, workspaceIdentifier={"id": "w", "uri": {"fsPath": "/shop", "scheme": "file"}})
    chat.say(1, "Make the tests pass")
    chat.say(2, "", thinking={"text": "Let me see."})
    chat.say(2, "I run them first.")
    failure = "Error: Cannot find module 'left-pad'"
    chat.call("run_terminal_command_v2", {"command": "npm test"}, {"output": failure, "exitCodeV2": 1})
    chat.call("run_terminal_cmd", {"command": "npm install left-pad"}, {"output": "added 1 package", "exitCodeV2": 0})
    edit = {"file_path": "/shop/src/a.ts", "old_string": "x", "new_string": "y"}
    chat.call("search_replace", edit, {"diff": {"chunks": []}})
    chat.call("run_terminal_cmd", {"command": "npm test"}, {"output": "12 passed", "exitCodeV2": 0})
    chat.call("read_file_v2", {"target_file": "/shop/src/a.ts"}, {"contents": "y"})
    chat.say(2, "All pass now.")
    return chat


def lines(*chats: CursorChat) -> list[bytes]:
    return [f"{key}\t{value}".encode() for chat in chats for key, value in chat.rows()]


def imported(*rows: bytes) -> tuple[list[Json], ImportReport]:
    importing = CursorImport("acme")
    events = list(importing.events(("state.vscdb", row) for row in rows))
    assert all(isinstance(decode(orjson.dumps(event)), Accepted) for event in events)
    return events, importing.report


def database(path: Path, *chats: CursorChat) -> Path:
    with closing(sqlite3.connect(path)) as made, made:
        made.execute("PRAGMA journal_mode=WAL")
        made.execute("CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB)")
        rows = [row for chat in reversed(chats) for row in reversed(chat.rows())]
        made.executemany("INSERT INTO cursorDiskKV VALUES (?, ?)", rows)
        made.execute("INSERT INTO cursorDiskKV VALUES ('bubbleId:s1:gone', NULL), ('agentKv:x', 'y')")
    return path


def test_a_chat_becomes_what_was_said_and_done() -> None:
    events, report = imported(*lines(worked("s1")))
    told = [(event["event_type"], event["content"]) for event in events]
    assert told[0] == ("message", {"role": "user", "text": "Make the tests pass", "attachments": []})
    failed = {"exit_code": 1, "success": False, "output": "Error: Cannot find module 'left-pad'"}
    assert told[1] == ("test_run", {"command": "npm test", **failed})
    assert (told[2][0], told[2][1]["output"]) == ("command_exec", "added 1 package")
    assert told[3] == (
        "file_edit",
        {"path": "src/a.ts", "operation": "modify", "success": True, "old_text": "x", "new_text": "y"},
    )
    assert told[4] == ("test_run", {"command": "npm test", "exit_code": 0, "success": True, "output": "12 passed"})
    assert [kind for kind, _ in told[5:]] == ["tool_call", "tool_result", "message"]
    assert told[6][1]["result"] == {"text": "y"}
    assert told[-1][1]["text"] == "All pass now."
    assert {event["agent_id"] for event in events} == {"cursor"}
    assert [event["sequence"] for event in events] == list(range(len(events)))
    assert report.left_out["words of the assistant between its calls"] == 1


def test_a_database_is_read_in_the_order_of_its_chats_and_twice_the_same(tmp_path: Path) -> None:
    file = database(tmp_path / "state.vscdb", worked("s1"), worked("s2"))
    rows = list(LineReader([file]).lines())
    events, report = imported(*rows)
    assert events == imported(*lines(worked("s1"), worked("s2")))[0]
    assert report.left_out["empty rows"] == 1
    again, report = imported(*rows, *rows)
    assert again == events
    assert report.left_out["messages copied from another file"] == 2 * len(worked("s1").messages)
    longer = worked("s1")
    longer.say(1, "Thanks")
    assert imported(*lines(longer))[0][:8] == events[:8]


def test_half_a_database_is_named_and_what_can_be_read_of_it_stays(tmp_path: Path) -> None:
    file = database(tmp_path / "state.vscdb", *(worked(f"s{number:02}") for number in range(40)))
    whole, _ = imported(*LineReader([file]).lines())
    with file.open("r+b") as half:
        half.truncate(file.stat().st_size // 2)
    (tmp_path / "other.vscdb").write_bytes(b"no database")
    other = database(tmp_path / "more.vscdb", worked("t"))
    events, report = imported(*LineReader([file, tmp_path / "other.vscdb", other]).lines())
    assert [one.partition(" (")[0] for one in report.unreadable] == ["state.vscdb: no readable database"] * 2
    assert [event for event in events if event["session_id"] != "t"] == [event for event in whole if event in events]
    assert len([event for event in events if event["session_id"] == "t"]) == 8


def test_old_chats_hold_their_messages_and_the_time_of_their_begin() -> None:
    chat = worked("s1")
    inline = [{"bubbleId": name, **one, "createdAt": None} for name, one in chat.messages.items()]
    about = {**chat.about, "conversation": inline}
    events, _ = imported(f"composerData:s1\t{json.dumps(about)}".encode())
    assert [event["event_id"] for event in events] == [event["event_id"] for event in imported(*lines(chat))[0]]
    assert {event["timestamp"] for event in events} == {"2026-03-14T09:00:00.000Z"}


@pytest.mark.parametrize(
    "more",
    [
        {"result": {"output": "", "rejected": True}}, {"additionalData": {"status": "rejected"}},
        {"status": "cancelled", "error": {"clientVisibleErrorMessage": "Edit rejected"}}, {"userDecision": "rejected"},
    ],
)  # fmt: skip
def test_a_refused_call_is_feedback(more: Json) -> None:
    chat = CursorChat("s1")
    chat.call("run_terminal_command_v2", {"command": "rm -rf /"}, **more)
    (event,) = imported(*lines(chat))[0]
    assert (event["event_type"], event["metadata"]["rejected_command"]) == ("feedback", "rm -rf /")


@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"status": "error", "error": json.dumps({"clientVisibleErrorMessage": "File not found"})}, "File not found"),
        ({"additionalData": {"status": "error"}, "result": {"error": "x"}}, '{"error":"x"}'),
    ],
)
def test_a_failed_call_says_why(more: Json, error: str) -> None:
    chat = CursorChat("s1")
    chat.call("edit_file_v2", {}, params=json.dumps({"relativeWorkspacePath": "a.py", "noCodeblock": True}), **more)
    (event,) = imported(*lines(chat))[0]
    content = {"path": "a.py", "operation": "modify", "success": False, "error": error}
    assert (event["event_type"], event["content"]) == ("file_edit", content)


def test_what_has_not_ended_and_what_is_not_listed_is_counted() -> None:
    chat = CursorChat("task-1")
    chat.call("run_terminal_cmd", {"command": "sleep 9"}, status="loading")
    chat.call("delete_file", {"target_file": "a.py"}, {"fileDeletedSuccessfully": True})
    rows = [*lines(chat), b'bubbleId:task-1:old\t{"type":1,"text":"rewound"}', b'bubbleId:other:x\t{"type":1}']
    events, report = imported(*rows)
    (event,) = events
    assert (event["agent_id"], event["content"]["operation"]) == ("cursor-subagent", "delete")
    assert report.left_out["calls without a result"] == 1
    assert report.left_out["messages that their chat does not list"] == 1
    assert report.left_out["messages without their chat"] == 1


def test_bad_rows_are_named_and_lose_themselves_alone() -> None:
    rows = lines(worked("s1"))
    events, _ = imported(*rows)
    found, report = imported(rows[0], b"bubbleId:s1:x\t{", b"bubbleId:s1:y\t[1]", *rows[1:], b"why")
    assert found == events
    assert [one.partition(" (")[0] for one in report.unreadable] == [
        "state.vscdb: bubbleId:s1:x: no JSON", "state.vscdb: why",
    ]  # fmt: skip
    assert imported(b"composerData:s\t{", *rows[1:])[0] == []


DEEP = b'{"a":' * 1_000 + b"1" + b"}" * 1_000


@pytest.mark.parametrize(
    "message",
    [
        b'{"type":1,"text":%s}', b'{"type":2,"text":%s}',
        b'{"type":2,"toolFormerData":{"name":%s,"status":"completed"}}',
        b'{"type":2,"workspaceUris":[%s],"text":"Done."}',
    ],
)  # fmt: skip
def test_values_too_deep_to_be_shown_break_no_import(message: bytes) -> None:
    rows = lines(worked("s1"))
    about = b'{"createdAt":1773478800000,"fullConversationHeadersOnly":[{"bubbleId":"m"}],"workspaceIdentifier":%s}'
    for folder in (b"1", b'{"uri":{"fsPath":%s}}' % DEEP):
        events, _ = imported(b"composerData:d\t" + about % folder, b"bubbleId:d:m\t" + message % DEEP, *rows)
        assert [event for event in events if event["session_id"] == "s1"] == imported(*rows)[0]


def test_a_name_that_is_no_text_hides_no_other_chat(tmp_path: Path) -> None:
    file = database(tmp_path / "state.vscdb", worked("s1"))
    with closing(sqlite3.connect(file)) as kept, kept:
        kept.execute("INSERT INTO cursorDiskKV VALUES (CAST(x'636f6d706f736572446174613a64ff' AS TEXT), '{}')")
    rows = list(LineReader([file]).lines())
    assert b"composerData:d\xff\t{}" in rows
    assert imported(*rows)[0] == imported(*lines(worked("s1")))[0]


parts = st.recursive(
    st.none() | st.integers() | st.floats() | st.booleans() | st.text(max_size=4) | st.just('{"output": "x"}'),
    lambda one: st.lists(one, max_size=2) | st.dictionaries(
        st.sampled_from(["name", "params", "rawArgs", "result", "status", "error", "command", "path", "output", "uri"]),
        one, max_size=4,
    ), max_leaves=6,
)  # fmt: skip


@given(st.sampled_from([1, 2, None]), parts, parts, st.dictionaries(st.sampled_from(["name", "result"]), parts))
def test_no_message_breaks_an_import(kind: Any, text: Any, about: Any, call: Json) -> None:
    message = {"bubbleId": "m", "type": kind, "text": text, "createdAt": about, "toolFormerData": call}
    chat = {"createdAt": 1_773_478_800_000, "conversation": [message, about], "workspaceIdentifier": about}
    imported(b"composerData:s\t" + orjson.dumps(chat), b"bubbleId:s:n\t" + orjson.dumps({"createdAt": text}))


def test_what_helped_is_learnt() -> None:
    events, _ = imported(*lines(*(worked(f"s{number}") for number in range(4))))
    assert "left-pad" in str([one for one in artifacts_of(events) if one["artifact_type"] == "failure_playbook"])
