"""Which requests of a chat completion are one conversation."""

from typing import Any

from hmx_pipeline.doors.openai_chat import opening

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
