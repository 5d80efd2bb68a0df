"""Of procedures those count more that the question has the values for."""

import pytest

from pipeline.retrieval.fit import fit
from pipeline.retrieval.terms import shapes

LORRY = {"source": "goal", "like": ["lkw-xxx0"]}
DRIVER = {"source": "goal", "like": ["meinert", "yilmaz"]}


@pytest.mark.parametrize(
    ("slots", "query", "share"),
    [
        ({}, "anything", 1.0),
        ({}, "dev-8812 has stopped", 0.0),
        ({"lorry": LORRY}, "lkw-fwu8 goes with dev-8812", 0.5),
        ({"own": {"source": "user", "like": []}}, "anything", 1.0),
        ({"lorry": LORRY}, "lkw-fwu8 has stopped", 1.0),
        ({"lorry": LORRY}, "dev-8812 has stopped", 0.0),
        ({"lorry": LORRY, "driver": DRIVER}, "Meinert drives lkw-fwu8", 1.0),
        ({"lorry": LORRY, "driver": DRIVER}, "lkw-fwu8 has stopped", 0.75),  # somebody may be named who is in no list
    ],
)
def test_a_question_fits_a_procedure_as_far_as_either_has_what_the_other_takes(
    slots: dict, query: str, share: float
) -> None:  # type: ignore[type-arg]
    assert fit(slots, set(query.casefold().split()), set(shapes(query))) == share
