"""A fingerprint is made of what was learnt: the same each time, within its tier, and without anybody's own words."""

import random
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import orjson
import pytest
from jsonschema import Draft202012Validator

from hmx_pipeline.compiler.usage_counts import REST
from hmx_pipeline.contracts.fingerprint import PARTS, Fingerprint, Tier, fingerprint_hash
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import Kind, Standing
from hmx_pipeline.contracts.schemas import documents
from hmx_pipeline.fingerprints.contents import ActionCounts, UsageCounts, of_agent
from hmx_pipeline.fingerprints.make import fingerprint
from tests.support.learnt import decided, history, learnt_of, learnt_of_history
from tests.support.records import START_MS, event
from tests.support.sessions import interleaved, session

SCHEMA = Draft202012Validator(documents()["fingerprint.json"])
LETTERS = "bcdfghjklmnpqrstvwxz"


def whispered(events: list[dict[str, Any]], number: int, canaries: list[str]) -> list[dict[str, Any]]:
    """The same events, each with a word of its own wherever it has words, but for the service, which the goal names as
    well: what a call takes from nowhere makes no procedure. Every third session's calls say something more."""
    dice = random.Random(number)

    def marked(value: Any) -> Any:
        if isinstance(value, dict):
            kept = ("tool_name", "error_type", "call_id", "role", "signal", "command", "outcome", "service")
            if "service" in value and number % 3 == 0:
                value = {**value, "note": "As always"}
            return {key: inner if key in kept else marked(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [marked(inner) for inner in value]
        if not isinstance(value, str):
            return value
        canaries.append("zq" + "".join(dice.choices(LETTERS, k=10)))
        return f"{value} “{canaries[-1]}” {canaries[-1]}"

    return [{**each, "content": marked(each["content"])} for each in events]


@pytest.fixture(scope="module")
def made() -> dict[Tier, Fingerprint]:
    learnt = learnt_of_history()
    return {tier: fingerprint(learnt, tier) for tier in Tier}


@pytest.mark.requirement("F-01", "X22")
def test_a_tier_holds_its_parts_and_all_five_are_always_there(made: dict[Tier, Fingerprint]) -> None:
    for tier, one in made.items():
        told = orjson.loads(one.to_json())
        SCHEMA.validate(told)
        assert told["compression_tier"] == tier
        assert all(isinstance(told[part], dict) for part in PARTS)
    full, compact, minimal = made[Tier.FULL], made[Tier.COMPACT], made[Tier.MINIMAL]
    assert {one.status for one in compact.artifact_summaries.artifacts} == {"active"}
    assert {one.status for one in full.artifact_summaries.artifacts} >= {"active", "draft"}
    assert full.graph_digest.nodes
    assert compact.graph_digest.entities == full.graph_digest.entities
    assert not compact.graph_digest.nodes
    assert compact.behavioral_patterns == full.behavioral_patterns != minimal.behavioral_patterns
    assert full.semantic_summary == minimal.semantic_summary != compact.semantic_summary
    assert full.context_priors == minimal.context_priors
    assert minimal.context_priors.patterns.keys() == {one.pattern for one in compact.artifact_summaries.artifacts}
    assert not minimal.artifact_summaries.artifacts
    sizes = [len(one.to_json()) for one in (full, compact, minimal)]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.requirement("F-02")
def test_what_was_done_is_counted_as_the_events_say(made: dict[Tier, Fingerprint]) -> None:
    events = history()
    calls = Counter(each["content"]["tool_name"] for each in events if each["event_type"] == "tool_call")
    results = [each["content"] for each in events if each["event_type"] == "tool_result"]
    failed = Counter(result["tool_name"] for result in results if not result["success"])
    told = made[Tier.COMPACT].behavioral_patterns
    assert {name: use.calls for name, use in told.tools.items()} == calls
    assert {name: use.failed for name, use in told.tools.items() if use.failed} == failed
    assert told.calls == calls.total()
    assert told.error_rate == round(failed.total() / len(results), 6)
    for name, use in told.tools.items():
        assert use.frequency == round(calls[name] / calls.total(), 6)
        assert use.error_rate == round(failed[name] / calls[name], 6)
    errors = Counter(each["content"]["error_type"] for each in events if each["event_type"] == "error")
    assert told.errors == errors
    assert told.sessions == len({each["session_id"] for each in events})
    chosen = [each["content"]["chosen_option"] for each in events if each["event_type"] == "decision"]
    assert sorted(told.decisions.values(), key=len) == [{"rolling": 9}, {"blue-green": 4, "canary": 5}]
    assert sum(n for options in told.decisions.values() for n in options.values()) == len(chosen)


def test_what_only_one_session_has_chosen_has_no_name() -> None:
    events = [*decided(0), *decided(2), *decided(1)]
    told = fingerprint(learnt_of(events)[0], Tier.FULL).behavioral_patterns.decisions
    assert sorted(told.values(), key=len) == [{"rolling": 3}, {"canary": 2, REST: 1}]


def test_what_only_one_person_has_chosen_has_no_name_in_however_many_sessions() -> None:
    learnt = learnt_of([*decided(0), *decided(2), *decided(1)])[0]
    alone = replace(learnt, conduct=[msgspec.structs.replace(each, subject="ann") for each in learnt.conduct])
    assert fingerprint(alone, Tier.FULL).behavioral_patterns.decisions == {}


@pytest.mark.requirement("F-04")
def test_the_same_log_gives_the_same_fingerprint_however_it_comes_together(made: dict[Tier, Fingerprint]) -> None:
    for seed in range(3):
        again, _ = learnt_of(history(), dice=random.Random(seed))
        assert {tier: fingerprint(again, tier).to_json() for tier in Tier} == {
            tier: one.to_json() for tier, one in made.items()
        }
    for one in made.values():
        assert one.fingerprint_hash == fingerprint_hash({name: getattr(one, name) for name in PARTS})


@pytest.mark.requirement("F-04")
def test_a_fingerprint_that_was_changed_is_no_fingerprint(made: dict[Tier, Fingerprint]) -> None:
    told = orjson.loads(made[Tier.COMPACT].to_json())
    told["artifact_summaries"]["artifacts"][0]["title"] += "!"
    with pytest.raises(ValueError, match="fingerprint_hash"):
        Fingerprint.model_validate(told)


@pytest.mark.requirement("F-05")
def test_no_word_of_a_single_session_is_in_it() -> None:
    canaries: list[str] = []
    sessions = [whispered([*session(n), *decided(n)], n, canaries) for n in range(60)]
    learnt, _ = learnt_of(interleaved(sessions, 1))
    assert len(canaries) > 400
    for tier in Tier:
        told = fingerprint(learnt, tier)
        assert told.artifact_summaries.artifacts or tier is Tier.MINIMAL
        text = told.to_json().decode()
        assert [canary for canary in canaries if canary in text] == []


def odd(number: int) -> list[dict[str, Any]]:
    """A session with a goal of no known kind, which decides and says how that went; every fourth tries its own way."""
    way, well = ("the usual way", True) if number % 4 else (f"way {WAYS[number // 4]}", False)
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": f"Zorgle frobnicators {WAYS[number]}"}),
        ("decision", {"question": "How shall we zorgle?", "chosen_option": way, "alternatives": [WAYS[number]]}),
    ]
    for tool in ("open_frob", "zorgle_frob", "close_frob"):
        said.append(("tool_call", {"tool_name": tool, "arguments": {"place": "the yard"}, "call_id": tool}))
        said.append(("tool_result", {"tool_name": tool, "call_id": tool, "success": True}))
    said.append(("feedback", {"signal": "positive" if well else "negative"}))
    at = START_MS - 86_400_000 + 600_000 * number
    return [
        event(f"odd-{number}", n, at=at + 1_000 * n, event_type=kind, content=content)
        for n, (kind, content) in enumerate(said)
    ]


WAYS = [f"qz{a}{b}ish" for a in LETTERS for b in LETTERS]


@pytest.mark.requirement("F-05")
def test_goals_and_options_in_anybodys_own_words_are_not_in_it() -> None:
    learnt, _ = learnt_of(interleaved([odd(n) for n in range(40)], 1))
    for kind in ("task_schema", "decision_policy"):
        known = "\n".join(one.to_json().decode() for one in learnt.artifacts if one.artifact_type == kind)
        assert [way for way in WAYS if way in known]
    for tier in Tier:
        told = fingerprint(learnt, tier)
        kinds = {one.artifact_type for one in told.artifact_summaries.artifacts if one.status == "active"}
        assert kinds >= {"task_schema", "decision_policy"} or tier is Tier.MINIMAL
        assert [way for way in WAYS if way in told.to_json().decode()] == []


@pytest.mark.requirement("F-02")
def test_two_agents_of_a_tenant_have_each_their_own() -> None:
    learnt, agents = learnt_of([*history(), *(each for n in range(40, 50) for each in session(n))])
    other = {each["session_id"]: each["agent_id"] for each in history() if each["event_type"] == "decision"}
    names = sorted(set(agents.values()))
    assert len(names) == 3
    for name in names:
        told = fingerprint(of_agent(learnt, name, agents), Tier.FULL)
        assert told.agent_id == name
        own = Counter(other.values())[name]
        assert sum(sum(options.values()) for options in told.behavioral_patterns.decisions.values()) == 2 * own
        assert bool(told.artifact_summaries.artifacts) is (own == 0)
    whole = fingerprint(learnt, Tier.FULL)
    assert whole.agent_id is None
    assert whole.fingerprint_hash != told.fingerprint_hash


WIDE = "漢" * 400


@pytest.mark.requirement("F-05")
def test_however_much_there_is_a_compact_one_stays_below_its_bound_and_says_what_it_leaves_out() -> None:
    named = [f"{n} {WIDE}"[:80] for n in range(400)]
    deeds = ActionCounts(
        tools=dict.fromkeys(named, (1, 1, 0)),
        errors=dict.fromkeys(named, 1),
        decisions={f"{name}{WIDE}": dict.fromkeys(named[:16], 1) for name in named},
    )
    conduct = [UsageCounts(f"s{n}", "agent", "success", deeds) for n in range(2)]
    things = [(name, f"{name}{WIDE}"[:200]) for name in named]
    entities = [_record(Kind.ENTITY, {"entity_type": kind, "name": name}) for kind, name in things]
    relations = [
        _record(
            Kind.RELATION,
            {"source_type": a[0], "source": a[1], "relation": b[1], "target_type": b[0], "target": b[1]},
        )
        for a, b in pairwise(things)
    ]
    known = learnt_of_history()
    many = [
        one.model_copy(update={"metadata": {**one.metadata, "pattern": f"{one.metadata['pattern']}{n}"}})
        for one in known.artifacts
        for n in range(200)
    ]
    learnt = replace(known, artifacts=many, conduct=conduct, entities=entities, relations=relations)
    made = {tier: fingerprint(learnt, tier) for tier in Tier}
    for tier in (Tier.COMPACT, Tier.MINIMAL):
        assert len(made[tier].to_json()) < 100_000
    told, whole = made[Tier.COMPACT], made[Tier.FULL]
    listed = told.artifact_summaries
    assert listed.omitted + len(listed.artifacts) == sum(listed.counts.values()) > len(listed.artifacts)
    assert told.behavioral_patterns.calls == whole.behavioral_patterns.calls == 800
    assert told.behavioral_patterns.tools[REST].calls == 2 * (400 - 32)
    assert sum(told.graph_digest.entities.values()) == len(whole.graph_digest.nodes) == 400


def _record(kind: Kind, body: dict[str, Any]) -> KnowledgeRecord:
    return KnowledgeRecord(
        record_id=str(body), kind=kind, tenant_id="acme", pattern="p", text="t", body=body | {"sessions": 2},
        confidence=1.0, status=Standing.ACTIVE, source_events=[], source_memory_ids=[], tags=[],
        created_at="2026-03-14T03:00:00Z",
    )  # fmt: skip


def test_a_sample_says_of_about_how_many_segments_it_is_one() -> None:
    learnt = learnt_of_history()
    assert fingerprint(learnt, Tier.FULL).behavioral_patterns.of_about is None
    sampled = fingerprint(replace(learnt, counted=0.25), Tier.FULL).behavioral_patterns
    assert sampled.of_about == 4 * sampled.segments


def test_names_that_a_single_subject_used_do_not_leave() -> None:
    """Without subjects every name stays."""

    def told(*subjects: str) -> Fingerprint:
        body = [ActionCounts({f"open_{n}": (2, 1, 1), "open": (1, 1, 0)}, {f"Error{n}": 3, "Error": 1}) for n in (0, 1)]
        conduct = [
            UsageCounts(f"s{n}", "a", "success", body[n % 2], subject=subject) for n, subject in enumerate(subjects)
        ]
        return fingerprint(replace(learnt_of_history(), conduct=conduct), Tier.FULL)

    ours = told("ann", "bob").behavioral_patterns
    assert sorted(ours.tools) == [REST, "open"]
    assert ours.errors == {REST: 6, "Error": 2}
    assert ours.calls == 6
    assert (ours.tools[REST].calls, ours.tools[REST].failed) == (4, 2)
    assert sorted(told("ann", "bob", "bob").behavioral_patterns.tools) == [REST, "open", "open_0"]
    assert sorted(told("ann", "bob", "bob", "ann").behavioral_patterns.tools) == ["open", "open_0", "open_1"]
    assert sorted(told("", "").behavioral_patterns.tools) == ["open", "open_0", "open_1"]
    assert REST not in told("", "").behavioral_patterns.errors
