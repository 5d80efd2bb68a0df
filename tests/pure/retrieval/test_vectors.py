"""Vectors against a plain reading of what they promise, however they came and however they are added up."""

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from hmx_pipeline.contracts.limits import EMBEDDING_DIMENSIONS
from hmx_pipeline.retrieval import vectors
from hmx_pipeline.retrieval.episode_index import EpisodeIndex, QueryTerm, Term
from hmx_pipeline.retrieval.postings import document_number, pack_postings, pack_row
from hmx_pipeline.retrieval.vectors import (
    NEAR,
    UNIT,
    WIDTH,
    Vectors,
    best_of_both,
    document_vector,
    pack_vector,
    vector,
)
from tests.support.memory import episode

BYTES = st.integers(-127, 127)


def read_index(documents: int) -> EpisodeIndex:
    index = EpisodeIndex()
    index.extend(b"".join(pack_row(document_number(0, n), f"s{n}", n, 1) for n in range(documents)))
    return index


def read_vectors(rows: dict[int, bytes], width: int, documents: int, pieces: int = 1) -> Vectors:
    index, held = read_index(documents), Vectors(width)
    packed = [pack_vector(document_number(0, n), values) for n, values in rows.items()]
    cut = -(-len(packed) // pieces) or 1
    held.extend([b"".join(packed[start : start + cut]) for start in range(0, len(packed), cut)], index)
    return held


def near(rows: dict[int, bytes], asked: bytes, documents: int, pieces: int = 1) -> list[int]:
    held = read_vectors(rows, len(asked), documents, pieces)
    return [int(n) for n in held.nearness(asked, np.arange(documents, dtype=np.int32))]


def unit(values: bytes) -> NDArray[np.float64]:
    numbers = np.frombuffer(values, np.int8).astype(np.float64)
    return np.asarray(numbers / np.linalg.norm(numbers))


def plainly(rows: dict[int, bytes], asked: bytes, documents: int) -> list[float]:
    """The cosines of what is left when what is usual is taken away."""
    usual = sum((unit(values) for values in rows.values()), np.zeros(len(asked))) / (len(rows) + 32)
    there = {n: unit(values) - usual for n, values in rows.items()}
    apart = unit(asked) - usual
    cosine = {n: apart @ one / np.linalg.norm(apart) / np.linalg.norm(one) for n, one in there.items()}
    return [max(0.0, float(cosine.get(n, 0))) * NEAR for n in range(documents)]


@given(st.data(), st.integers(1, 40), st.integers(1, 4))
def test_nearness_is_the_cosine_beside_what_is_usual(data: st.DataObject, width: int, pieces: int) -> None:
    directions = st.lists(BYTES, min_size=width, max_size=width).filter(any)
    packed = directions.map(lambda values: np.array(values, np.int8).tobytes())
    rows = data.draw(st.dictionaries(st.integers(0, 9), packed))
    asked = data.draw(packed)
    found = near(rows, asked, 10, pieces)
    assert found == near(dict(reversed(rows.items())), asked, 10)
    assert found == pytest.approx(plainly(rows, asked, 10), abs=0.02 * NEAR)


def test_no_sum_of_products_is_rounded() -> None:
    """At the longest vectors: all components as large as can be, and products that cancel out but for one."""
    largest = bytes([127] * WIDTH)
    halves = np.array([127, -127] * (WIDTH // 2), np.int8)
    halves[0] = 126
    held = read_vectors({0: largest, 1: halves.tobytes()}, WIDTH, 2)
    products = held._products(np.arange(2, dtype=np.int32), np.full((WIDTH, 1), 127, np.float32))[:, 0]
    assert products.tolist() == [WIDTH * 127 * 127, -127]
    assert WIDTH * 127 * 127 < 2**24
    assert near({0: largest, 1: largest}, largest, 2) == [NEAR, NEAR]


@given(st.lists(st.integers(-999, 999), min_size=1, max_size=60).filter(any), st.floats(1e-200, 1e200))
def test_only_the_direction_counts(numbers: list[float], scale: float) -> None:
    made, scaled = vector(numbers), vector([n * scale for n in numbers])
    assert made is not None
    assert scaled is not None
    apart = np.frombuffer(made.values, np.int8).astype(int) - np.frombuffer(scaled.values, np.int8)
    assert abs(apart).max() <= 1


@pytest.mark.parametrize("numbers", [[0.0], [0, 0, 0], [-0.0] * 4096])
def test_what_points_nowhere_is_no_vector(numbers: list[float]) -> None:
    assert vector(numbers) is None


@pytest.mark.parametrize("numbers", [[1.7e308, -1.7e308], [5e-324, 0.0], [2**64 - 1, -(2**63)]])
def test_numbers_of_any_size_are_a_direction(numbers: list[float]) -> None:
    made = vector(numbers)
    assert made is not None
    assert max(np.frombuffer(made.values, np.int8)) == 127


@pytest.mark.parametrize("dimensions", [WIDTH + 1, 1536, 3072, EMBEDDING_DIMENSIONS])
def test_longer_vectors_are_as_near_to_each_other_as_they_were(dimensions: int) -> None:
    dice = random.Random(dimensions)

    def direction() -> list[float]:
        return [dice.gauss(0, 1) for _ in range(dimensions)]

    asked = direction()
    like = [0.8 * a + 0.6 * b for a, b in zip(asked, direction(), strict=True)]
    made = [vector(numbers) for numbers in (asked, like, direction())]
    assert all(one and len(one.values) == WIDTH for one in made)
    values = [one.values for one in made if one]
    found = near(dict(enumerate(values)), values[0], 3)
    assert found[0] == NEAR
    assert found[1] == pytest.approx(0.8 * NEAR, abs=0.12 * NEAR)
    assert found[2] < 0.12 * NEAR


def test_only_vectors_of_one_length_and_model_share_a_space() -> None:
    made = [vector([1.0, 2.0]), vector([1.0, 2.0], "mini"), vector([1.0, 2.0], "maxi"), vector([1.0, 2.0, 0.0])]
    assert len({one.space for one in made if one}) == 4


@pytest.mark.parametrize(("metadata", "model"), [({}, ""), ({"x-hmx-embedding-model": "mini"}, "mini")])
def test_an_episode_has_its_event_s_own_vector(metadata: dict[str, Any], model: str) -> None:
    assert document_vector(episode("e1", embeddings=[0.5, -1], metadata=metadata)) == vector([0.5, -1], model)
    assert document_vector(episode("e1", metadata=metadata)) is None


def test_a_model_that_is_no_text_is_none() -> None:
    made = document_vector(episode("e1", embeddings=[1], metadata={"x-hmx-embedding-model": {"name": 1}}))
    assert made == vector([1])


def draw_rows(data: st.DataObject, width: int) -> tuple[dict[int, bytes], bytes]:
    directions = st.lists(BYTES, min_size=width, max_size=width).filter(any)
    packed = directions.map(lambda values: np.array(values, np.int8).tobytes())
    return data.draw(st.dictionaries(st.integers(0, 11), packed)), data.draw(packed)


@given(st.data(), st.integers(1, 70), st.integers(1, 12), st.integers(1, 12))
def test_the_nearest_are_those_of_the_vectors_whose_signs_agree_best(
    data: st.DataObject, width: int, limit: int, looked_at: int
) -> None:
    rows, asked = draw_rows(data, width)
    among = np.array(data.draw(st.lists(st.booleans(), min_size=12, max_size=12)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "LOOKED_AT", looked_at)
        found = read_vectors(rows, width, 12).nearest(asked, limit, among)

    def apart(one: bytes) -> int:
        return sum((a < 128 and a > 0) != (b < 128 and b > 0) for a, b in zip(one, asked, strict=True))

    allowed = {n: values for n, values in rows.items() if among[n]}
    furthest = sorted(map(apart, allowed.values()))[:looked_at][-1:]
    nearness = near(rows, asked, 12)
    seen = [n for n, values in allowed.items() if [apart(values)] <= furthest]
    least = max([1, *sorted((nearness[n] for n in seen), reverse=True)[limit - 1 : limit]])
    assert sorted(found.tolist()) == sorted(n for n in seen if nearness[n] >= least)


@given(st.data(), st.integers(1, 12))
def test_what_words_and_vectors_say_is_added_up_for_the_best_of_both(data: st.DataObject, limit: int) -> None:
    worded = data.draw(st.sets(st.integers(0, 11)))
    rows, asked = draw_rows(data, 3)
    among = np.array(data.draw(st.lists(st.booleans(), min_size=12, max_size=12)))
    index, term = read_index(12), Term()
    index.refresh(term, b"".join(pack_postings(document_number(0, n), [1])[0] for n in sorted(worded)))
    whole = data.draw(st.integers(1, 100_000))
    found, answering = best_of_both(index, [QueryTerm(term)], read_vectors(rows, 3, 12), asked, limit, among, whole)

    weighed, nearness = dict(index.best([QueryTerm(term)], 12, among)), near(rows, asked, 12)
    highest = max(weighed.values(), default=1)
    scores = {n: weighed.get(n, 0) * UNIT // highest + nearness[n] for n in range(12) if among[n]}
    best = sorted(((n, score) for n, score in scores.items() if score), key=lambda each: (-each[1], each[0]))
    assert set(found) <= set(best)
    assert found == sorted(found, key=lambda each: (-each[1], each[0]))
    assert len(found) == min(limit, len(best))
    assert limit < 12 or found == best
    if best and limit == 12:  # words and direction both count for how much of the question the best answers
        share, direction = max(weighed.values(), default=0) / whole, max(nearness[n] for n, _ in best) / UNIT
        assert best[0][1] / answering == pytest.approx(2 / 3 * (share + direction), rel=1e-2)


def test_what_all_of_a_tenant_s_texts_have_in_common_makes_nothing_near() -> None:
    dice = random.Random(3)
    common = [100.0] + [0.0] * 31

    def turned(place: int) -> bytes:
        made = vector([c + 30 * (n == place) + dice.gauss(0, 3) for n, c in enumerate(common)])
        assert made is not None
        return made.values

    rows = {n: turned(1 + n % 31) for n in range(310)}
    found = near(rows, turned(5), 310)
    alike = [found[n] for n in rows if 1 + n % 31 == 5]
    others = [found[n] for n in rows if 1 + n % 31 != 5]
    assert min(alike) > 0.6 * NEAR
    assert sum(others) / len(others) < 0.1 * NEAR
