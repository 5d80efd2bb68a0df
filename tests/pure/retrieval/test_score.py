"""Numbers of documents, and the weighted score."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.pack import RankingWeights
from hmx_pipeline.retrieval.postings import document_number
from hmx_pipeline.retrieval.score import Components, recency, shares
from hmx_pipeline.retrieval.times import TimeSpan

unit = st.floats(0, 1)
components = st.builds(Components, unit, unit, unit, unit)
NAMES = ("relevance", "recency", "provenance", "salience")


def test_positions_of_all_partitions_have_numbers_of_their_own() -> None:
    numbers = [document_number(p, o) for p, o in itertools.product((0, 1, 4095), (0, 1, 2**47))]
    assert len(set(numbers)) == len(numbers)
    assert all(n < 2**64 for n in numbers)


@given(components, st.builds(RankingWeights, **dict.fromkeys(NAMES, st.floats(0, allow_infinity=False))))
def test_a_score_lies_between_its_components(parts: Components, weights: RankingWeights) -> None:
    values = [getattr(parts, name) for name in NAMES]
    assert min(values) - 1e-6 <= parts.mean(shares(weights)) <= max(values) + 1e-6


@pytest.mark.requirement("C-14", "X15")
@pytest.mark.parametrize("name", NAMES)
@given(components)
def test_all_weight_on_one_component_is_that_component(name: str, parts: Components) -> None:
    weights = RankingWeights(**{**dict.fromkeys(NAMES, 0.0), name: 1.0})
    assert parts.mean(shares(weights)) == round(getattr(parts, name), 6)


def test_recency_falls_with_age_against_the_newest_event() -> None:
    week = 7 * 24 * 3600 * 1000
    found = [round(recency(at, TimeSpan(2 * week, None)), 4) for at in (2 * week, week, 0, 3 * week)]
    assert found == [1.0, 0.95, 0.9333, 1.0]
