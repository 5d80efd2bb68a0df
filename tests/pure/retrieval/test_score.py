"""Postings, BM25 and the weighted score."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.contracts.pack import RankingWeights
from pipeline.retrieval.postings import best, bm25, bm25_named, document_number, in_all, pack_posting
from pipeline.retrieval.score import Components, recency
from pipeline.retrieval.times import Span

unit = st.floats(0, 1)
components = st.builds(Components, unit, unit, unit, unit)
NAMES = ("relevance", "recency", "provenance", "salience")


def ranked(*postings: list[tuple[int, int, int]], documents: int = 100) -> list[int]:
    blobs = [b"".join(pack_posting(*row) for row in rows) for rows in postings]
    return [number for number, _ in best(bm25(blobs, documents), 100)]


def test_a_rare_term_counts_more_than_a_frequent_one() -> None:
    frequent = [(n, 1, 10) for n in range(60)]
    assert ranked(frequent, [(7, 1, 10), (99, 1, 10)])[:2] == [7, 99]


def test_a_shorter_document_and_a_repeated_term_count_more() -> None:
    assert ranked([(1, 1, 50), (2, 1, 5)]) == [2, 1]
    assert ranked([(1, 1, 20), (2, 4, 20)]) == [2, 1]


def test_ties_go_by_number() -> None:
    assert ranked([(9, 1, 5), (3, 1, 5), (5, 1, 5)]) == [3, 5, 9]


@pytest.mark.requirement("E-17")
def test_the_best_of_some_documents_are_those_whatever_else_matches_better() -> None:
    term, tagged, other = (
        b"".join(pack_posting(n, tf, 10) for n, tf in rows)
        for rows in ([(n, 9 - n) for n in range(9)], [(n, 1) for n in (8, 3, 7, 50)], [(8, 1), (7, 1)])
    )
    scores = bm25([term], 100)
    assert [n for n, _ in best(scores, 2)] == [0, 1]
    assert [n for n, _ in best(scores, 2, in_all([tagged]))] == [3, 7]
    assert [n for n, _ in best(scores, 2, in_all([tagged, other]))] == [7, 8]
    assert best(scores, 2, in_all([tagged, b""])) == []
    assert best(scores, 9, in_all([])) == best(scores, 9)
    named = [{b"n%d" % n: pack_posting(0, 9 - n, 10) for n in range(9)}]
    assert [name for name, _ in bm25_named(named, 100, 2, {b"n8", b"n3", b"n7", b"gone"})] == [b"n3", b"n7"]
    assert bm25_named(named, 100, 2, set()) == []


@given(
    st.lists(
        st.lists(
            st.tuples(st.integers(0, 2**52), st.integers(1, 9), st.integers(1, 90)),
            max_size=8,
            unique_by=lambda r: r[0],
        ),
        max_size=5,
    )
)
def test_no_order_of_terms_or_postings_changes_a_score(lists: list[list[tuple[int, int, int]]]) -> None:
    blobs = [b"".join(pack_posting(*row) for row in rows) for rows in lists]
    turned = [b"".join(pack_posting(*row) for row in reversed(rows)) for rows in reversed(lists)]
    assert best(bm25(blobs, 100), 100) == best(bm25(turned, 100), 100)


def test_positions_of_all_partitions_have_numbers_of_their_own() -> None:
    numbers = [document_number(p, o) for p, o in itertools.product((0, 1, 4095), (0, 1, 2**47))]
    assert len(set(numbers)) == len(numbers)
    assert all(n < 2**64 for n in numbers)


def test_named_documents_score_as_numbered_ones() -> None:
    rows = [{b"a": pack_posting(0, 1, 10), b"b": pack_posting(0, 2, 10)}, {b"b": pack_posting(0, 1, 10)}]
    assert [name for name, _ in bm25_named(rows, 50, 10)] == [b"b", b"a"]
    assert bm25_named([], 50, 10) == []


@given(components, st.builds(RankingWeights, **dict.fromkeys(NAMES, st.floats(0, allow_infinity=False))))
def test_a_score_lies_between_its_components(parts: Components, weights: RankingWeights) -> None:
    values = [getattr(parts, name) for name in NAMES]
    assert min(values) - 1e-6 <= parts.score(weights) <= max(values) + 1e-6


@pytest.mark.requirement("C-14")
@pytest.mark.parametrize("name", NAMES)
@given(components)
def test_all_weight_on_one_component_is_that_component(name: str, parts: Components) -> None:
    weights = RankingWeights(**{**dict.fromkeys(NAMES, 0.0), name: 1.0})
    assert parts.score(weights) == round(getattr(parts, name), 6)


def test_recency_falls_with_age_against_the_newest_event() -> None:
    week = 7 * 24 * 3600 * 1000
    assert [recency(at, Span(2 * week, None)) for at in (2 * week, week, 0, 3 * week)] == [1.0, 0.5, 1 / 3, 1.0]
