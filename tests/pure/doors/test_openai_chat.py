"""The gateway: its filter of its upstream's key, and which requests are one conversation."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.doors.openai_chat import HIDDEN, WithoutKey, opening

KEY = b"sk-ask-0123"
LETTERS = st.text("sk-a[", max_size=12).map(str.encode)


def passed(key: bytes, pieces: list[bytes]) -> bytes:
    shown = WithoutKey(key)
    return b"".join(shown.piece(piece) for piece in pieces) + shown.piece(b"", last=True)


def test_a_key_is_hidden_wherever_the_stream_is_cut() -> None:
    said = b"data: sk-" + KEY + b" sk-ask" + KEY + b"\n\n"
    for first in range(len(said)):
        for second in range(first, len(said)):
            cut = [said[:first], said[first:second], said[second:]]
            assert passed(KEY, cut) == b"data: sk-" + HIDDEN + b" sk-ask" + HIDDEN + b"\n\n"


@given(LETTERS, st.lists(LETTERS))
def test_however_a_stream_is_cut_it_reads_as_if_it_had_come_whole(key: bytes, pieces: list[bytes]) -> None:
    whole = b"".join(pieces)
    assert passed(key, pieces) == (whole.replace(key, HIDDEN) if key else whole)


@given(st.lists(st.binary(max_size=30)))
def test_less_than_a_key_is_held_back(pieces: list[bytes]) -> None:
    shown, sent = WithoutKey(KEY), 0
    for count, piece in enumerate(pieces, 1):
        sent += len(shown.piece(piece))
        assert sum(map(len, pieces[:count])) - sent < len(KEY)


HELLO = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hello"}]


def asked(*more: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"messages": [*HELLO, *more], **fields}


def test_what_follows_the_first_words_is_the_same_conversation() -> None:
    answer = {"role": "assistant", "content": "Hi"}
    assert opening(asked()) == opening(asked(answer, {"role": "user", "content": "Refund A7"}, temperature=0))


def test_two_users_who_begin_alike_have_two_conversations() -> None:
    found = [opening(asked(**who)) for who in ({}, {"user": "ann"}, {"user": "bob"}, {"safety_identifier": "carol"})]
    assert len(set(found)) == len(found)
    assert opening(asked(user=7)) == opening(asked())
