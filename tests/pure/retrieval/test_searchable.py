"""What of an episode is indexed."""

from typing import Any

import pytest

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.retrieval.searchable import (
    EXCERPT,
    TEXT,
    Document,
    document,
    document_terms,
    episode_step,
    session_step,
)
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.support.memory import T0, episode, episode_as_read


def indexed(event_type: str, content: dict[str, Any], **fields: Any) -> Document | None:
    record = episode("e1", event_type=event_type, content=content, **fields)
    return document(record, episode_step(record))


def test_what_is_said_is_indexed_up_to_a_bound() -> None:
    found = indexed("message", {"role": "user", "text": "x" * 5000})
    assert found is not None
    assert (found.actor, len(found.text), found.role) == ("user", TEXT, Role.MESSAGE)


@pytest.mark.parametrize(
    ("event_type", "content"),
    [
        ("tool_call", {"tool_name": "ls", "arguments": {"path": "."}}),
        ("tool_result", {"tool_name": "ls", "success": True, "result": "a b c"}),
        ("command_exec", {"command": "ls", "exit_code": 0}),
        ("message", {"role": "user", "text": "  "}),
        ("x-acme-noise", {"payload": 1}),
    ],
)
def test_what_went_well_or_says_nothing_is_not(event_type: str, content: dict[str, Any]) -> None:
    assert indexed(event_type, content) is None


def test_what_failed_is_indexed_as_an_excerpt() -> None:
    found = indexed("tool_result", {"tool_name": "kubectl", "success": False, "output": "not found " * 100})
    assert found is not None
    assert (found.actor, len(found.text)) == ("kubectl", EXCERPT)
    assert indexed("command_exec", {"command": "make", "exit_code": 2}) is not None


@pytest.mark.parametrize("event_type", ["command_exec", "test_run"])
def test_of_a_failed_command_its_output_is_indexed_or_itself_where_there_is_none(event_type: str) -> None:
    command = {"command": "kubectl rollout status", "exit_code": 1}
    texts = [indexed(event_type, {**command, **output}) for output in ({"output": "timed out"}, {})]
    assert [found and (found.actor, found.text) for found in texts] == [
        ("kubectl rollout status", "timed out"),
        ("kubectl rollout status", "kubectl rollout status"),
    ]


def test_terms_hold_the_month_the_year_and_the_actor() -> None:
    found = indexed("message", {"role": "assistant", "text": "deployed"})
    assert found is not None
    assert document_terms(found) == ["assist", "deploy", "march", "2026"]


@pytest.mark.parametrize(
    "text",
    [
        "Thanks.", "Yes, go ahead.", "OK, perfect, thank you very much!", "Sure.", "Thanks, back to bed.",
        "Danke, ab ins Bett.", "Merci, bonne nuit !", "おやすみなさい", "晚安",
    ],
)  # fmt: skip
def test_a_message_of_courtesy_alone_is_not_searched(text: str) -> None:
    assert indexed("message", {"role": "user", "text": text}) is None


@pytest.mark.parametrize("text", ["No, roll it back.", "Yes, with helm.", "Stop.", "7", "进行吧"])
def test_a_short_message_that_says_something_is(text: str) -> None:
    assert indexed("message", {"role": "user", "text": text}) is not None


@pytest.mark.requirement("Y01")
def test_a_clock_that_runs_ahead_counts_as_the_append_time_and_five_minutes() -> None:
    record = episode("e1", at=T0)
    record["metadata"]["hmx"]["origin"]["log_time"] = T0 - 3_600_000
    found = document(record, episode_step(record))
    assert found is not None
    assert found.at == T0 - 3_600_000 + 300_000


@pytest.mark.parametrize(
    "fields", [{"ttl_seconds": 2**64 - 1}, {"timestamp": "0001-01-01T00:00:00+23:59", "ttl_seconds": 1}]
)
def test_extreme_times_are_indexed_and_stored_like_others(fields: dict[str, Any]) -> None:
    record = episode("e1", **fields)
    keys = Keys()
    stored = commands_of(keys, [episode_as_read(record, 0)])
    assert any({b"HSET", keys.tenant("acme").documents} <= set(command) for command in stored)


def test_a_session_keeps_what_it_did() -> None:
    acts = episode("e1", event_type="tool_call", content={"tool_name": "ls", "arguments": {"path": "secret"}}, index=3)
    kept = session_step(episode_step(acts))
    assert kept is not None
    assert (kept.name, kept.index, kept.values) == ("ls", 3, ())
    failed = session_step(episode_step(episode("e2", event_type="error", content={"error_type": "E", "message": "m"})))
    assert failed is not None
    assert failed.ok is False
    assert session_step(episode_step(episode("e3"))) is None
