"""The bars of what is remembered of plain statements hold in the default suite too."""

from tests.quality.facts import PRECISE, REMEMBERED, measured
from tests.quality.planted_facts import OTHERS, SAYINGS


def test_what_is_planted_is_remembered_and_nothing_else() -> None:
    precision, recall = measured("planted", SAYINGS, (PRECISE, REMEMBERED))
    assert precision.met, precision.value
    assert recall.met, recall.value


def test_in_wordings_that_no_rule_was_made_for_what_is_remembered_is_true() -> None:
    precision, _ = measured("other wordings", OTHERS, (PRECISE, REMEMBERED))
    assert precision.met, precision.value
