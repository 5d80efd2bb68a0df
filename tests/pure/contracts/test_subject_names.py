"""Whom an event names as its subject: nobody is overlooked, because what names nobody is everybody's."""

from typing import Any

import pytest

from hmx_pipeline.contracts.episode import named_subject


@pytest.mark.parametrize(
    ("metadata", "subject"),
    [
        ({}, ""),
        ({"userId": "u3", "user_id": "u2", "subject_id": "u1"}, "u1"),
        ({"subject_id": "", "user_id": "u2"}, "u2"),
        ({"user_id": 42}, "42"),
        ({"subject_id": True, "userId": "u3"}, "u3"),
        ({"user_id": ["u1"]}, ""),
    ],
)
def test_a_subject_is_the_first_that_is_named(metadata: dict[str, Any], subject: str) -> None:
    assert named_subject(metadata) == subject


def test_a_name_longer_than_an_id_is_still_somebody_and_no_other() -> None:
    long, other = named_subject({"user_id": "x" * 600}), named_subject({"user_id": "x" * 601})
    assert long.startswith("sha256:")
    assert long != other
