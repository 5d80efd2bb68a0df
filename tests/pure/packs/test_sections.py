"""What feeds each section, and what of it weighs how much (HMX-C §3.1, §5)."""

import pytest

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.packs.test_assemble import ask, distinct
from tests.pure.packs.test_drops import record
from tests.support.memory import T0, artifact, episode, fetched

POLICY = record("policy", "Always sign the release", kind="policy", body={"memory": "policy", "said_by": ["user"]})


def planted() -> MemorySnapshot:
    failed = {"error_type": "KubectlError", "message": "namespace staging not found"}
    said = fetched(
        [episode("said", "please deploy staging"), episode("failed", event_type="error", content=failed, index=1)],
        [
            artifact("procedure"),
            artifact("choice", "Which way", artifact_type="decision_policy", content={"recommendation": "Roll slowly"}),
        ],
    )
    records = [
        record("fact", "Staging is in Oslo"),
        record("goal", "We want to release weekly", body={"memory": "goal"}),
        record("entity", "service checkout", kind="entity"),
        record("relation", "checkout depends on ledger", kind="relation"),
        record("conflict", "It is Postgres; but also: It is MySQL", kind="conflict", status="unresolved"),
    ]
    begun = (Step(event_id="x", at=T0, role=Role.CALL, index=0, name="check", ok=True),)
    found = tuple(FoundSource(each, 1000) for each in records)
    return MemorySnapshot("v", T0, said.episodes, said.artifacts, found, (POLICY,), begun)


@pytest.mark.requirement("C-04")
def test_planted_material_fills_every_section_from_what_it_permits() -> None:
    entries = ask(planted(), session_id="s1").entries
    assert {entry.section for entry in entries} == set(Section)
    assert all(entry.source_type in entry.section.permitted for entry in entries)
    where = {entry.source_id: entry.section.value for entry in entries if entry.section is not Section.WORKFLOW}
    assert where == {
        "policy": "core",
        "choice": "constraints",
        "goal": "goals",
        "procedure": "procedures",
        "fact": "facts",
        "entity": "facts",
        "said": "episodes",
        "relation": "graph_relations",
        "conflict": "conflicts",
        "failed": "evidence",
    }


@pytest.mark.requirement("C-05")
@pytest.mark.parametrize("budget", [30, 100, 4096])
@pytest.mark.parametrize("query", ["deploy staging", "what is the weather", "was?"])
def test_a_standing_policy_is_in_every_pack_that_has_room_for_it(query: str, budget: int) -> None:
    first = ask(planted(), query=query, token_budget=budget).entries[0]
    assert (first.section, first.source_id) == (Section.CORE, "policy")


def test_that_a_session_ended_or_was_compacted_is_told_on_request_only() -> None:
    records = [
        record("end", "session end s", kind="entity", body={"entity_type": "session_end", "name": "s"}),
        record("compaction", "compaction run s", kind="entity", body={"entity_type": "compaction_run", "name": "s"}),
        record("ended", "s ended session s", kind="relation", body={"relation": "ended_session"}),
    ]
    memory = MemorySnapshot("v", T0, knowledge=tuple(FoundSource(each, 1000) for each in records))
    assert ask(memory, fill="budget").entries == []
    assert {e.section for e in ask(memory, fill="budget", include=["diagnostic"]).entries} == {Section.GRAPH_RELATIONS}


def test_a_rule_that_names_a_command_stands_only_where_the_procedure_or_the_question_is_about_it() -> None:
    said = {"kind": "policy", "body": {"memory": "policy", "said_by": ["user"]}}
    rules = [
        record("other", "Always run `crmctl call <customer>` before you lock a customer", **said),
        record("same", "Always run `check namespace` first", **said),
        record("all", "Never write to a customer at night", **said),
    ]
    memory = fetched([], [artifact("procedure")], policies=tuple(rules))
    assert {e.source_id for e in ask(memory).entries} == {"procedure", "same", "all"}
    assert {e.source_id for e in ask(memory, fill="budget").entries} == {"procedure", "same", "all", "other"}
    assert "other" in {e.source_id for e in ask(fetched([], [], policies=tuple(rules))).entries}


RULES = [
    record(f"rule-{i}", f"Always {text}", kind="policy", body={"memory": "policy", "said_by": ["user"]})
    for i, text in enumerate(
        ("answer in German", "ask before refunds", "sign the release", "use metric units", "name the ticket", "log it")
    )
]


@pytest.mark.requirement("C-05")
@pytest.mark.parametrize("budget", [150, 160])
def test_every_standing_policy_stands_before_what_is_more_relevant(budget: int) -> None:
    """As long as they take half of what there is at most."""
    talk = distinct(30, words=3)
    pack = ask(fetched(talk, policies=tuple(RULES)), token_budget=budget)
    assert {entry.source_id for entry in pack.entries} >= {rule.record_id for rule in RULES}
    many = [*RULES, *(record(f"more-{i}", f"Never do thing {i}", kind="policy", body=RULES[0].body) for i in range(40))]
    pack = ask(fetched(talk, policies=tuple(many)), token_budget=budget)
    assert len([entry for entry in pack.entries if entry.section is Section.EPISODES]) > 1


@pytest.mark.requirement("C-21")
def test_what_said_a_standing_policy_is_not_said_again() -> None:
    talk = fetched(
        [episode("said", "Always answer in German!"), episode("e2", "deploy it", index=1)], policies=(RULES[0],)
    )
    pack = ask(talk)
    assert [entry.source_id for entry in pack.entries] == ["rule-0", "e2"]
    assert [(drop.source_id, drop.drop_reason) for drop in pack.dropped_entries] == [("said", "duplicate")]


def test_who_said_a_standing_policy_that_finds_no_room_stands_for_it() -> None:
    """Half of what the sections' firsts leave is for rules; there is no room for the longer."""
    said = "Always " + " and ".join(f"do the thing numbered {n}" for n in range(12))
    rules = (RULES[0], record("long", said, kind="policy", body=RULES[0].body))
    asked = fetched([episode("said", said), *distinct(30, words=3)], policies=rules)
    assert {entry.source_id for entry in ask(asked, token_budget=1_000).entries} >= {"rule-0", "long"}
    pack = ask(asked, token_budget=130)
    assert {entry.source_id for entry in pack.entries} >= {"rule-0", "said"}
    reasons = {drop.source_id: drop.drop_reason for drop in pack.dropped_entries}
    assert reasons["long"] == "budget_exceeded"
    assert "duplicate" not in reasons.values()


@pytest.mark.requirement("E-14")
def test_of_twins_the_more_salient_comes_first_the_more_so_the_more_salience_weighs() -> None:
    twins = fetched(
        [episode("dull", "deploy it today", salience=0.1), episode("keen", "ship it today", salience=0.9, index=1)]
    )

    def scores(salience: float) -> dict[str, float]:
        pack = ask(twins, weights={"relevance": 0.4, "recency": 0.2, "provenance": 0.2, "salience": salience})
        return {entry.source_id: entry.relevance_score for entry in pack.entries}

    assert list(scores(0.2)) == ["keen", "dull"]
    assert list(scores(0.0)) == ["dull", "keen"]
    gaps = [scores(weight)["keen"] - scores(weight)["dull"] for weight in (0.1, 0.2, 0.4, 0.8)]
    assert gaps == sorted(gaps)
