"""Words near a word: general English, the same for everybody."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.related_words import ADDED, MOST, UNIT, _of, _table, _unpacked, related
from hmx_pipeline.retrieval.terms import terms
from tests.support.related import packed

known = st.sampled_from(_table().stems)
stems = st.lists(st.one_of(known, st.text("abcdefghijklmnopqrstuvwxyz", min_size=1, max_size=12)), max_size=20)


def near(text: str) -> set[str]:
    return {each.stem for each in related(terms(text))}


def test_what_means_about_the_same_is_near() -> None:
    assert set(terms("dogs cats")) <= near("Which pets does she have?")
    assert set(terms("employment")) <= near("her job")
    assert set(terms("mistake")) <= near("errors")


def test_a_word_that_nobody_knows_is_near_to_none_and_changes_nothing() -> None:
    assert related(["zyxgrop"]) == related([]) == ()
    assert related([*terms("pets"), "zyxgrop"]) == related(terms("pets"))


def test_a_name_is_near_to_no_other() -> None:
    assert not near("Clinton") | near("June") | near("Melanie") | near("Boston")


@given(stems, st.randoms())
def test_a_question_gets_the_nearest_to_any_of_its_words_whatever_their_order(asked: list[str], dice: Random) -> None:
    found = related(asked)
    assert len(found) <= ADDED
    assert not {each.stem for each in found} & set(asked)
    assert all(0 < 2 * each.share <= UNIT for each in found)
    assert [each.share for each in found] == sorted((each.share for each in found), reverse=True)
    dice.shuffle(asked)
    assert related(asked) == found
    best = {other: how for stem in asked for other, how in sorted(_of(stem), key=lambda pair: pair[1])}
    left_out = set(best) - set(asked) - {each.stem for each in found}
    assert not found or all(best[other] // 2 <= found[-1].share for other in left_out)
    assert len(found) == ADDED or not left_out


@given(known)
def test_the_table_is_in_order_and_within_bounds(stem: str) -> None:
    found = _of(stem)
    assert len(found) <= MOST
    assert stem not in dict(found)
    assert [how for _, how in found] == sorted((how for _, how in found), reverse=True)


@given(st.dictionaries(st.sampled_from(["cat", "dog", "hen", "owl"]), st.integers(1, UNIT - 1)))
def test_what_is_packed_is_unpacked(said: dict[str, int]) -> None:
    table = _unpacked(packed({"cat": {}, "dog": {}, "hen": {}, "owl": {}, "pet": said}))
    place = table.places["pet"] * MOST
    row = zip(table.others[place : place + MOST], table.near[place : place + MOST], strict=True)
    assert {table.stems[other]: how for other, how in row if how} == said
    assert not table.near[:place].any()
