"""What heals memory does so once, by itself, and at the cost of what was damaged: no more is lost, and nobody waits."""

from typing import Any, cast

import pytest
from redis.exceptions import ReadOnlyError

from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.kafka.clients import Watermarks
from hmx_pipeline.service.hippocortex.capture import Capture, Captures
from hmx_pipeline.store import healing
from hmx_pipeline.store.archive import MemoryArchive
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError
from hmx_pipeline.store.damage_log import Lost
from hmx_pipeline.store.erased_memory import Erasures, erase_tenant
from hmx_pipeline.store.healing import Healing, RestartError
from hmx_pipeline.store.integrity_sweep import IntegritySweep, SweepResult
from hmx_pipeline.store.partition_reader import FilledPartition
from hmx_pipeline.store.repair import restored, unlisted
from hmx_pipeline.topology import EPISODES
from tests.support.memory import Memory, artifact, artifact_as_read, contribution_as_read, episode, episode_as_read

TOPIC_IDS = {EPISODES: "id"}


class Held:
    """A cluster whose topics begin here."""

    def __init__(self, low: int) -> None:
        self.low = low

    def watermarks(self, topic: str, partition: int) -> Watermarks:
        return Watermarks(self.low, 9)


@pytest.fixture
def healer(memory: Memory) -> Healing:
    """It looks at Redis, and at topics that Kafka still holds from their beginning."""
    memory.client.hset(memory.keys.topics, mapping=TOPIC_IDS)
    kept = memory.client, memory.keys, memory.blocks, cast("Any", Held(0)), MemoryArchive(None, "")
    made = Healing(*kept, "", lambda: None, Erasures().hides)
    made._sweep = sweep_of(None)
    return made


def sweep_of(*found: SweepResult | None) -> Any:
    """A sweep that finds this, step by step, and then nothing any more."""

    class IntegritySweep:
        steps = iter(found)

        def step(self) -> SweepResult | None:
            return next(self.steps, None)

    return IntegritySweep()


def looks(healer: Healing, count: int) -> list[bool]:
    """Whether each of so many looks asked for memory to be built anew."""

    def asked() -> bool:
        try:
            healer.look({(EPISODES, 0): FilledPartition(EPISODES, 0, None, 0, 0)}, TOPIC_IDS, sweep=True)
        except RestartError:
            return True
        return False

    return [asked() for _ in range(count)]


def test_an_eviction_lets_memory_be_built_anew_once(healer: Healing, monkeypatch: pytest.MonkeyPatch) -> None:
    evicted = iter([("run", 0), *[("run", 7)] * 4])
    monkeypatch.setattr(healing, "evictions", lambda _: next(evicted))
    assert looks(healer, 5) == [False, True, False, False, False]


def test_a_kind_that_stays_damaged_lets_memory_be_built_anew_ever_more_seldom(
    healer: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "evictions", lambda _: (None, 0))
    rows = SweepResult([], {"rows"})
    rounds = [rows, None] * 17
    healer._sweep = sweep_of(*rounds, None, rows)
    asked = looks(healer, 17 + 5 + 2)
    assert asked.count(True) == 5 + 1
    assert asked[-1]


def test_a_round_that_ends_while_redis_takes_no_writes_is_waited_for(
    healer: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    def delete(_: object) -> None:
        raise ReadOnlyError

    healer._sweep = sweep_of(None)
    monkeypatch.setattr(healer._client, "delete", delete)
    with pytest.raises(StoreUnavailableError, match="READONLY"):
        healer.look({(EPISODES, 0): FilledPartition(EPISODES, 0, None, 0, 0)}, TOPIC_IDS, sweep=True)


def test_a_memory_that_is_emptied_while_the_sweep_reads_it_is_not_taken_for_damaged(
    healer: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "evictions", lambda _: (None, 0))
    healer._sweep = sweep_of(SweepResult([], {"version"}))
    with pytest.raises(RestartError) as emptied:
        healer.look({(EPISODES, 0): FilledPartition(EPISODES, 0, 5, 5, 5)}, TOPIC_IDS, sweep=True)
    assert emptied.value.damaged == frozenset()


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


def test_what_kafka_no_longer_holds_is_never_forgotten_by_itself_but_named(
    healer: Healing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(healing, "evictions", lambda _: (None, 0))
    healer._cluster = cast("Any", Held(5))
    healer._sweep = sweep_of(SweepResult([], {"rows"}), None, SweepResult([], {"rows"}), None)
    assert looks(healer, 2) == [False, False]
    assert healer.left == {"rows"}
    assert "redis-cli" in healer.advice(healer.left)
    assert looks(healer, 1) == [False]
    assert not healer.left, "a round has found nothing"


def swept(memory: Memory) -> tuple[set[Lost], set[str]]:
    found = list(iter(IntegritySweep(memory.client, memory.keys).step, None))
    return {lost for each in found for lost in each.lost}, {kind for each in found for kind in each.broken}


@pytest.mark.parametrize("kind", ["document", "event", "contribution", "artifact"])
def test_a_damaged_entry_that_its_topic_no_longer_holds_is_forgotten_wherever_it_is_listed(
    memory: Memory, kind: str
) -> None:
    memory.write(*(episode_as_read(episode(f"e{n}", f"deploy staging {n}", index=n), n) for n in range(3)))
    memory.write(*(contribution_as_read(f"c{n}", n) for n in range(3)))
    memory.write(*(artifact_as_read(artifact(f"a{n}", f"Deploy staging {n}"), n) for n in range(3)))
    tenant = memory.keys.tenant("acme")
    lost = Lost(tenant, kind, "1" if kind == "document" else f"{kind[0]}1")
    if kind == "document":
        memory.client.hset(lost.key, "1", b"junk")
    elif kind == "event":
        memory.client.lset(lost.key, 1, b"junk")
    else:
        memory.client.set(lost.key, b"junk")
    assert swept(memory)[0] == {lost}
    found = restored(memory.keys, [lost], [], Erasures().hides)
    assert found.missing == {lost}
    commands = [*found.commands[lost], *unlisted(memory.client, lost)]
    assert memory.blocks.mend(memory.store.positions(), commands)
    memory.blocks.read_again()
    assert swept(memory) == (set(), set())
    pack = memory.pack("deploy staging")
    assert "provenance_failed" not in pack.metadata
    assert {"e0", "e2", "a0"} <= {entry.source_id for entry in pack.entries}


def test_a_record_is_mended_while_another_process_writes_other_partitions(memory: Memory) -> None:
    first, other = episode("e1"), episode("e2", session="s2")
    memory.write(episode_as_read(first, 0), episode_as_read(other, 0, partition=1))
    lost = Lost(memory.keys.tenant("acme"), "event", "e1")
    memory.client.lset(lost.key, 1, b"junk")
    found = restored(
        memory.keys, [lost], [episode_as_read(first, 0), episode_as_read(other, 0, partition=1)], Erasures().hides
    )
    assert found.places == {(EPISODES, 0)}
    assert not found.missing


def test_a_tenant_of_which_everything_was_erased_is_no_damage(memory: Memory) -> None:
    kept = episode_as_read(episode("e1", "deploy staging"), 0)
    memory.write(kept, episode_as_read(episode("e2", "rotate the vault", tenant="gone"), 1))
    of_all = mark_of("gone", ErasedScope.TENANT, "")
    mark = ErasureMark(erasure_id="x", tenant_id="gone", at=0, marks=[of_all], partition=0, before=99)
    assert erase_tenant(memory.client, memory.keys, "gone", Erasures([mark])) == 1
    assert swept(memory) == (set(), set())
