"""What says the same: exact Jaccard similarity of at least .8 within a section."""

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.options import Section, SourceType
from hmx_pipeline.contracts.pack import Provenance
from hmx_pipeline.packs.candidates import EntryCandidate, duplicates
from hmx_pipeline.packs.near_duplicates import alike, folded, mark, near, words

LETTERS = "abcdefghijkl"


def saying(name: str, said: str, section: Section = Section.EPISODES) -> EntryCandidate:
    provenance = Provenance(origin="x", confidence=1.0, evidence_count=1)
    return EntryCandidate(section, name, SourceType.EPISODE, 0.5, 0.5, said, said, 1, provenance)


@given(st.lists(st.frozensets(st.sampled_from(LETTERS)), max_size=12))
def test_as_comparing_each_with_all_that_were_kept(sets: list[frozenset[str]]) -> None:
    kept: list[frozenset[str]] = []
    expected = set()
    for i, own in enumerate(sets):
        if any(own | other and len(own & other) / len(own | other) >= 0.8 for other in kept):
            expected.add(i)
        else:
            kept.append(own)
    assert set(duplicates([saying(str(i), " ".join(sorted(own))) for i, own in enumerate(sets)])) == expected


def test_one_word_more_or_less_in_a_short_saying_is_another_saying() -> None:
    assert duplicates([saying("1", "deploy it"), saying("2", "do not deploy it")]) == {}


def test_case_and_marks_do_not_count_but_sections_do() -> None:
    first = saying("1", "Deploy it, now!")
    assert duplicates([first, saying("2", "deploy it now")]) == {1: 0}
    assert duplicates([first, saying("2", "deploy it now", Section.EVIDENCE)]) == {}


def test_an_id_stands_once_in_a_section() -> None:
    assert duplicates([saying("1", "one"), saying("1", "two")]) == {1: 0}


@given(st.lists(st.text(" aAbcé.,-\n\u3000ﬀ", max_size=40), max_size=12))
def test_marks_hide_no_pair_that_says_the_same(texts: list[str]) -> None:
    close = near([mark(text) for text in texts])
    assert close == sorted(close)
    for later, other in enumerate(texts):
        for earlier, one in enumerate(texts[:later]):
            assert (later, earlier) in close or not alike(words(one), words(other))


def test_marks_tell_apart_most_of_what_says_something_else() -> None:
    texts = [" ".join(f"w{n * k % 997}" for n in range(1, 15)) for k in range(1, 60)]
    assert len(near([mark(text) for text in texts])) <= len(texts)


def test_numbers_ids_and_dates_do_not_make_another_thing() -> None:
    assert folded("Deploy cart 1.22.0 to staging on 2026-03-14") == folded(
        "Deploy cart 1.23.1 to staging on 2026-04-02"
    )
    assert folded("Deploy cart to staging") != folded("Deploy ledger to staging")
    assert folded("42 7") == "42 7", "what says little but a number says another one"
