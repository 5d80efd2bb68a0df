"""Skills and doubts in a pack: what may be followed, what is shown on request, and what never (taxonomy)."""

from dataclasses import replace
from typing import Any

import pytest

from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.memory_types import SKILL_STATUSES
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.compiler.test_taxonomy import DOUBTS, SKILL, told
from tests.pure.packs.test_assemble import ask
from tests.support.records import START_MS, event
from tests.support.talk import knowledge_of, said

Event = tuple[str, dict[str, Any]]
FOLLOWED = {"validated", "revised", "accepted"}
DOUBTFUL = {"proposed", "pending", "deferred"}


def remembering(*events: Event) -> MemorySnapshot:
    known = [KnowledgeRecord.model_validate(record) for record in told(*events)]
    return MemorySnapshot("v1", START_MS, knowledge=tuple(FoundSource(one, 1_000 - n) for n, one in enumerate(known)))


def asked(memory: MemorySnapshot, **fields: Any) -> ContextPack:
    return ask(memory, query="Write the failing test first", **fields)


def of(status: str, **fields: Any) -> Event:
    return f"skill.{status}", {**SKILL, **fields}


def texts(pack: ContextPack) -> dict[str, list[str]]:
    return {s: [e.content for e in pack.entries if e.section == s] for s in {e.section.value for e in pack.entries}}


@pytest.mark.requirement("R-11")
@pytest.mark.parametrize("status", SKILL_STATUSES)
def test_only_a_skill_that_applies_is_a_procedure_and_one_that_was_refused_is_never_served(status: str) -> None:
    memory = remembering(of(status))
    usual, asking = texts(asked(memory)), texts(asked(memory, include=["diagnostic"]))
    assert ("procedures" in usual) is (status in FOLLOWED)
    assert ("procedures" in asking) is (status in FOLLOWED | DOUBTFUL)
    assert usual.keys() <= {"procedures"}
    assert "facts" not in asking
    if status in FOLLOWED:
        (text,) = usual["procedures"]
        assert text.splitlines() == [
            "[hmx] Test first: Write the failing test first.",
            "When: Python features",
            "1. Write a test",
            "2. Run pytest",
        ]
    if status in DOUBTFUL:
        assert f"({status}, not validated)" in asking["procedures"][0]


@pytest.mark.requirement("R-11")
@pytest.mark.parametrize(
    "lacking", [{"citations": []}, {"stale": True}, {"valid_to": "2026-01-01T00:00:00Z"}, {"superseded_by": "2"}]
)
def test_a_validated_skill_that_cites_nothing_or_has_ended_is_excluded(lacking: dict[str, Any]) -> None:
    pack = asked(remembering(of("validated", **lacking)), include=["diagnostic"])
    assert "procedures" not in texts(pack)
    assert [drop.drop_reason.value for drop in pack.dropped_entries or () if drop.section == "procedures"] == [
        "deprecated"
    ]


@pytest.mark.requirement("R-11")
def test_the_five_best_skills_are_shown_and_what_is_rejected_later_leaves() -> None:
    many = [
        of("validated", skill_id=f"s{n}", name=f"{'abcdefgh'[n] * 9}", summary=f"{'stuvwxyz'[n] * 9}") for n in range(7)
    ]
    assert len(texts(asked(remembering(*many), fill="budget"))["procedures"]) == 5
    assert texts(asked(remembering(of("validated"), of("rejected")))) == {}
    assert "procedures" in texts(asked(remembering(of("validated"), ("skill.applied", SKILL))))


@pytest.mark.requirement("R-08", "R-09")
def test_what_memory_does_not_know_is_found_and_what_it_doubts_on_request_alone_never_as_a_fact() -> None:
    sure = {"authority_status": "non_authoritative"}
    memory = remembering(*((kind, {**content, **sure}) for kind, (_, content, _) in DOUBTS.items()))
    query = "Which backend caused the spike? Is it Redis? The api uses Redis."
    usual = texts(ask(memory, query=query))
    assert sorted(usual["graph_relations"]) == [
        "[hmx] known unknown (open): Which backend caused the spike?; It conflicts.",
        "[hmx] reverify request (open): Is it Redis?; It is old.",
    ]
    asking = texts(ask(memory, query=query, include=["diagnostic"], fill="budget"))
    assert any("The api uses Redis" in text for text in asking["graph_relations"])
    assert usual.keys() == asking.keys() == {"graph_relations"}


@pytest.mark.requirement("R-11")
def test_where_people_are_told_apart_a_skill_needs_an_agent_that_an_operator_trusts() -> None:
    """It tells everybody what to do, as a rule does."""
    kind, content = of("validated")
    told = [
        *said("s1", "My editor is vim.", metadata={"subject_id": "kim"}),
        event("s2", 0, event_type=kind, content=content, agent_id="anybody"),
    ]
    skills = [r for r in knowledge_of(told) if r["body"].get("entity_type") == "skill_version"]
    assert skills == []


def test_a_pack_that_asks_for_what_is_diagnostic_is_another_pack() -> None:
    memory = replace(remembering(of("proposed")), state_version="v1")
    assert asked(memory).pack_id != asked(memory, include=["diagnostic"]).pack_id
