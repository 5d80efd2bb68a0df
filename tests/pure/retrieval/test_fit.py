"""Of procedures those count more that the question has the values for."""

import pytest

from pipeline.retrieval.fit import filled
from pipeline.retrieval.terms import shapes

LORRY = {"source": "goal", "like": ["lkw-xxx0"]}
DRIVER = {"source": "goal", "like": ["meinert", "yilmaz"]}


@pytest.mark.parametrize(
    ("slots", "query", "share"),
    [
        ({}, "anything", 1.0),
        ({"own": {"source": "user", "like": []}}, "anything", 1.0),
        ({"lorry": LORRY}, "lkw-fwu8 has stopped", 1.0),
        ({"lorry": LORRY}, "dev-8812 has stopped", 0.0),
        ({"lorry": LORRY, "driver": DRIVER}, "Meinert drives lkw-fwu8", 1.0),
        ({"lorry": LORRY, "driver": DRIVER}, "lkw-fwu8 has stopped", 0.75),  # somebody may be named who is in no list
    ],
)
def test_the_share_of_values_from_the_wish_that_a_question_holds(slots: dict, query: str, share: float) -> None:  # type: ignore[type-arg]
    assert filled(slots, set(query.casefold().split()), set(shapes(query))) == share
