"""`hmx watch` makes one harmless line of an episode or an artifact, and none of another tenant's."""

from typing import Any

import orjson
from rich.text import Text

from hmx_pipeline.cli.watch import REMEMBERED, Lines, sentence
from hmx_pipeline.topology import ARTIFACTS, EPISODES
from tests.support.inprocess import run, sessions_fold
from tests.support.records import START_MS, event, log

ARTIFACT = {
    "artifact_id": "a-1",
    "artifact_type": "task_schema",
    "status": "draft",
    "version": 1,
    "confidence": 0.5,
    "title": "Deploy to staging",
}


def episode(**fields: Any) -> tuple[bytes | None, bytes | None]:
    (output,) = run(sessions_fold, log([(0, event(**fields))])).outputs[:1]
    return output.key, output.value


def shown(line: dict[str, Any] | None) -> str:
    assert line is not None
    return Text.from_markup(sentence(line)).plain


def test_an_episode_is_one_line_with_time_tenant_session_type_and_text() -> None:
    line = Lines().of(EPISODES, START_MS, *episode(content={"role": "user", "text": "first\nsecond"}))
    assert shown(line) == "08:53:20 acme s message first second"


def test_an_artifact_s_change_of_status_is_named() -> None:
    lines = Lines()
    for status, change in (("draft", "draft"), ("active", "draft → active"), ("active", "active")):
        line = lines.of(ARTIFACTS, START_MS, b"acme/a-1", orjson.dumps({**ARTIFACT, "status": status}))
        assert shown(line) == f"08:53:20 acme task_schema {change} v1 Deploy to staging"
    assert shown(lines.of(ARTIFACTS, START_MS, b"acme/a-1", None)) == "08:53:20 acme artifact active → erased a-1"


def test_another_tenant_s_lines_are_left_out() -> None:
    lines = Lines("acme")
    assert lines.of(EPISODES, START_MS, *episode(tenant_id="other")) is None
    assert lines.of(EPISODES, START_MS, *episode(tenant_id="acme")) is not None


def test_what_a_producer_wrote_neither_colours_the_terminal_nor_moves_its_cursor() -> None:
    hostile = "\x1b[31m[bold]x\r\n\u202e\x9b2J"
    fields = {"event_type": hostile, "tenant_id": hostile, "session_id": hostile, "content": {"text": hostile}}
    line = Lines().of(EPISODES, START_MS, *episode(**fields))
    text = shown(line)
    assert "[bold]x" in text
    assert all(character.isprintable() for character in text)


def test_what_is_unreadable_is_left_out() -> None:
    for value in (None, b"", b"[]", b"{}", b'{"metadata": 1}'):
        assert Lines().of(EPISODES, START_MS, b"acme/s", value) is None
    assert Lines().of(ARTIFACTS, START_MS, b"acme/a", b"{}") is None
    assert Lines().of(ARTIFACTS, START_MS, b"\xff", None) is None


def test_what_is_remembered_of_artifacts_is_bounded() -> None:
    lines = Lines()
    value = orjson.dumps(ARTIFACT)
    for n in range(REMEMBERED + 1):
        lines.of(ARTIFACTS, START_MS, f"acme/{n}".encode(), value)
    oldest = lines.of(ARTIFACTS, START_MS, b"acme/0", value)
    newest = lines.of(ARTIFACTS, START_MS, f"acme/{REMEMBERED}".encode(), value)
    assert oldest is not None
    assert newest is not None
    assert (oldest["before"], newest["before"]) == (None, "draft")
