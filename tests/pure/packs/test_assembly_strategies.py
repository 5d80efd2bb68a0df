"""The strategies of assembly, each by what defines it (HMX-C §5)."""

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.options import Section, Strategy
from hmx_pipeline.contracts.pack import ContextPack, RankingWeights
from hmx_pipeline.packs.assembly_strategies import weights_of
from hmx_pipeline.retrieval.score import MemorySnapshot
from tests.pure.packs.test_assemble import ask
from tests.support.memory import T0, artifact, episode, fetched, procedure

MINUTES = 600_000
PLAYBOOK = {"failure_pattern": "namespace not found", "recovery_steps": ["create the namespace"]}


def mixed() -> MemorySnapshot:
    """Many episodes, some errors, few procedures; the better a match, the older."""
    said = [
        episode(f"e{i:02}", " ".join(f"w{i}x{j}" for j in range(12)), at=T0 - (20 - i) * MINUTES, index=i)
        for i in range(20)
    ]
    failed = [
        episode(f"f{i}", event_type="error", content={"error_type": "E", "message": f"q{i} r{i} s{i}"}, index=20 + i)
        for i in range(5)
    ]
    made = [artifact(f"a{i}", f"Deploy {i}", content=procedure(f"check {i}", f"roll {i} out")) for i in range(8)]
    return fetched([*said, *failed], made)


def packs(**fields: Any) -> dict[Strategy, ContextPack]:
    return {strategy: ask(mixed(), strategy=strategy, **fields) for strategy in Strategy}


def ids(pack: ContextPack) -> list[str]:
    return [entry.source_id for entry in pack.entries]


@pytest.mark.requirement("C-16")
def test_four_strategies_give_four_packs_of_the_same_state() -> None:
    made = packs(token_budget=400)
    assert all(pack.assembly_metadata.assembly_strategy is strategy for strategy, pack in made.items())
    named = [made[s] for s in Strategy if s is not Strategy.FINGERPRINT_GUIDED]
    assert len({tuple(ids(pack)) for pack in named}) == 4
    assert all(pack.token_budget.used <= 400 for pack in named)


@pytest.mark.requirement("C-16")
def test_recency_biased_puts_what_is_newer_first_though_it_matches_worse() -> None:
    made = packs(token_budget=100_000)

    def episodes(pack: ContextPack) -> list[str]:
        return [entry.source_id for entry in pack.entries if entry.section is Section.EPISODES]

    assert episodes(made[Strategy.RECENCY_BIASED]) == sorted(episodes(made[Strategy.RANKED]), reverse=True)
    weights = made[Strategy.RECENCY_BIASED].assembly_metadata.ranking_weights
    assert weights.recency == pytest.approx(20 * (weights.relevance + weights.provenance + weights.salience), abs=1e-4)


@given(
    st.builds(RankingWeights, **dict.fromkeys(("relevance", "recency", "provenance", "salience"), st.floats(0, 1e300)))
)
def test_the_bias_keeps_what_was_asked_of_the_other_weights(asked: RankingWeights) -> None:
    biased = weights_of(Strategy.RECENCY_BIASED, asked)
    assert biased.recency >= biased.relevance + biased.provenance + biased.salience
    assert (biased.relevance >= biased.salience) or asked.relevance < asked.salience


@pytest.mark.requirement("C-16")
@given(st.integers(150, 2_000))
def test_breadth_first_gives_every_section_one_more_before_any_gets_another(budget: int) -> None:
    pack = ask(mixed(), strategy="breadth_first", token_budget=budget)
    placed = Counter(entry.section for entry in pack.entries)
    waiting = {drop.section for drop in pack.dropped_entries or () if drop.drop_reason == "budget_exceeded"}
    if not waiting:
        return
    behind = min(placed[section] for section in waiting)
    assert max(placed.values()) <= behind + 2, "one for the turn under way, one for what is cut into the rest"


@pytest.mark.requirement("C-16")
@given(st.integers(300, 1_500))
def test_depth_first_leaves_nothing_out_of_the_section_that_has_most_to_say_for_the_sake_of_others(budget: int) -> None:
    pack = ask(mixed(), strategy="depth_first", token_budget=budget)
    if any(entry.content.endswith("[truncated]") for entry in pack.entries):
        return
    left_out = [drop for drop in pack.dropped_entries or () if drop.section is Section.EPISODES]
    others: dict[Section, list[int]] = {}
    for entry in pack.entries:
        if entry.section is not Section.EPISODES:
            others.setdefault(entry.section, []).append(entry.token_estimate)
    beyond_firsts = sum(sum(tokens[1:]) for tokens in others.values())
    assert all(drop.token_estimate > pack.token_budget.remaining + beyond_firsts - 20 for drop in left_out)


def test_depth_first_has_more_of_that_section_than_any_other_strategy() -> None:
    made = packs(token_budget=700)
    counts = {s: sum(entry.section is Section.EPISODES for entry in pack.entries) for s, pack in made.items()}
    assert counts.pop(Strategy.DEPTH_FIRST) > max(counts.values())


@pytest.mark.requirement("C-17")
def test_opposite_priors_reverse_two_entries() -> None:
    twins = [
        artifact(
            name,
            f"Deploy {name}",
            content=procedure(f"check {name}", f"roll {name}"),
            metadata={"pattern": f"task_schema/{name}"},
        )
        for name in ("a1", "a2")
    ]
    memory = fetched([], twins)

    def guided(**patterns: float) -> ContextPack:
        priors = {
            "sections": {"procedures": 1.0},
            "patterns": {f"task_schema/{name}": p for name, p in patterns.items()},
        }
        return ask(replace(memory, priors=priors), strategy="fingerprint_guided")

    assert ids(guided(a1=1.0, a2=0.0)) == ["a1", "a2"]
    assert ids(guided(a1=0.0, a2=1.0)) == ["a2", "a1"]
    used = guided(a1=0.0, a2=1.0, elsewhere=1.0).fingerprint_priors
    assert used == {"sections": {"procedures": 1.0}, "patterns": {"task_schema/a1": 0.0, "task_schema/a2": 1.0}}


@pytest.mark.requirement("C-17")
def test_priors_of_words_and_sections_count_and_guide_nothing_else() -> None:
    memory = fetched([episode("e1", "alpha release"), episode("e2", "omega release", index=1)], [artifact("a1")])

    def guided(strategy: str, **terms: float) -> ContextPack:
        return ask(
            replace(memory, priors={"terms": terms, "sections": {"episodes": 1.0, "procedures": 0.0}}),
            strategy=strategy,
        )

    assert ids(guided("fingerprint_guided", alpha=0.0, omega=1.0))[1:] == ["e2", "e1"]
    assert ids(guided("ranked", alpha=0.0, omega=1.0))[1:] == ["e1", "e2"]
    assert guided("ranked").fingerprint_priors is None
    plain, led = (guided(s).token_budget.section_budgets["episodes"].budget for s in ("ranked", "fingerprint_guided"))
    assert led > plain


@pytest.mark.parametrize("strategy", Strategy)
def test_every_strategy_keeps_order_minimum_and_limit(strategy: Strategy) -> None:
    pack = ask(mixed(), strategy=strategy, token_budget=300)
    order = [list(Section).index(entry.section) for entry in pack.entries]
    assert order == sorted(order)
    assert {entry.section for entry in pack.entries} == {Section.PROCEDURES, Section.EPISODES, Section.EVIDENCE}
    for one, other in pairwise(pack.entries):
        if one.section is other.section:
            assert (-one.relevance_score, one.token_estimate, one.source_id) < (
                -other.relevance_score, other.token_estimate, other.source_id,
            )  # fmt: skip
