"""What is known to be unknown is found: by its topic, and by who asks what is open."""

from typing import Any

import pytest

from tests.quality.remembered import both_stages
from tests.support.memory import Memory
from tests.support.records import event
from tests.support.talk import said


def unknown(session: str, number: int, question: str, **fields: Any) -> dict[str, Any]:
    content = {"unknown_id": f"u{number}", "question": question, "reason": "Nobody looked.", "claim_key": f"k{number}",
               "gap_type": "missing_evidence", "status": "open", "authority_status": "non_authoritative",
               "source_events": [{"seq": 1, "hash": "a" * 64}]}  # fmt: skip
    return event(session, 0, event_type="metacognition.unknown.recorded", content=content, agent_id="ada", **fields)


@pytest.fixture
def asked(memory: Memory) -> Memory:
    talk = [*said("s3", "Our database is Postgres.", "We work in Oslo."), *said("s4", "The cache is warmed at noon.")]
    memory.write(
        *both_stages(
            [
                unknown("s1", 1, "Why does the payment webhook time out on Mondays?"),
                unknown("s2", 2, "Which region holds the audit bucket?"),
                *talk,
            ]
        )
    )
    return memory


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ("Why does the payment webhook time out?", "payment webhook"),
        ("audit bucket region", "audit bucket"),
        ("What do we not know yet?", "payment webhook"),
        ("Which questions are still open?", "payment webhook"),
        ("Which unknowns are there?", "audit bucket"),
        ("What is still unclear?", "audit bucket"),
        ("What is still unclear about the audit bucket?", "audit bucket"),
        ("Welche Fragen sind noch offen?", "audit bucket"),
        ("¿Qué preguntas abiertas hay?", "audit bucket"),
        ("Quelles sont les questions ouvertes ?", "audit bucket"),
        ("未解決の質問は何ですか", "audit bucket"),
    ],
)
def test_a_known_unknown_is_found(asked: Memory, query: str, wanted: str) -> None:
    told = [e.content for e in asked.pack(query, fill="relevant").entries]
    assert [one for one in told if wanted in one], told


@pytest.mark.requirement("R-11")
@pytest.mark.parametrize("status", ["validated", "proposed", "rejected"])
def test_a_pack_reads_skills_and_changes_nothing(memory: Memory, status: str) -> None:
    skill = {"skill_id": "t", "summary": "Write the failing test first.", "procedure": ["x"], "citations": ["e"]}
    memory.write(*both_stages([event("s", 0, event_type=f"skill.{status}", content=skill)]))
    before = memory.dump()
    entries = memory.pack("Write the failing test first", include=["diagnostic"]).entries
    assert any("failing test" in one.content for one in entries) == (status != "rejected")
    assert memory.dump() == before


def test_who_names_the_topic_is_told_the_one_that_is_about_it_first(asked: Memory) -> None:
    first, *_ = [
        e.content for e in asked.pack("What is still open about the payment webhook?", fill="relevant").entries
    ]
    assert "payment webhook" in first


def test_who_asks_for_something_known_is_told_no_unknown(asked: Memory) -> None:
    assert not [e for e in asked.pack("which database is it", fill="relevant").entries if "webhook" in e.content]
