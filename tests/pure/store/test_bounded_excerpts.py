"""What tools print is bounded wherever memory keeps or shows it (taxonomy, Lifecycle Hooks)."""

from typing import Any

import pytest

from hmx_pipeline.contracts.limits import PROJECTED_EXCERPT
from hmx_pipeline.store.projection import commands_of
from hmx_pipeline.store.redis_keys import Keys
from tests.quality.remembered import both_stages
from tests.support.records import START_MS, event

PRINTED = "spam egg " * 7_300


@pytest.mark.requirement("T-10")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("command.completed", {"command": "make", "exit_code": 1, "outcome": "failed", "stdout_excerpt": PRINTED}),
        ("command.completed", {"command": "make", "exit_code": 0, "outcome": "passed", "stderr_excerpt": PRINTED}),
        ("tool.call.completed", {"tool_name": "shell", "status": "failed", "call_id": "c", "result_summary": PRINTED}),
        ("subagent.completed", {"subagent_session_id": "w", "status": "succeeded", "summary": PRINTED}),
        ("file.edit.applied", {"path": "core.py", "operation": "modified", "summary": PRINTED}),
        ("hook.checkpoint", {"summary": PRINTED, "reason": "manual"}),
    ],
)
def test_of_64_kb_that_a_tool_printed_memory_keeps_a_little_beside_the_event_itself(
    kind: str, content: dict[str, Any]
) -> None:
    records = both_stages([event("s", 0, at=START_MS - 60_000, event_type=kind, content=content)])
    assert all(len(record.value or b"") < 8_000 for record in records if record.topic != "hmx.episodes.v1")
    keys = Keys("")
    own = keys.tenant("acme").event(str(event("s", 0)["event_id"]))
    written = [part for command in commands_of(keys, records) if own not in command for part in command]
    assert max(len(part) for part in written if isinstance(part, bytes)) < 8_000
    if kind == "command.completed":
        said = b"".join(part for part in written if isinstance(part, bytes))
        assert b"spam" in said
        assert PRINTED[: PROJECTED_EXCERPT + 9].encode() not in said
