"""The reinforcement ledger: what four kinds of event leave of each memory, and what is malformed (taxonomy)."""

import random
from math import prod
from typing import Any

import pytest

from hmx_pipeline.contracts.ledger import WEIGHTS, Reinforced, memory_hash, salience
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from tests.support.records import START_MS, event
from tests.support.sessions import interleaved
from tests.support.talk import knowledge_of

A, B = memory_hash("a"), memory_hash("b")
DAY = 86_400_000
Record = dict[str, Any]


def said(kind: str, *hashes: str, **fields: Any) -> Record:
    targets = [{"seq": n, "hash": one} for n, one in enumerate(hashes, 1)]
    return {
        "kind": kind,
        "targets": targets,
        "source": {"checkout_id": "c"},
        "authority_status": "non_authoritative",
        **fields,
    }


def told(*contents: Record, session: str = "s", day: int = 0) -> list[Record]:
    at = START_MS - 30 * DAY + day * DAY
    return [
        event(session, n, at=at + 1_000 * n, event_type="memory.reinforcement", content=content)
        for n, content in enumerate(contents)
    ]


def ledger(events: list[Record]) -> dict[str, Record]:
    records = knowledge_of(events)
    assert {record["body"]["entity_type"] for record in records} <= {"reinforcement"}
    return {record["body"]["name"]: record["body"]["properties"] for record in records}


@pytest.mark.requirement("R-04")
def test_the_four_kinds_multiply_and_the_last_one_dates_them() -> None:
    events = told(*(said(kind, A) for kind in WEIGHTS), said("surfaced", A, B), said("surfaced", A, weight=2))
    found = ledger(events)
    assert found[A]["factor"] == round(prod(WEIGHTS.values()) * 1.05 * 2, 6)
    assert {kind: found[A][kind] for kind in WEIGHTS} == {
        "surfaced": 3,
        "confirmed": 1,
        "promoted": 1,
        "invalidated": 1,
    }
    assert milliseconds(found[A]["last_reinforced_at"]) == START_MS - 30 * DAY + 5_000
    assert found[B] == {"factor": 1.05, "surfaced": 1, "last_reinforced_at": format_ms(START_MS - 30 * DAY + 4_000)}


@pytest.mark.requirement("R-04")
def test_a_factor_stays_within_its_bounds() -> None:
    found = ledger([*told(*[said("promoted", A)] * 300), *told(*[said("invalidated", B)] * 300, session="t")])
    assert (found[A]["factor"], found[B]["factor"]) == (10.0, 0.01)


MALFORMED = [
    said("praised", A), said("", A), said("confirmed"), said("confirmed", "a" * 63), said("confirmed", A.upper()),
    said("confirmed", A, weight=0), said("confirmed", A, weight=-1), said("confirmed", A, weight=10.5),
    said("confirmed", A, weight="2"), said("confirmed", A, weight=True), said("confirmed", A, weight={"a": 2}),
    said("confirmed", A, authority_status="authoritative"), {**said("confirmed", A), "targets": {"seq": 1, "hash": A}},
    {**said("confirmed", A), "targets": [{"seq": 1, "hash": A}, {"seq": 0, "hash": B}]},
    {**said("confirmed", A), "targets": [{"hash": A}]}, {**said("confirmed", A), "targets": None},
]  # fmt: skip


@pytest.mark.requirement("R-04")
@pytest.mark.parametrize("content", MALFORMED)
def test_a_malformed_event_is_skipped_whole(content: Record) -> None:
    assert ledger(told(content)) == {}
    assert ledger(told(said("surfaced", A), content)) == ledger(told(said("surfaced", A)))


@pytest.mark.requirement("R-04")
def test_a_replay_rebuilds_the_ledger_exactly_whatever_session_comes_first() -> None:
    dice = random.Random(1)
    sessions = [
        told(
            *(said(dice.choice(list(WEIGHTS)), *dice.sample([A, B], dice.randint(1, 2))) for _ in range(9)),
            session=f"s{n}",
            day=n,
        )
        for n in range(6)
    ]
    first = knowledge_of(one for session in sessions for one in session)
    for seed in range(3):
        again = knowledge_of(interleaved(sessions, random.Random(seed)))
        assert sorted(again, key=lambda r: r["record_id"]) == sorted(first, key=lambda r: r["record_id"])


def shared(*told_by: tuple[str, Record]) -> Record:
    """What the tenant's ledger says of A, after what subjects have said, each in a session of its own."""
    events = [
        one | {"metadata": {"user_id": subject}}
        for n, (subject, content) in enumerate(told_by)
        for one in told(content, session=f"s{n}", day=n)
    ]
    records = [record for record in knowledge_of(events) if not record.get("subject_id")]
    return dict(records[0]["body"]["properties"]) if records else {}


def test_one_subject_does_not_turn_what_others_confirm() -> None:
    others = [("u1", said("confirmed", A)), ("u2", said("confirmed", A))]
    buried = said("confirmed", A, weight=0.01)
    assert shared(*others, ("u3", buried)) == {}, "nobody agrees with that weight"
    honest = shared(*others, ("u4", said("confirmed", A)))
    assert shared(*others, ("u4", said("confirmed", A)), ("u3", buried)) == honest
    assert honest["factor"] == round(1.5**3, 6)


def test_one_subject_counts_no_more_often_than_a_quorum_does() -> None:
    once = [(f"u{n}", said("surfaced", A)) for n in range(3)]
    again = [("u0", said("surfaced", A))] * 50
    assert shared(*once, *again)["factor"] == shared(*once)["factor"] == round(1.05**3, 6)
    twice = shared(*once, *once, *again)
    assert (twice["surfaced"], twice["factor"]) == (6, round(1.05**6, 6))


@pytest.mark.requirement("R-04")
def test_salience_halves_in_thirty_days_and_a_memory_nobody_saw_outranks_a_seen_one_not_for_ever() -> None:
    seen = Reinforced(1.05, START_MS)
    assert salience(seen, 0, START_MS) == 1.05
    assert salience(seen, 0, START_MS + 30 * DAY) == 1.05 / 2
    assert salience(Reinforced(), START_MS, START_MS + 30 * DAY) < salience(seen, START_MS, START_MS + 30 * DAY)
    assert salience(seen, 0, START_MS + 3_000 * DAY) == 0.01


ABOUT = {"entity_type": "decision", "entity_name": "Keep the trace"}


@pytest.mark.requirement("R-05")
@pytest.mark.parametrize(
    ("kind", "content", "reinforces"),
    [
        ("memory.feedback", {**ABOUT, "feedback": "helpful"}, "confirmed"),
        ("memory.feedback", {**ABOUT, "feedback": "irrelevant"}, None),
        ("memory.invalidated", ABOUT, "invalidated"),
        ("coordination.finding.promoted", {"finding_id": "f1"}, "promoted"),
    ],
)
def test_feedback_promotion_and_invalidation_reinforce_what_they_are_about(
    kind: str, content: Record, reinforces: str | None
) -> None:
    made = [
        ("decision.made", {"decision": "Keep the trace"}),
        ("coordination.finding.reported", {"finding_id": "f1", "summary": "It is slow."}),
        (kind, content),
    ]
    records = knowledge_of(event("s", n, event_type=one, content=told) for n, (one, told) in enumerate(made))
    entity = "finding" if "finding" in kind else "decision"
    (about,) = [one["record_id"] for one in records if one["body"].get("entity_type") == entity]
    ledger = {
        r["body"]["name"]: r["body"]["properties"] for r in records if r["body"].get("entity_type") == "reinforcement"
    }
    if reinforces is None:
        assert ledger == {}
        return
    assert ledger.keys() == {memory_hash(about)}
    assert (ledger[memory_hash(about)]["factor"], ledger[memory_hash(about)][reinforces]) == (WEIGHTS[reinforces], 1)


@pytest.mark.requirement("R-05")
@pytest.mark.parametrize(
    ("kind", "content"),
    [
        ("memory.feedback", {"feedback": "helpful"}),
        ("memory.feedback", {"feedback": "helpful", "entity_type": "decision"}),
        ("memory.invalidated", {"entity_name": "Keep the trace"}),
        ("skill.outcome_recorded", {"skill_id": "k", "task": "ship", "feedback": "used"}),
    ],
)
def test_what_names_no_entity_reinforces_none(kind: str, content: Record) -> None:
    records = knowledge_of([event("s", 0, event_type=kind, content=content)])
    assert not [one for one in records if one["body"].get("entity_type") == "reinforcement"]
