"""Cards that are replaced and taken away: the answer depends on those that are there."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.memory_index import IndexEntry, MemoryIndex

WORDS = ("deploy", "staging", "rotate", "vault")


def card(words: list[str], kind: str = "memory", at: int = 0, labels: tuple[str, ...] = ()) -> IndexEntry:
    return IndexEntry(repr(words).encode(), kind, at, labels, dict(Counter(words)))


changes = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.none() | st.lists(st.sampled_from(WORDS), min_size=1, max_size=6)),
    max_size=20,
)


@given(changes, st.lists(st.sampled_from(WORDS), unique=True, min_size=1))
def test_what_was_there_before_leaves_no_trace(changed: list[tuple[str, list[str] | None]], asked: list[str]) -> None:
    grown, last = MemoryIndex(), dict(changed)
    for name, words in changed:
        grown.put([(name, None if words is None else card(words))])
        grown.best(asked, 3)  # what is remembered of it must not outlive a change
    made = MemoryIndex()
    made.put((name, card(words)) for name, words in sorted(last.items()) if words is not None)
    assert grown.best(asked, 10) == made.best(asked, 10)
    assert grown.nbytes == made.nbytes


def test_the_best_come_first_and_equals_by_name() -> None:
    catalogue = MemoryIndex()
    catalogue.put([("b", card(["deploy", "staging"])), ("a", card(["deploy", "staging"])), ("c", card(["rotate"]))])
    assert [hit.name for hit in catalogue.best(["deploy", "vault"], 10)] == ["a", "b"]
    assert [hit.name for hit in catalogue.best(["deploy"], 1)] == ["a"]


def test_the_newest_of_a_kind_and_only_what_has_every_label() -> None:
    catalogue = MemoryIndex()
    catalogue.put(
        (name, card(["deploy"], kind, at, labels))
        for name, kind, at, labels in [
            ("a", "policy", 1, ("x",)),
            ("b", "policy", 2, ("x", "y")),
            ("c", "policy", 2, ()),
            ("d", "memory", 9, ("x", "y")),
        ]
    )
    assert [hit.name for hit in catalogue.newest("policy", 2)] == ["b", "c"]
    assert [hit.name for hit in catalogue.newest("policy", 9, ["x"])] == ["b", "a"]
    assert [hit.name for hit in catalogue.best(["deploy"], 9, ["y", "x"])] == ["b", "d"]
