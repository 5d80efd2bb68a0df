"""What BM25 cannot see: whose turn it is, when it was, and how much it says."""

from hmx_pipeline.retrieval.rerank import read, reranked
from hmx_pipeline.retrieval.score import FoundSource
from hmx_pipeline.retrieval.searchable import document, episode_step
from hmx_pipeline.retrieval.times import TimeSpan
from tests.support.memory import T0, episode

LONG = "I have been painting sunrises by the lake every week this summer"


def ranked(query: str, *texts: str, role: str = "user") -> list[str]:
    found = [
        FoundSource(made, 1000)
        for n, text in enumerate(texts)
        for record in (episode(f"e{n}", content={"role": role, "text": text}),)
        if (made := document(record, episode_step(record)))
    ]
    again = reranked(query, found)
    assert [each.source for each in again] == [each.source for each in found]
    return [each.source.text for each in sorted(again, key=lambda each: (-each.bm25, each.source.event_id))]


def test_the_turns_of_the_one_who_is_asked_about_come_first() -> None:
    one, other = f"Ann: {LONG}", f"Melanie: {LONG}"
    assert ranked("What has Melanie painted?", one, other) == [other, one]
    assert ranked("what has ann painted?", other, one) == [one, other]


def test_where_several_are_named_or_none_is_nobody_comes_first() -> None:
    one, other = f"Ann: {LONG}", f"Melanie: {LONG}"
    assert ranked("What did Ann paint for Melanie?", one, other) == [one, other]
    assert ranked("Who painted? Annie?", one, other) == [one, other]


def test_the_turns_of_the_time_that_is_named_come_first() -> None:
    records = [episode(f"e{n}", LONG, at=T0 + n) for n in range(4)]
    found = [FoundSource(made, 1000) for each in records if (made := document(each, episode_step(each)))]

    def first(time: TimeSpan | None) -> list[int]:
        """A turn of that time is no more relevant than without a time: others are less."""
        scores = [each.bm25 for each in reranked("painting", found, time)]
        assert max(scores) == 1000
        return [n for n, score in enumerate(scores) if score == 1000]

    assert first(None) == first(TimeSpan(T0 + 4, None)) == [0, 1, 2, 3]
    assert first(TimeSpan(T0 + 1, T0 + 3)) == [1, 2]
    assert first(TimeSpan(T0 + 2, None)) == [2, 3]


def test_a_short_turn_and_one_that_asks_say_less() -> None:
    asking, short = f"{LONG}, and what about you?", "Wow, so nice!"
    assert ranked("painting", asking, short, LONG) == [LONG, asking, short]


def test_without_a_name_at_its_beginning_the_actor_speaks() -> None:
    record = episode("e1", "Note: it rains")
    made = document(record, episode_step(record))
    assert made is not None
    assert read(FoundSource(made, 1000))[:2] == ("", "user")
    assert ranked("what did the user paint", LONG, role="assistant") == [LONG]
