"""What heals memory does so once, by itself, and at the cost of what was damaged: no more is lost, and nobody waits."""

from typing import Any

import pytest

from pipeline.service.dialect.capture import Capture, Captures
from pipeline.store import materialiser as materialising
from pipeline.store.blocks import TamperedError
from pipeline.store.materialiser import Materialiser, _Restart
from pipeline.store.sweep import Found
from pipeline.topology import EPISODES
from tests.support.memory import Memory, artifact, artifact_as_read, episode, episode_as_read
from tests.support.pipeline import new_settings


@pytest.fixture
def healer(memory: Memory, redis_url: str) -> Materialiser:
    """Before its first assignment: it looks at Redis, and asks no Kafka."""
    made = Materialiser(new_settings("127.0.0.1:9", redis_url))
    made._client, made._keys, made._blocks = memory.client, memory.keys, memory.blocks
    made._topic_ids = {EPISODES: "id"}
    made._sweep = sweep_of(None)
    memory.client.hset(memory.keys.topics, mapping=made._topic_ids)
    return made


def sweep_of(*found: Found | None) -> Any:
    """A sweep that finds this, step by step, and then nothing any more."""

    class Sweep:
        steps = iter(found)

        def step(self) -> Found | None:
            return next(self.steps, None)

    return Sweep()


def looks(healer: Materialiser, count: int) -> list[bool]:
    """Whether each of so many looks asked for memory to be built anew."""

    def asked() -> bool:
        try:
            healer._look_for_damage([f"{EPISODES}/0"])
        except _Restart:
            return True
        return False

    return [asked() for _ in range(count)]


def test_an_eviction_lets_memory_be_built_anew_once(healer: Materialiser, monkeypatch: pytest.MonkeyPatch) -> None:
    evicted = iter([("run", 0), *[("run", 7)] * 4])
    monkeypatch.setattr(materialising, "evictions", lambda _: next(evicted))
    assert looks(healer, 5) == [False, True, False, False, False]


def test_a_kind_that_stays_damaged_lets_memory_be_built_anew_once(
    healer: Materialiser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(materialising, "evictions", lambda _: (None, 0))
    rows = Found([], {"rows"})
    healer._sweep = sweep_of(rows, None, rows, None, rows, None, None, rows)
    assert looks(healer, 8) == [True, False, False, False, False, True, False, False]


def test_of_a_batch_only_the_capture_whose_record_is_altered_is_unknown(memory: Memory) -> None:
    memory.write(*(episode_as_read(episode(f"e{n}", index=n), n) for n in range(3)))
    memory.client.lset(memory.keys.tenant("acme").event("e1"), 1, b"junk")
    nothing: Any = None  # memory alone is asked
    captures = Captures(nothing, memory.store, nothing, nothing, nothing)
    asked = [Capture({"session_id": "s1", "event_id": f"e{n}"}, keyed=True) for n in range(4)]
    assert captures._in_memory("acme", asked) == [True, False, True, False]


def test_an_altered_episode_is_refused_however_many_share_its_id(memory: Memory) -> None:
    count = 100
    same = [episode("same", f"text {n}", index=n, session=f"s{n}") for n in range(count)]
    memory.write(*(episode_as_read(one, n) for n, one in enumerate(same)))
    key = memory.keys.tenant("acme").event("same")
    for n in (0, 50, count - 1):
        found = memory.store.get_event("acme", "same", f"s{n}")
        assert isinstance(found, dict)
        assert found["sessionId"] == f"s{n}"
    assert memory.store.get_event("acme", "same", "nobody") is None
    for n in (0, count - 1):
        was = memory.client.lindex(key, 2 * n + 1)
        memory.client.lset(key, 2 * n + 1, was.replace(b"text ", b"EVIL "))
        for session in (f"s{n}", None, "s50"):
            with pytest.raises(TamperedError):
                memory.store.get_event("acme", "same", session)
        memory.client.lset(key, 2 * n + 1, was)


def test_an_altered_earlier_version_is_in_no_pack(memory: Memory) -> None:
    old = artifact("a1", "Deploy staging old", status="superseded", superseded_by="a2")
    memory.write(artifact_as_read(old, 1), artifact_as_read(artifact("a2", supersedes="a1", version=2), 2))
    assert "a1" in {entry.source_id for entry in memory.pack("deploy staging", include=["superseded"]).entries}
    key = memory.keys.tenant("acme").artifact("a1")
    memory.client.set(key, memory.client.get(key).replace(b"staging old", b"staging EVL"))
    pack = memory.pack("deploy staging", include=["superseded"])
    assert [entry.source_id for entry in pack.entries] == ["a2"]
    assert pack.metadata["provenance_failed"] == ["artifact a1"]
