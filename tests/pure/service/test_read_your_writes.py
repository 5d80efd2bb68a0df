"""A token names what of an append memory holds last."""

import pytest

from hmx_pipeline.service.read_your_writes import NAMED, Appended, _read, token


def sent(*sequences: int, session: str = "s") -> list[Appended]:
    return [Appended(session, sequence, 0, f"e{sequence}") for sequence in sequences]


@pytest.mark.parametrize(
    ("appended", "named"),
    [
        (sent(0, 1, 2), ["e2"]),
        (sent(5, 0), ["e5", "e0"]),  # the first waits behind a gap
        (sent(99, 0, 1), ["e99", "e1"]),  # a counter that starts over is released in the order of the append
        ([Appended("s", 1, 7, "a"), Appended("s", 1, 7, "b"), Appended("s", 1, 3, "c")], ["b", "c"]),
    ],
)
def test_a_token_names_of_a_session_what_is_released_last_in_order_and_what_came_last(
    appended: list[Appended], named: list[str]
) -> None:
    assert _read(token(appended)) == [("s", event) for event in named]


def test_a_token_names_the_last_sessions_of_an_append_to_very_many() -> None:
    appended = [one for n in range(NAMED + 5) for one in sent(n, session=f"s{n}")]
    again = [*appended, *sent(9, session="s5")]
    assert _read(token(again)) == [*((f"s{n}", f"e{n}") for n in range(6, NAMED + 5)), ("s5", "e9")]
