"""Which words of a question stand for a procedure's slots, and how well the two fit."""

from typing import Any

import pytest

from hmx_pipeline.retrieval.fit import Question, bound

LORRY = {"source": "goal", "like": ["lkw-xxx0"]}
DRIVER = {"source": "goal", "like": ["meinert", "yilmaz"]}
SUM = {"source": "goal", "like": ["000"]}
OWN = {"source": "user", "like": []}


@pytest.mark.parametrize(
    ("slots", "asked", "values", "filled"),
    [
        ({}, "anything", {}, 1.0),
        ({"own": OWN}, "anything", {}, 1.0),
        ({"lorry": LORRY}, "lkw-fwu8 has stopped", {"lorry": "lkw-fwu8"}, 1.0),
        ({"lorry": LORRY}, "dev-8812 has stopped", {}, 0.0),
        ({"lorry": LORRY}, "lkw-fwu8이 멈췄어요", {"lorry": "lkw-fwu8"}, 1.0),
        ({"ward": {"source": "goal", "like": ["南0病棟"]}}, "bed in 南2病棟", {"ward": "南2病棟"}, 1.0),
        ({"sum": SUM}, "make it 1200", {"sum": "1200"}, 1.0),
        ({"lorry": LORRY, "driver": DRIVER}, "Meinert drives lkw-fwu8", {"lorry": "lkw-fwu8", "driver": "Meinert"}, 1),
        # somebody may be named who is in no list
        ({"lorry": LORRY, "driver": DRIVER}, "lkw-fwu8 has stopped", {"lorry": "lkw-fwu8"}, 0.75),
    ],
)
def test_a_word_fills_a_slot_that_it_is_a_value_of_or_looks_like_the_ids_of(
    slots: dict[str, Any], asked: str, values: dict[str, str], filled: float
) -> None:
    found = bound({"slots": slots}, Question(asked))
    assert (found.sure, found.filled) == (values, filled)


def test_a_value_of_a_slot_with_the_same_names_fills_this_one_too() -> None:
    wards = {"source": "goal", "like": ["north", "south", "hill"]}
    content, other = {"slots": {"place": wards}}, {"slots": {"ward": {**wards, "like": ["north", "south", "east"]}}}
    drivers = {"slots": {"driver": {**DRIVER, "like": ["meinert", "east"]}}}
    asked = "Could east be next?"
    assert bound(content, Question(asked, (), [content, other])).sure == {"place": "east"}
    assert bound(content, Question(asked, (), [content, drivers])).sure == {}


def test_a_name_that_an_earlier_wish_had_in_the_same_place_fills_the_slot() -> None:
    content = {"slots": {"driver": DRIVER}, "goals": ["Give <lorry> to <driver> today"]}
    asked = "Could petrov take over?"
    assert bound(content, Question(asked)).sure == {}
    assert bound(content, Question(asked, ["give lkw-abc1 to petrov today"])).sure == {"driver": "petrov"}
    assert bound(content, Question(asked, ["say petrov called"])).sure == {}


def test_of_two_slots_of_one_kind_each_takes_the_word_that_stands_as_in_the_goal() -> None:
    place = {"source": "goal", "like": ["kiel", "emden"]}
    content = {"slots": {"to": place, "of": place}, "goals": ["Ship from <of> over to <to>"]}
    assert bound(content, Question("from Kiel it goes to Emden")).sure == {"of": "Kiel", "to": "Emden"}


def test_who_is_sure_of_more_of_the_question_fits_better() -> None:
    question = Question("Meinert drives lkw-fwu8")
    both, one = (bound({"slots": each}, question) for each in ({"l": LORRY, "d": DRIVER}, {"l": LORRY}))
    assert both.share(2) > one.share(2)
    assert one.share(1) == 1.0
