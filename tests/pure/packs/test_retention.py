"""What an event says of how long, and how much, it is worth remembering (taxonomy, retention metadata)."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.ledger import FLOOR, Reinforced, felt
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.queries.knowledge_query import RulingError, RulingRequest, make_ruling
from hmx_pipeline.retrieval.encoding import encoding
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot, artifact_components
from hmx_pipeline.retrieval.times import TimeSpan
from tests.pure.compiler.test_taxonomy import told
from tests.pure.packs.test_assemble import ask
from tests.support.inprocess import artifacts_of
from tests.support.memory import artifact, episode, fetched
from tests.support.records import START_MS
from tests.support.sessions import session
from tests.support.talk import knowledge_of, said

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


def saying(session: str, text: str, salience: float | None) -> dict[str, Any]:
    (turn,) = said(session, text, at=int(session[1:]))
    return turn if salience is None else {**turn, "salience": salience}


def facts(pack: ContextPack) -> list[str]:
    return [entry.content for entry in pack.entries if entry.section == "facts"]


@pytest.mark.requirement("E-14")
@pytest.mark.parametrize("weight", [1.0, 0.2])
def test_of_twin_facts_the_one_whose_events_are_more_salient_comes_first(weight: float) -> None:
    twins = ("The billing service runs on Nomad.", "The search service runs on Nomad.")
    for low, high in (twins, twins[::-1]):
        known = knowledge_of([saying("s0", low, 0.1), saying("s1", high, 0.9)])
        found = [FoundSource(KnowledgeRecord.model_validate(one), 1_000) for one in known]
        pack = ask(
            MemorySnapshot("v1", START_MS, knowledge=tuple(found)),
            query="which service runs on Nomad",
            weights={"relevance": 1 - weight, "recency": 0, "provenance": 0, "salience": weight},
        )
        assert [high.rstrip(".") in text for text in facts(pack)] == [True, False]


@pytest.mark.requirement("E-14")
def test_the_salience_of_its_events_weighs_in_an_artifact() -> None:
    def told(salience: float | None) -> dict[str, Any]:
        events = [turn if salience is None else {**turn, "salience": salience} for n in range(8) for turn in session(n)]
        return max((a for a in artifacts_of(events) if a["artifact_type"] == "task_schema"), key=lambda a: a["version"])

    low, high, none = (Artifact.model_validate(told(salience)) for salience in (0.1, 0.9, None))
    assert low.content_hash == high.content_hash == none.content_hash
    assert (low.metadata["salience"], high.metadata["salience"]) == (0.1, 0.9)
    assert "salience" not in none.metadata
    saliences = [artifact_components(one, 1.0, TimeSpan(START_MS, None)).salience for one in (low, high, none)]
    assert saliences[0] < saliences[1]


@pytest.mark.requirement("E-14")
def test_where_no_event_tells_its_salience_records_say_nothing_of_it() -> None:
    (record,) = knowledge_of([saying("s0", "Our database is Postgres.", None)])
    assert "salience" not in record["body"]


TWO = [("decision.made", {"decision": f"Keep the {what}", "summary": "It helps."}) for what in ("trace", "tests")]


@pytest.mark.requirement("R-02")
@pytest.mark.parametrize("chosen", ["trace", "tests"])
def test_importance_changes_the_order_alone(chosen: str) -> None:
    aimed = {"entity_name": f"Keep the {chosen}", "entity_type": "decision", "importance": 1.0}
    other = {**aimed, "entity_name": "Keep the tests" if chosen == "trace" else "Keep the trace", "importance": 0.0}
    plain = facts(ask(remembering(*TWO), query="keep what helps"))
    raised = facts(
        ask(remembering(*TWO, ("memory.reinforced", aimed), ("memory.reinforced", other)), query="keep what helps")
    )
    assert sorted(raised) == sorted(plain)
    assert chosen in raised[0]


@pytest.mark.requirement("R-03", "X26")
def test_feedback_that_a_memory_was_irrelevant_leaves_packs_as_they_were() -> None:
    no = {"entity_name": "Keep the trace", "entity_type": "decision", "feedback": "irrelevant"}
    plain, heard = (
        ask(remembering(*TWO, *more), query="keep what helps") for more in ([], [("memory.feedback", no)] * 3)
    )
    shown = [(e.section, e.content, e.relevance_score) for e in heard.entries]
    assert shown == [(e.section, e.content, e.relevance_score) for e in plain.entries]


def shown(pack: ContextPack) -> list[str]:
    return [entry.source_id for entry in pack.entries]


@pytest.mark.requirement("R-06")
def test_the_ledger_changes_the_order_alone_and_in_the_cognitive_profile_alone() -> None:
    memory = remembering(*TWO, ("handoff.created", {"title": "Keep", "summary": "What helps is kept."}))
    turns = fetched(
        [episode(f"e{n}", f"keep what helps number {word}", index=n) for n, word in enumerate(("one", "two"))]
    )
    memory = replace(
        memory, episodes=turns.episodes, artifacts=fetched([], [artifact("a1"), artifact("a2", "Keep")]).artifacts
    )
    plain = ask(memory, query="keep what helps", fill="budget")
    raised = {"e1": Reinforced(10.0, START_MS), plain.entries[-1].source_id: Reinforced(9.0, START_MS)}
    raised |= {plain.entries[0].source_id: Reinforced(0.01, START_MS)}
    known = replace(memory, ledger=raised)
    ordered = ask(known, query="keep what helps", fill="budget", profile="cognitive")
    assert sorted(shown(ordered)) == sorted(shown(plain))
    assert shown(ordered) != shown(plain)
    assert shown(ordered).index("e1") < shown(ordered).index("e0")
    assert [e.content for e in ordered.entries if e.source_id == "e1"] == [
        e.content for e in plain.entries if e.source_id == "e1"
    ]
    assert ask(memory, query="keep what helps", fill="budget").to_json() == plain.to_json()
    faded = replace(memory, ledger={name: Reinforced(0.01, 0) for name in shown(plain)})
    assert sorted(shown(ask(faded, query="keep what helps", fill="budget", profile="cognitive"))) == sorted(
        shown(plain)
    )


def ranked(first: dict[str, Any], second: dict[str, Any], faded: bool, **asked: Any) -> list[str]:
    """The texts of two decisions that answer alike, with these fields in their events, as the profile orders them."""
    memory = remembering(
        *((kind, {**content, **more}) for (kind, content), more in zip(TWO, (first, second), strict=True))
    )
    names = [found.source.record_id for found in memory.knowledge]
    ledger = {name: Reinforced(0.2, START_MS - 90 * 24 * HOUR) for name in names} if faded else {}
    return facts(ask(replace(memory, ledger=ledger), query="keep what helps", profile="cognitive", **asked))


@pytest.mark.requirement("R-07")
@pytest.mark.parametrize("kept", [{"pinned": True}, {"authority_status": "accepted"}])
@pytest.mark.parametrize("first", [True, False])
def test_what_is_pinned_does_not_fall_below_the_floor(kept: dict[str, Any], first: bool) -> None:
    one, other = ({"pinned": True}, {}) if first else ({}, {"pinned": True})
    below = ranked(one, other, faded=True)
    assert len(below) == 2, "what is below the floor is still there"
    assert ("trace" if first else "tests") in below[0]
    assert sorted(below) == sorted(ranked({}, {}, faded=True))
    assert felt(1.0, 0.14, kept, {}) == felt(1.0, FLOOR, {}, {}) > felt(1.0, 0.14, {}, {})
    assert felt(1.0, FLOOR, kept, {}) == felt(1.0, FLOOR, {}, {}), "above the floor it changes nothing"


@pytest.mark.requirement("R-07")
@pytest.mark.parametrize("first", [True, False])
def test_what_was_learnt_under_the_cues_of_the_question_ranks_higher(first: bool) -> None:
    here, there = {"cues": {"mission": "m1", "phase": "build"}}, {"cues": {"mission": "m2", "phase": 7}}
    one, other = (here, there) if first else (there, here)
    asked = ranked(one, other, faded=False, cues={"mission": "m1", "phase": "build"})
    assert ("trace" if first else "tests") in asked[0]
    assert sorted(asked) == sorted(ranked(one, other, faded=False))
    assert felt(0.5, 10.0, {"cues": ["mission=m1"]}, {"mission": "m1"}) == 0.75
    assert felt(0.9, 10.0, {"cues": ["mission=m1"]}, {"mission": "m1"}) == 1.0
    assert felt(0.5, 10.0, {"cues": ["mission=m1", "tool=t"]}, {"mission": "m1"}) == 0.625


@pytest.mark.requirement("R-07")
def test_cues_and_pins_change_nothing_in_the_usual_profile() -> None:
    marked = [(kind, {**content, "pinned": True, "cues": {"tool": "t"}}) for kind, content in TWO]
    plain, told = (ask(remembering(*events), query="keep what helps") for events in (TWO, marked))
    assert [(e.content, e.relevance_score) for e in plain.entries] == [
        (e.content, e.relevance_score) for e in told.entries
    ]


@pytest.mark.requirement("R-07")
@pytest.mark.parametrize(
    ("text", "hits", "tag"),
    [
        ("keep the trace of runs", ["keep the trace of runs"], "redundant"),
        ("keep the trace of all runs and tests", ["keep the trace of all runs"], "reinforcing"),
        ("keep Kafka3 trace runs here", ["drop Kafka3 trace runs there now"], "reinforcing"),
        ("keep Kafka3 trace runs here", ["drop Redis7 trace runs there now"], "novel"),
        ("keep the trace", ["x"] * 5 + ["keep the trace"], "novel"),
        ("keep the trace", [], "novel"),
        ("", ["keep"], "novel"),
    ],
)
def test_the_encoding_tag_says_how_near_the_nearest_of_five_is(text: str, hits: list[str], tag: str) -> None:
    assert encoding(text, hits) == tag


def test_what_has_expired_cannot_be_confirmed_and_is_said_so() -> None:
    kind, end = "decision.made", 1_788_220_800_000
    memory = remembering((kind, {**KEPT[kind], "expires_at": format_ms(end)}), newest=end)
    (record,) = (orjson.loads(found.source.to_json()) for found in memory.knowledge if found.source.kind == "entity")
    assert make_ruling(record, RulingVerb.CONFIRM, RulingRequest(), end - 1).verb is RulingVerb.CONFIRM
    with pytest.raises(RulingError, match="it expired at 2026-09-01"):
        make_ruling(record, RulingVerb.CONFIRM, RulingRequest(), end)
    assert make_ruling(record, RulingVerb.RETRACT, RulingRequest(), end).verb is RulingVerb.RETRACT
