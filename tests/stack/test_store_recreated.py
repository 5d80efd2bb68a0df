"""Forgetting what came from topics that are no more, a page of keys at a time, on a real Redis."""

from collections.abc import Callable
from typing import Any

import pytest

from hmx_pipeline.store import topic_ids
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.topic_ids import forget_recreated
from hmx_pipeline.topology import ARTIFACTS, EPISODES
from tests.support.memory import Memory, episode, episode_as_read

IDS = {EPISODES: "new", ARTIFACTS: "same"}
EVENTS = [f"e{n}" for n in range(40)]


def episodes(*ids: str) -> list[TopicRecord]:
    return [episode_as_read(episode(id_, "deploy staging", index=n), n) for n, id_ in enumerate(ids)]


def fill(memory: Memory) -> None:
    memory.write(*episodes(*EVENTS))
    memory.client.hset(memory.keys.topics, mapping={EPISODES: "old", ARTIFACTS: "same"})


def left(memory: Memory) -> list[bytes]:
    return [key for key in memory.client.scan_iter(match=f"{memory.keys.root}:*") if key != memory.keys.topics]


def at_answer(monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[], object]) -> list[Any]:
    """Does something once, behind so many answers of the scripts."""
    answers: list[Any] = []
    held = topic_ids._held

    def behind(answer: Any) -> Any:
        answers.append(answer)
        if len(answers) == number:
            then()
        return held(answer)

    monkeypatch.setattr(topic_ids, "_held", behind)
    return answers


def test_no_go_looks_at_more_than_a_page_of_keys(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory)
    monkeypatch.setattr(topic_ids, "PAGE", 5)
    answers = at_answer(monkeypatch, 0, lambda: None)
    assert forget_recreated(memory.client, memory.keys, IDS) == [EPISODES]
    assert left(memory) == []
    assert len(answers) > len(EVENTS) / 5
    assert memory.client.hgetall(memory.keys.topics) == {EPISODES.encode(): b"new", ARTIFACTS.encode(): b"same"}
    assert forget_recreated(memory.client, memory.keys, IDS) == []


def test_what_another_process_wrote_meanwhile_goes_too(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(memory)
    at_answer(monkeypatch, 2, lambda: memory.write(*episodes("late")))
    forget_recreated(memory.client, memory.keys, IDS)
    assert left(memory) == []


def test_while_one_process_forgets_another_waits(memory: Memory) -> None:
    fill(memory)
    memory.client.set(memory.keys.forgetting, "another's")
    with pytest.raises(StoreUnavailableError, match="another process is deleting"):
        forget_recreated(memory.client, memory.keys, IDS)
    assert memory.client.hget(memory.keys.topics, EPISODES) == b"old"
    memory.client.delete(memory.keys.forgetting)
    assert forget_recreated(memory.client, memory.keys, IDS) == [EPISODES]


@pytest.mark.parametrize("answer", [1, 2, 3])
def test_one_that_lost_its_lock_stops_and_the_next_one_ends_what_it_began(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, answer: int
) -> None:
    fill(memory)
    at_answer(monkeypatch, answer, lambda: memory.client.set(memory.keys.forgetting, "another's"))
    with pytest.raises(StoreUnavailableError, match="continues deleting"):
        forget_recreated(memory.client, memory.keys, IDS)
    assert memory.client.hget(memory.keys.topics, EPISODES) == b"clearing"
    memory.client.delete(memory.keys.forgetting)
    assert forget_recreated(memory.client, memory.keys, IDS) == [EPISODES]
    assert left(memory) == []


def test_one_that_finds_all_done_once_it_has_the_lock_gives_it_back(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(memory)
    found = iter([{EPISODES: "new"}, {}])
    monkeypatch.setattr(topic_ids, "_others", lambda *_: next(found))
    before = memory.dump()
    assert forget_recreated(memory.client, memory.keys, IDS) == []
    assert memory.dump() == before


def test_a_tenant_of_a_long_name_is_not_listed_any_more_either(memory: Memory) -> None:
    long = "t" * 100
    fill(memory)
    memory.write(episode_as_read(episode("e", "deploy staging", tenant=long), 0))
    assert long.encode() in memory.client.smembers(memory.keys.tenants)
    forget_recreated(memory.client, memory.keys, IDS)
    assert left(memory) == []
