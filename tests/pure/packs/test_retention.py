"""What an event says of how long, and how much, it is worth remembering (taxonomy, retention metadata)."""

from typing import Any

import pytest

from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.compiler.test_taxonomy import told
from tests.pure.packs.test_assemble import ask
from tests.support.records import START_MS

HOUR = 3_600_000
Event = tuple[str, dict[str, Any]]


def remembering(*events: Event, newest: int = START_MS) -> MemorySnapshot:
    known = [KnowledgeRecord.model_validate(record) for record in told(*events)]
    found = tuple(FoundSource(one, 1_000) for one in known)
    policies = tuple(one for one in known if one.kind == "policy")
    return MemorySnapshot("v1", newest, knowledge=found, policies=policies)


KEPT: dict[str, dict[str, Any]] = {
    "goal.created": {"title": "Ship 1.0", "description": "By May."},
    "task.proposed": {"taskId": "t1", "summary": "Ship 1.0 notes."},
    "decision.made": {"decision": "Ship 1.0 from main", "summary": "It is stable."},
    "context.policy": {"project": "Vero", "instructions": ["Never ship 1.0 on Fridays."]},
    "user.preference_changed": {"userId": "kim", "key": "theme", "value": "dark"},
    "state_change": {"key": "ship_target", "to": "green"},
    "x-acme-thing": {"ship": "1.0"},
}


@pytest.mark.requirement("R-01")
@pytest.mark.parametrize("kind", KEPT)
@pytest.mark.parametrize("until", ["2026-09-01T00:00:00Z", "2026-09-01T02:00:00+02:00"])
def test_what_has_expired_leaves_packs_by_log_time_and_no_record_changes(kind: str, until: str) -> None:
    """The records are the same before and after: only what is newest in the log differs."""
    content = {**KEPT[kind], "expires_at": until}
    end = 1_788_220_800_000
    assert format_ms(end) == "2026-09-01T00:00:00.000Z"
    before, after = (remembering((kind, content), newest=at) for at in (end - 1, end))
    assert before.knowledge == after.knowledge
    assert ask(before, query="ship", fill="budget").entries
    gone = ask(after, query="ship", fill="budget")
    assert not gone.entries
    assert not gone.decision_constraints
    assert {drop.drop_reason.value for drop in gone.dropped_entries or ()} == {"deprecated"}
    assert ask(after, query="ship", fill="budget", as_of=format_ms(end - 1)).entries


@pytest.mark.requirement("R-01")
@pytest.mark.parametrize("bad", ["tomorrow", 5, None, ["2026-09-01T00:00:00Z"], ""])
def test_what_is_no_time_ends_nothing(bad: Any) -> None:
    memory = remembering(("decision.made", {**KEPT["decision.made"], "expires_at": bad}), newest=START_MS * 2)
    assert ask(memory, query="ship", fill="budget").entries


@pytest.mark.requirement("R-01")
def test_importance_lies_between_0_and_1_and_a_count_stays_as_it_was_said() -> None:
    content = {**KEPT["decision.made"], "importance": 7, "reinforcement_count": 3}
    (entity,) = [one for one in told(("decision.made", content)) if one["kind"] == "entity"]
    assert entity["body"]["properties"] == {"importance": 1.0, "reinforcement_count": 3}
