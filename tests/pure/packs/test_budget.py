"""What fits a budget: arithmetic, order, minimum and limit (HMX-C §4)."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.options import Section, SourceType
from hmx_pipeline.contracts.pack import Provenance
from hmx_pipeline.packs.budget import WORTH_CUTTING, Allocation, Offer, allocate, split
from hmx_pipeline.packs.candidates import EntryCandidate
from hmx_pipeline.packs.render import MARKER
from hmx_pipeline.packs.tokens import estimate

WORDS = ("deploy", "staging", "kubectl", "namespace", "rollout", "fails", "with", "timeout", "again", "never")


def candidate(section: Section, name: str, words: int, score: float = 0.5) -> EntryCandidate:
    text = " ".join(WORDS[i % len(WORDS)] for i in range(words))
    source = SourceType.ARTIFACT if section in (Section.PROCEDURES, Section.WORKFLOW) else SourceType.EPISODE
    provenance = Provenance(origin="x", confidence=1.0, evidence_count=1)
    return EntryCandidate(section, name, source, score, score, text, text, estimate(text), provenance)


def offer(section: Section, weight: int, sizes: Sequence[int], scores: Sequence[float] = ()) -> Offer:
    scored = [scores[i] if i < len(scores) else 0.9 - i / 1000 for i in range(len(sizes))]
    made = [candidate(section, f"{section}-{i}", size, scored[i]) for i, size in enumerate(sizes)]
    return Offer(section, weight, sorted(made, key=lambda c: c.order))


sizes = st.lists(st.integers(1, 120), max_size=12)
weights = st.integers(1, 50)
offers = st.builds(
    lambda *given: [
        offer(section, weight, listed)
        for section, (weight, listed) in zip(
            (Section.PROCEDURES, Section.EPISODES, Section.WORKFLOW, Section.EVIDENCE), given, strict=True
        )
    ],
    *[st.tuples(weights, sizes)] * 4,
)


def used(allocation: Allocation) -> int:
    return sum(c.tokens for c in allocation.placed)


@given(st.integers(0, 10_000), st.lists(st.integers(0, 100), min_size=1, max_size=10))
def test_shares_sum_to_the_whole_and_differ_from_proportion_by_less_than_one(total: int, given: list[int]) -> None:
    parts = split(total, given)
    if sum(given) == 0:
        assert parts == [0] * len(given)
        return
    assert sum(parts) == total
    assert all(abs(part * sum(given) - total * weight) < sum(given) for part, weight in zip(parts, given, strict=True))


@pytest.mark.requirement("C-08", "C-12")
@given(offers, st.integers(1, 2_000))
def test_the_budget_is_never_exceeded_and_its_parts_add_up(given: list[Offer], total: int) -> None:
    allocation = allocate(given, total)
    assert used(allocation) <= total
    assert all(c.tokens == estimate(c.text) for c in allocation.placed)
    budgets = allocation.section_budgets
    assert sum(b.used for b in budgets.values()) == used(allocation)
    assert sum(b.budget for b in budgets.values()) == (total if budgets else 0)
    assert all(b.used <= b.budget for b in budgets.values())
    for name, b in budgets.items():
        assert b.used == sum(c.tokens for c in allocation.placed if c.section == name)


@given(offers, st.integers(1, 2_000), st.integers(1, 20))
def test_every_candidate_is_placed_or_dropped_once(given: list[Offer], total: int, entries: int) -> None:
    allocation = allocate(given, total, entries)
    assert len(allocation.placed) <= entries
    everything = sorted(c.source_id for o in given for c in o.candidates)
    assert sorted([c.source_id for c in (*allocation.placed, *allocation.dropped)]) == everything


@pytest.mark.requirement("C-06", "C-07")
@given(offers, st.integers(1, 2_000))
def test_sections_and_entries_stand_in_order(given: list[Offer], total: int) -> None:
    placed = allocate(given, total).placed
    order = list(Section)
    assert [c.section for c in placed] == sorted((c.section for c in placed), key=order.index)
    for section in order:
        keys = [c.order for c in placed if c.section is section]
        assert keys == sorted(keys)


@pytest.mark.requirement("C-09")
@given(offers, st.integers(1, 2_000))
def test_nothing_that_still_fits_is_dropped(given: list[Offer], total: int) -> None:
    allocation = allocate(given, total)
    left = total - used(allocation)
    assert all(c.tokens > left for c in allocation.dropped)


@given(offers)
def test_with_room_for_all_nothing_is_dropped_or_cut(given: list[Offer]) -> None:
    allocation = allocate(given, sum(c.tokens for o in given for c in o.candidates))
    assert not allocation.dropped
    assert not any(c.is_cut for c in allocation.placed)


@pytest.mark.requirement("C-10")
@given(offers, st.integers(200, 2_000))
def test_every_section_with_candidates_has_an_entry_where_shares_can_hold_one(given: list[Offer], total: int) -> None:
    present = [o for o in given if o.candidates]
    if any(share < 12 for share in split(total, [o.weight for o in present])):
        return
    assert {c.section for c in allocate(given, total).placed} == {o.section for o in present}


@pytest.mark.requirement("C-10", "X16")
def test_too_small_a_budget_serves_sections_in_priority_order_and_keeps_the_limit() -> None:
    given = [
        offer(Section.PROCEDURES, 35, [200]),
        offer(Section.EPISODES, 40, [200]),
        offer(Section.EVIDENCE, 20, [200]),
    ]
    allocation = allocate(given, 20)
    assert [c.section for c in allocation.placed] == [Section.PROCEDURES]
    assert allocation.placed[0].text.endswith(MARKER)
    assert 0 < used(allocation) <= 20
    assert allocate(given, 3).placed == ()


@pytest.mark.requirement("C-11")
def test_a_giant_entry_is_cut_with_the_marker_counted() -> None:
    allocation = allocate([offer(Section.EPISODES, 1, [5_000])], 100)
    (entry,) = allocation.placed
    assert entry.text.endswith("[truncated]")
    assert entry.is_cut
    assert 90 <= entry.tokens == estimate(entry.text) <= 100


@given(offers, st.integers(1, 2_000))
def test_at_most_one_entry_of_a_section_is_cut(given: list[Offer], total: int) -> None:
    allocation = allocate(given, total)
    cut = [c for c in allocation.placed if c.is_cut]
    assert len(cut) == len({c.section for c in cut})
    assert all(c.text.endswith(MARKER) for c in cut)


def test_what_remains_is_cut_into_only_where_it_is_worth_it() -> None:
    first = candidate(Section.EPISODES, "a", 10, 0.9)
    given = [Offer(Section.EPISODES, 1, [first, candidate(Section.EPISODES, "b", 500, 0.8)])]
    assert len(allocate(given, first.tokens + WORTH_CUTTING - 1).placed) == 1
    assert len(allocate(given, first.tokens + WORTH_CUTTING).placed) == 2


@pytest.mark.requirement("C-09")
def test_doubling_a_weight_enlarges_the_share() -> None:
    def evidence(weight: int) -> int:
        given = [offer(Section.EPISODES, 40, [10] * 200), offer(Section.EVIDENCE, weight, [10] * 200)]
        return allocate(given, 1_000).section_budgets["evidence"].used

    assert evidence(40) > evidence(20) > evidence(10)


@pytest.mark.requirement("C-09")
def test_what_one_section_leaves_goes_to_another() -> None:
    given = [offer(Section.PROCEDURES, 90, [10]), offer(Section.EPISODES, 10, [10] * 200)]
    allocation = allocate(given, 1_000)
    assert allocation.section_budgets["episodes"].used > 900
