"""Service processes take a session in turn, through Redis: one at a time, none for ever, no sequence twice."""

from itertools import pairwise

import pytest

from hmx_pipeline.store import capture_coordination
from hmx_pipeline.store.capture_coordination import CaptureCoordination
from hmx_pipeline.store.servers import Shared
from tests.support.memory import Memory
from tests.support.waiting import until

EPOCH_MS = 1_577_836_800_000


@pytest.fixture
def shared(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> CaptureCoordination:
    monkeypatch.setattr(capture_coordination, "EMPTIED_MS", 0)
    return CaptureCoordination(Shared([memory.client]), memory.keys, EPOCH_MS)


def test_a_session_is_one_process_s_until_it_leaves(shared: CaptureCoordination) -> None:
    first = shared.enter("acme", "a", ["s", "t"])
    assert first.keys() == {"s", "t"}
    assert shared.enter("acme", "b", ["t", "u"]) == {}, "all of them or none"
    assert shared.enter("acme", "c", ["v"]).keys() == {"v"}
    assert shared.enter("globex", "d", ["s"]).keys() == {"s"}
    shared.leave("acme", "somebody else", {"t": 5})
    assert shared.enter("acme", "b", ["t", "u"]) == {}
    shared.leave("acme", "a", {"s": first["s"] + 7, "t": first["t"] + 10**9})
    assert shared.enter("acme", "b", ["t", "u"])["t"] == first["t"] + 10**9 + 1


def test_whoever_waits_goes_before_whoever_comes_back(
    shared: CaptureCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_coordination, "WAITED_MS", 60_000)
    shared.enter("acme", "a", ["s"])
    assert shared.enter("acme", "b", ["s"]) == {}
    shared.leave("acme", "a", {"s": 1})
    assert shared.enter("acme", "a again", ["s"]) == {}
    assert shared.enter("acme", "b", ["s"]).keys() == {"s"}


def test_a_process_that_dies_has_held_a_session_for_a_while_only(
    shared: CaptureCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_coordination, "HELD_MS", 50)
    assert shared.enter("acme", "dead", ["s"])
    until(lambda: shared.enter("acme", "b", ["s"]), "the session is free")


def test_sequences_rise_though_redis_is_emptied(memory: Memory, shared: CaptureCoordination) -> None:
    given = []
    for token in map(str, range(40)):
        first = shared.enter("acme", token, ["s"])["s"]
        given += [first, first + 1]
        shared.leave("acme", token, {"s": first + 1})
        if token == "20":
            memory.wipe()
    assert all(a < b for a, b in pairwise(given))
    assert given[-1] < 2**53


def test_where_redis_was_emptied_nobody_appends_before_the_last_one_has(
    memory: Memory, shared: CaptureCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared.enter("acme", "a", ["s"])
    monkeypatch.setattr(capture_coordination, "EMPTIED_MS", 60_000)
    memory.wipe()
    assert shared.enter("acme", "b", ["s"]) == {}
    assert shared.enter("acme", "b", ["t"]) == {}


def test_a_tenant_that_nobody_has_seen_does_not_wait(
    memory: Memory, shared: CaptureCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shared.enter("acme", "a", ["s"])
    monkeypatch.setattr(capture_coordination, "EMPTIED_MS", 60_000)
    assert shared.enter("globex", "a", ["s"])


def test_what_was_appended_is_known_to_all(memory: Memory, shared: CaptureCoordination) -> None:
    shared.appended("acme", ["e1", "e 2"])
    other = CaptureCoordination(Shared([memory.client]), memory.keys, EPOCH_MS)
    assert other.known("acme", ["e1", "e3", "e 2"]) == [True, False, True]
    assert other.known("globex", ["e1"]) == [False]


def test_whoever_holds_a_session_may_go_on_holding_it_though_others_wait(
    shared: CaptureCoordination, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_coordination, "WAITED_MS", 60_000)
    monkeypatch.setattr(capture_coordination, "HELD_MS", 60_000)
    assert shared.enter("acme", "a", ["s", "t"])
    assert shared.enter("acme", "b", ["s"]) == {}
    assert shared.enter("acme", "a", ["s", "t"]).keys() == {"s", "t"}
    assert shared.enter("acme", "b", ["s"]) == {}
