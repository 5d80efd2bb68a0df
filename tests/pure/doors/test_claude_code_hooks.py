"""Claude Code's hooks as events: they teach what an import of the transcript teaches, and no input breaks them."""

from collections import Counter
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.ids import keyed_id
from hmx_pipeline.contracts.options import ENTRY_MARK
from hmx_pipeline.doors.claude_code_hooks import CONTEXT, HOOKS, NOTE, HookCall, hook_answer, read_hook
from hmx_pipeline.doors.claude_code_transcripts import ClaudeCodeImport
from tests.support import data
from tests.support.hooks import hooks_of
from tests.support.inprocess import learnt
from tests.support.transcripts import Transcript, transcripts_of

Events = list[dict[str, Any]]
TENANT = "acme"
CALL = {"tool_name": "Bash", "tool_input": {"command": "npm test"}, "tool_use_id": "toolu_1"}


def imported(files: list[Transcript]) -> Events:
    importing = ClaudeCodeImport(TENANT)
    return list(importing.events((made.session, line) for made in files for line in made.written()))


def hooked(files: list[Transcript]) -> Events:
    """As the service writes them, each at the time of its line."""
    events: Events = []
    sequences: Counter[str] = Counter()
    for made in files:
        for number, (fields, line) in enumerate(hooks_of(made.lines)):
            call = read(fields, f"delivery-{number}")
            for draft in call.drafts:
                written = {
                    "hmx_version": "HMX-1.0", "event_id": keyed_id(TENANT, call.session_id, draft.key),
                    "event_type": draft.event_type, "agent_id": call.agent_id, "tenant_id": TENANT,
                    "session_id": call.session_id, "timestamp": line["timestamp"],
                    "sequence": sequences[call.session_id], "content": draft.content,
                    "metadata": {**call.metadata, **draft.metadata},
                }  # fmt: skip
                sequences[call.session_id] += 1
                events.append(written)
    return events


def read(fields: dict[str, Any], delivery: str = "d1") -> HookCall:
    call = read_hook(fields, delivery)
    assert call is not None
    return call


def hook(name: str, **fields: Any) -> HookCall:
    return read({"session_id": "s1", "cwd": "/home/dev/shop", "hook_event_name": name, **fields})


@pytest.fixture(scope="module")
def both() -> tuple[Events, Events]:
    """Of an import and of hooks, of sessions without interruptions between two calls, which no hook tells."""
    found = list(transcripts_of(map(orjson.loads, data.lines("claude_code"))))[:40]
    files = [made for made in found if not any(b"Request interrupted" in line for line in made.written())]
    return imported(files), hooked(files)


def test_whole_transcripts_replayed_as_hooks_teach_what_their_import_teaches(both: tuple[Events, Events]) -> None:
    found = learnt(both[0])
    assert found
    assert learnt(both[1]) == found


def test_both_doors_give_what_was_said_and_done_the_same_ids(both: tuple[Events, Events]) -> None:
    told = {event["event_id"] for event in both[1] if "session.ended" not in event["event_type"]}
    assert told == {event["event_id"] for event in both[0]}


@pytest.mark.parametrize(
    ("call", "told", "asked"),
    [
        (hook("SessionStart", source="startup"), [], "shop"),
        (hook("UserPromptSubmit", prompt="Ship it"), ["message"], "Ship it"),
        (hook("UserPromptSubmit", prompt="<system-reminder>x</system-reminder>"), [], None),
        (hook("PreToolUse", **CALL), [], "Bash npm test"),
        (hook("PostToolUse", **CALL, tool_response={"stdout": "ok", "stderr": ""}), ["test_run"], None),
        (hook("PostToolUseFailure", **CALL, error="Exit code 2\nno"), ["test_run"], "Bash npm test fails: "),
        (hook("PostToolUseFailure", **CALL, error="x", is_interrupt=True), ["test_run", "feedback"], "Bash npm test"),
        (hook("PermissionDenied", **CALL, reason="use pnpm"), ["feedback"], None),
        (hook("Stop", last_assistant_message="Done."), ["message"], None),
        (hook("StopFailure", error="overloaded"), ["error"], None),
        (hook("PostCompact", trigger="manual"), ["x-claude_code-compaction.completed"], None),
        (hook("SessionEnd", reason="clear"), ["x-claude_code-session.ended"], None),
        (hook("Notification", message="hi"), [], None),
        (hook("HologramShown", message="hi"), [], None),
    ],
    ids=lambda value: value.hook if isinstance(value, HookCall) else "",
)
def test_each_hook_tells_and_asks_what_it_is_for(call: HookCall, told: list[str], asked: str | None) -> None:
    assert [draft.event_type for draft in call.drafts] == told
    if asked is None:
        assert call.question is None or not told
    else:
        assert call.question is not None
        assert call.question.query.startswith(asked)


def test_a_prompt_of_the_client_alone_asks_what_it_says_and_tells_nothing() -> None:
    assert hook("UserPromptSubmit", prompt="   ").question is None


def test_a_hook_sent_again_has_the_same_keys_and_another_has_others() -> None:
    for name, fields in (("UserPromptSubmit", {"prompt": "go on"}), ("PostToolUse", CALL)):
        (first,), (again,) = hook(name, **fields).drafts, hook(name, **fields).drafts
        assert first.key == again.key != ""
    fields = {"session_id": "s1", "hook_event_name": "UserPromptSubmit", "prompt": "go on"}
    assert read(fields, "d1").drafts[0].key != read(fields, "d2").drafts[0].key
    assert hook("PostToolUse", tool_name="Bash", tool_input={"command": "ls"}).drafts[0].key == ""


def test_a_sub_agent_has_a_session_of_its_own() -> None:
    call = hook("PostToolUse", **CALL, agent_id="a1", agent_type="Explore")
    assert (call.session_id, call.agent_id) == ("s1/a1", "claude-code-subagent")


def test_an_answer_is_bounded_and_its_entries_are_whole() -> None:
    entries = [f"{ENTRY_MARK} run `make {'x' * 900}` number {n}" for n in range(50)]
    answer = hook_answer("PreToolUse", entries)["hookSpecificOutput"]
    text = answer["additionalContext"]
    assert answer["hookEventName"] == "PreToolUse"
    assert len(text) <= CONTEXT
    note, *kept = text.split("\n\n")
    assert note == NOTE
    assert kept == entries[: len(kept)] != []
    assert hook_answer("PreToolUse", []) == {}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    "tool_name", "tool_input", "tool_use_id", "tool_response", "prompt", "prompt_id", "error", "is_interrupt", "reason",
    "last_assistant_message", "cwd", "agent_id", "trigger", "duration_ms", "source",
)  # fmt: skip


@given(st.sampled_from(sorted(HOOKS)), st.dictionaries(st.sampled_from(FIELDS), JSON))
def test_no_field_of_another_form_breaks_a_hook(name: str, fields: dict[str, Any]) -> None:
    call = read({**fields, "session_id": "s1", "hook_event_name": name})
    orjson.dumps([draft.content for draft in call.drafts])


@pytest.mark.parametrize("fields", [{}, {"session_id": "s"}, {"hook_event_name": "Stop"}, {"session_id": 1}])
def test_what_names_no_hook_or_no_session_is_none(fields: dict[str, Any]) -> None:
    assert read_hook(fields) is None
