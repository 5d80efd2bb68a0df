"""Why something is out of a pack: each reason for a known id, and what lets it in (HMX-C §8)."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from hmx_pipeline.compiler.lifecycle import DECAYED_MS
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.pack import ContextPack, DropReason
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.packs.test_assemble import ask, distinct
from tests.support.memory import T0, artifact, episode, fetched, procedure

DAY = 86_400_000
GONE = {"from": "active", "to": "deprecated", "cause": "contradicted: it went well in 1 of the last 10 sessions only"}


def record(name: str, text: str, **fields: Any) -> KnowledgeRecord:
    start = fields.pop("start", T0)
    end = fields.pop("end", None)
    return KnowledgeRecord.model_validate(
        {
            "record_id": name,
            "kind": "memory",
            "tenant_id": "acme",
            "pattern": f"fact/{name}",
            "text": text,
            "body": {"memory": "fact"},
            "confidence": 0.8,
            "status": "active" if end is None else "superseded",
            "source_events": ["e1"],
            "source_memory_ids": ["c1"],
            "tags": [],
            "created_at": format_ms(start),
            "validity": {"start": format_ms(start), **({} if end is None else {"end": format_ms(end)})},
            **fields,
        }
    )


def knowing(*records: KnowledgeRecord, newest: int = T0) -> MemorySnapshot:
    return MemorySnapshot("v1", newest, knowledge=tuple(FoundSource(each, 1000 - i) for i, each in enumerate(records)))


def drops(pack: ContextPack) -> dict[str, str]:
    return {drop.source_id: drop.drop_reason.value for drop in pack.dropped_entries or ()}


def ids(pack: ContextPack) -> list[str]:
    return [entry.source_id for entry in pack.entries]


def unsound(memory: MemorySnapshot, *names: str) -> MemorySnapshot:
    def seen(found: Any) -> Any:
        named = getattr(found.source, "artifact_id", None) or getattr(found.source, "record_id", None)
        return msgspec.structs.replace(found, sound=named not in names)

    return replace(memory, artifacts=tuple(map(seen, memory.artifacts)), knowledge=tuple(map(seen, memory.knowledge)))


@pytest.mark.requirement("C-21", "C-22", "X14")
def test_every_reason_drops_the_one_that_it_is_about() -> None:
    conflict = record(
        "c", "It is Postgres; but also: It is MySQL", kind="conflict", status="unresolved", pattern="fact/db"
    )
    memory = replace(
        knowing(
            record("sure", "It is Postgres", pattern="fact/db", confidence=0.8),
            record("unsure", "It is MySQL", pattern="fact/db", confidence=0.4),
            conflict,
            record("old", "We deploy on Fridays", end=T0, superseded_by="new"),
            record("lost", "Staging is in Oslo"),
        ),
        episodes=fetched(
            [episode("e1", "we deploy on friday"), episode("e2", "We deploy on Friday!", index=1)]
        ).episodes,
        artifacts=(
            FoundSource(artifact("kept", content=procedure("look", "roll")), 1000),
            FoundSource(artifact("gone", status="deprecated", metadata={"transition": GONE}), 1000),
            FoundSource(artifact("stale", created_at=format_ms(T0 - DECAYED_MS - 1)), 1000),
            FoundSource(artifact("forged", "Deploy faster", content=procedure("run", "hope")), 1000),
            FoundSource(artifact("far", "Bake bread", content=procedure("knead")), 10),
        ),
    )
    pack = ask(unsound(memory, "forged", "lost"), explain=True)
    assert drops(pack) == {
        "unsure": "conflict",
        "old": "deprecated",
        "lost": "provenance_failed",
        "e2": "duplicate",
        "gone": "deprecated",
        "stale": "deprecated",
        "forged": "provenance_failed",
        "far": "low_relevance",
    }
    assert {"sure", "c", "kept", "e1"} == set(ids(pack))
    because = {one["source_id"]: one["because"] for one in pack.metadata["explained"]["drops"]}
    assert because["old"] == "new has replaced it"
    assert because["gone"] == f"it is deprecated: {GONE['cause']}"
    assert because["e2"] == "e1 says the same"
    assert because["stale"] == "no evidence has supported it for a year"
    assert because["unsure"] == "what contradicts it is surer: 0.8"


def test_of_two_sides_that_are_as_sure_both_stay_beside_their_conflict() -> None:
    sides = [record("s1", "It is Postgres", pattern="fact/db"), record("s2", "It is MySQL", pattern="fact/db")]
    both = record("c", "It is Postgres; but also: It is MySQL", kind="conflict", status="unresolved", pattern="fact/db")
    assert sorted(ids(ask(knowing(*sides, both)))) == ["c", "s1", "s2"]
    settled = record("s2", "It is MySQL", pattern="fact/db", confidence=0.1)
    assert sorted(ids(ask(knowing(sides[0], settled)))) == ["s1", "s2"], "nobody says that they exclude each other"


@pytest.mark.requirement("C-22")
def test_what_a_rule_forbids_is_not_recommended() -> None:
    content = {"recommendation": "Push to main directly"}
    memory = replace(
        fetched([], [artifact("d1", "How to push", artifact_type="decision_policy", content=content)]),
        policies=(
            record(
                "rule",
                "Never push to main directly",
                kind="policy",
                body={"subject": "push to main directly", "negated": True, "said_by": ["user"]},
            ),
        ),
    )
    pack = ask(memory)
    assert drops(pack) == {"d1": "conflict"}
    assert [each.artifact_id for each in pack.decision_constraints or ()] == ["rule"]
    wanted = memory.policies[0].model_copy(update={"body": {"subject": "push to main directly", "negated": False}})
    assert not drops(ask(replace(memory, policies=(wanted,))))
    content["recommendation"] = "Don't push to main directly; open a request"
    agreeing = artifact("d1", "How to push", artifact_type="decision_policy", content=content)
    assert not drops(ask(replace(fetched([], [agreeing]), policies=memory.policies)))


@pytest.mark.requirement("C-20")
@pytest.mark.parametrize("budget", [100, 200, 500])
def test_the_budget_that_the_explanation_names_lets_a_drop_in(budget: int) -> None:
    memory = fetched(distinct(12), [artifact(f"a{i}", content=procedure(f"x{i} y{i} z{i}")) for i in range(4)])
    pack = ask(memory, token_budget=budget, explain=True)
    told = {one["source_id"]: one for one in pack.metadata["explained"]["drops"]}
    tight = [drop for drop in pack.dropped_entries or () if drop.drop_reason is DropReason.BUDGET_EXCEEDED]
    assert tight
    for drop in tight:
        larger = ask(memory, token_budget=told[drop.source_id]["budget"])
        entered = next(entry for entry in larger.entries if entry.source_id == drop.source_id)
        assert (entered.token_estimate, entered.relevance_score) == (drop.token_estimate, drop.relevance_score)


@pytest.mark.requirement("C-20")
def test_a_drop_enters_at_its_rank_where_the_budget_allows() -> None:
    """In one section, of entries as long as each other, so that what is placed is what is best."""
    memory = fetched([episode(f"e{i}", f"w{i}a w{i}b w{i}c w{i}d deploy", index=i) for i in range(10, 22)])
    pack = ask(memory, token_budget=120)
    waiting = {drop.source_id: drop.rank for drop in pack.dropped_entries or ()}
    assert 2 < len(waiting) < 12
    larger = {entry.source_id: entry.rank for entry in ask(memory, token_budget=4_096).entries}
    assert waiting == {name: larger[name] for name in waiting}


def test_an_explanation_says_what_a_score_is_made_of() -> None:
    pack = ask(
        fetched([episode("e1", "deploy staging now", salience=0.9)]),
        explain=True,
        weights={"salience": 1.0, "relevance": 0.0, "recency": 0.0, "provenance": 0.0},
    )
    (why,) = pack.metadata["explained"]["entries"]
    assert why == {
        "rank": 1,
        "source_id": "e1",
        "matched": ["deploy", "stage"],
        "score": {"relevance": 1.0, "recency": 1.0, "provenance": 1.0, "salience": 0.9},
    }
    assert pack.entries[0].relevance_score == 0.9
    assert pack.metadata["explained"]["sections"] == {"episodes": 1.0}
    assert "explained" not in ask(fetched([episode("e1")])).metadata


@pytest.mark.requirement("C-25")
def test_a_pack_that_explains_itself_keeps_its_bounds() -> None:
    pack = ask(fetched(distinct(400, 150)), token_budget=1_000_000, explain=True)
    assert len(pack.to_json()) <= 256 * 1024
    assert len(pack.dropped_entries or ()) <= 100
    assert pack.assembly_metadata.candidate_count == len(pack.entries) + pack.token_budget.dropped_count


VERSIONS = [
    artifact("v1", content=procedure("one"), version=1, created_at=format_ms(T0 - 30 * DAY), status="superseded",
             superseded_by="v2", updated_at=format_ms(T0),
             metadata={"pattern": "p", "chain": 1, "transition": {"from": "active"}}),
    artifact("v2", content=procedure("two"), version=2, created_at=format_ms(T0 - 10 * DAY), supersedes="v1",
             metadata={"pattern": "p", "chain": 1}),
    artifact("arch", content=procedure("old way"), status="archived", created_at=format_ms(T0 - 40 * DAY),
             updated_at=format_ms(T0 - 5 * DAY), metadata={"pattern": "q", "transition": {"from": "active"}}),
    artifact("draft", content=procedure("new way"), status="draft", created_at=format_ms(T0 - 40 * DAY)),
]  # fmt: skip


@pytest.mark.requirement("C-22")
def test_superseded_and_archived_sources_are_shown_on_request_alone_and_drafts_never() -> None:
    memory = fetched([], VERSIONS)
    assert set(ids(ask(memory))) == {"v2"}
    assert set(ids(ask(memory, include=["archived"]))) == {"v2", "arch"}
    assert set(ids(ask(memory, include=["superseded"]))) == {"v2", "v1"}
    assert set(ids(ask(memory, include=["superseded", "archived"]))) == {"v2", "v1", "arch"}
    facts = knowing(record("old", "It was Oslo", end=T0), record("new", "It is Bergen"))
    assert ids(ask(facts)) == ["new"]
    assert set(ids(ask(facts, include=["superseded"]))) == {"old", "new"}


def test_an_earlier_version_that_differs_in_a_word_is_shown_beside_the_one_that_holds() -> None:
    def steps(last: str) -> dict[str, Any]:
        return procedure(*(f"do thing{n} carefully" for n in range(9)), last)

    told = {"metadata": {"pattern": "p", "chain": 1, "transition": {"from": "active"}}}
    versions = [
        artifact("v2", content=steps("verify it"), version=2, supersedes="v1"),
        artifact("v1", content=steps("check it"), status="superseded", superseded_by="v2", **told),
    ]
    memory = fetched([], versions)
    assert ids(ask(memory)) == ["v2"]
    assert set(ids(ask(memory, include=["superseded"]))) == {"v1", "v2"}
    twins = fetched([], [versions[0], artifact("v3", content=steps("check it"))])
    assert drops(ask(twins)) == {"v3": "duplicate"}


def test_a_pack_as_of_some_time_holds_what_stood_then() -> None:
    memory = fetched([], VERSIONS)

    def then(days: int) -> set[str]:
        return set(ids(ask(memory, as_of=format_ms(T0 - days * DAY))))

    assert then(0) == {"v2"}
    assert then(7) == {"v2", "arch"}
    assert then(20) == {"v1", "arch"}
    assert then(35) == {"arch"}
    assert then(50) == set()


def test_as_of_counts_for_what_was_said_and_known_and_for_the_questions_own_times() -> None:
    said = [episode(f"e{i}", f"word{i} deploy", at=T0 - i * DAY, index=i) for i in range(5)]
    facts = knowing(
        record("old", "It was Oslo", start=T0 - 9 * DAY, end=T0 - 3 * DAY),
        record("new", "It is Bergen", start=T0 - 3 * DAY),
    )
    memory = replace(fetched(said), knowledge=facts.knowledge)
    pack = ask(memory, query="what did we deploy yesterday", as_of=format_ms(T0 - 4 * DAY))
    assert set(ids(pack)) == {"e4", "old"}
    assert pack.created_at == format_ms(T0 - 4 * DAY)
    asked_about = pack.assembly_metadata.query_classification.time_ref
    assert asked_about == "2026-03-09T00:00:00.000Z/2026-03-10T00:00:00.000Z"
    later = ask(memory, as_of=format_ms(T0 + DAY))
    assert later.created_at == format_ms(T0), "nothing is known of the time after the newest event"
    assert "new" in ids(later)
    assert "old" not in ids(later)


def test_what_has_expired_is_not_brought_back_by_asking_for_the_past() -> None:
    told = episode("e1", "the code is 1234", at=T0 - DAY, ttl_seconds=60)
    assert ids(ask(fetched([told]), as_of=format_ms(T0 - DAY))) == []


def test_a_turn_that_says_little_else_than_what_was_replaced_is_out_for_the_same_reason() -> None:
    old = "Our database is Postgres"
    much = f"{old}, and please tell everybody on the team that the review is at noon, with coffee"
    told = fetched([episode("e1", f"{old}."), episode("e2", much, index=1), episode("e3", f"Yes: {old}.", index=2)])
    replaced = record("old", old, end=T0, source_events=["e1", "e2", "e3"], superseded_by="new")
    holding = record("other", "The team answers yes", source_events=["e3"])
    memory = replace(told, knowledge=(FoundSource(replaced, 1000), FoundSource(holding, 900)))
    pack = ask(memory, token_budget=10_000)
    assert drops(pack) == {"old": "deprecated", "e1": "deprecated"}
    assert {"e2", "e3"} <= set(ids(pack))
    asked_for = ask(memory, token_budget=10_000, include=["superseded"])
    assert "old" in ids(asked_for)
    assert drops(asked_for) == {"e1": "duplicate", "e3": "duplicate"}, (
        "the record says it, and since when it does not hold"
    )
    assert "e1" in ids(ask(replace(memory, knowledge=()), token_budget=10_000))


OWNED = "The {} service is owned by team Red in the Berlin office and answers on port 8080"


@pytest.mark.parametrize("kind", ["memory", "policy"])
def test_statements_about_different_things_are_no_duplicates_however_many_words_they_share(kind: str) -> None:
    memory = knowing(*(record(name, OWNED.format(name), kind=kind) for name in ("billing", "payments")))
    told = ask(memory, query="Who owns the service in Berlin?", as_text=True)
    assert ids(told) == ["billing", "payments"]
    assert all(OWNED.format(name) in told.metadata["as_text"] for name in ("billing", "payments"))


def test_what_the_question_names_is_in_the_text_even_if_another_fact_says_the_rest() -> None:
    said = [episode("e9", OWNED.format("payments"))]
    memory = fetched(said, knowledge=knowing(record("billing", OWNED.format("billing"))).knowledge)
    told = ask(memory, query="Who owns the payments service?", as_text=True).metadata["as_text"]
    assert OWNED.format("payments") in told
