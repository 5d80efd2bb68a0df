"""Episodes under one event id come apart again, whatever their sessions are called."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from pipeline.store.same_id import beginning, pack_episode, unpack_episodes

SESSIONS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)


@given(st.lists(st.tuples(SESSIONS, st.text(st.characters(codec="utf-8")))))
def test_of_each_session_the_last_episode_is_found(told: list[tuple[str, str]]) -> None:
    episodes = [(session, orjson.dumps({"said": text})) for session, text in told]
    assert unpack_episodes(b"".join(pack_episode(*each) for each in episodes)) == dict(episodes)


@given(SESSIONS, SESSIONS)
def test_a_beginning_is_of_one_session(one: str, other: str) -> None:
    assert pack_episode(one, b"{}").startswith(beginning(other)) is (one == other)


def test_nothing_has_no_episodes() -> None:
    assert unpack_episodes(None) == {}
