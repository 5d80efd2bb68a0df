"""A handoff is found by whoever goes on, in no words of its own (taxonomy, Handoffs)."""

from typing import Any

import pytest

from tests.quality.remembered import both_stages
from tests.support.memory import Memory
from tests.support.records import START_MS, event
from tests.support.talk import said

DAY = 86_400_000


def handoff(session: str, day: int, **content: Any) -> dict[str, Any]:
    at = START_MS - 30 * DAY + day * DAY
    return event(session, 0, at=at, event_type="handoff.created", content=content, agent_id="ada")


@pytest.fixture
def handed_over(memory: Memory) -> Memory:
    older = handoff("s1", 1, title="Cart", summary="The cart is done.", next_steps=["Ask Bo"], risks=[])
    newer = handoff(
        "s2", 2, title="MCP", summary="The MCP server is online with temporal memory.",
        next_steps=["Add remote rate limiting", "Add local embeddings"], risks=["Traces are sparse"],
    )  # fmt: skip
    talk = [
        *said("s3", "Our database is Postgres.", "We work in Oslo."),
        *said("s4", "The last release was on Monday."),
    ]
    memory.write(*both_stages([older, newer, *talk]))
    return memory


@pytest.mark.requirement("T-04")
@pytest.mark.parametrize(
    "query",
    [
        "pick up where the last session stopped",
        "Continue where we left off",
        "Mach da weiter, wo die letzte Sitzung aufgehört hat",
        "Continúa donde lo dejamos",
        "Reprends là où nous en étions",
        "前回の続きから始めて",
    ],
)
def test_who_goes_on_is_told_the_next_steps_and_the_risks_of_the_last_handoff(handed_over: Memory, query: str) -> None:
    for fill in ("relevant", "budget"):
        told = [e.content for e in handed_over.pack(query, fill=fill).entries if "handoff" in e.content]
        for what in ("Add remote rate limiting", "Add local embeddings", "Traces are sparse"):
            assert what in told[0], (fill, told)


@pytest.mark.requirement("T-04")
def test_who_names_the_work_is_told_its_handoff(handed_over: Memory) -> None:
    told = [e.content for e in handed_over.pack("pick up where we left off with the cart", fill="relevant").entries]
    assert "handoff Cart" in told[0]


def test_who_asks_for_something_else_is_told_no_handoff(handed_over: Memory) -> None:
    assert not any("handoff" in e.content for e in handed_over.pack("which database is it", fill="relevant").entries)
