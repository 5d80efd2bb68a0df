"""What a process remembers of the index, against one that has just begun: the same answers, whatever befalls Redis."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.postings import POSTING
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.store.atomic_blocks import snapshot
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.search import _CARD
from hmx_pipeline.store.tenant_index import TenantIndex, TenantIndexes
from hmx_pipeline.topology import ARTIFACTS
from tests.support.memory import T0, Memory, artifact, artifact_as_read, episode, episode_as_read

WORDS = ("deploy", "staging", "rotate", "vault", "namespace", "pods", "ingress", "credentials")
QUERIES = ("deploy staging", "rotate the vault credentials", "namespace of the pods and the ingress", "unheard of")


class Writer:
    """Appends records of three partitions, and artifacts that are replaced and erased, at random."""

    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.offsets = [0, 0, 0]
        self.told = 0

    def text(self) -> str:
        return " ".join(self.dice.choices(WORDS, k=self.dice.randint(1, 6)))

    def episodes(self, count: int, tenant: str = "acme") -> list[TopicRecord]:
        made = []
        for _ in range(count):
            partition = self.dice.randrange(3)
            offset = self.offsets[partition] = self.offsets[partition] + 1
            session = f"s{partition}-{self.dice.randrange(3)}"
            said = episode(f"e{partition}-{offset}", self.text(), session=session, index=offset, tenant=tenant)
            made.append(episode_as_read(said, offset, partition))
        return made

    def artifacts(self, count: int) -> list[TopicRecord]:
        made = []
        for _ in range(count):
            name, self.told = f"a{self.dice.randrange(8)}", self.told + 1
            status = self.dice.choice(["active", "active", "draft"])
            if self.dice.random() < 0.2:
                made.append(TopicRecord(ARTIFACTS, 0, self.told, join_key("acme", name).encode(), None))
            else:
                made.append(artifact_as_read(artifact(name, self.text(), status=status), self.told))
        return made


def found(store: Store, query: str, **asked: Any) -> MemorySnapshot:
    return store.fetch(plan(PackRequest(query=query, tenant_id="acme", **asked)))


def same_as_anew(memory: Memory) -> None:
    fresh = Store([memory.client], memory.keys)
    for query in QUERIES:
        assert found(memory.store, query) == found(fresh, query)


@pytest.mark.requirement("C-23")
def test_what_is_remembered_answers_as_a_process_that_has_just_begun(memory: Memory) -> None:
    writer, written = Writer(7), list[TopicRecord]()
    same_as_anew(memory)
    for turn in range(12):
        records = [*writer.episodes(turn), *writer.artifacts(turn % 4)]
        written += records
        memory.write(*records)
        same_as_anew(memory)
    before = [found(memory.store, query) for query in QUERIES]
    assert all(fetched.episodes and fetched.artifacts for fetched in before[:3])

    memory.wipe()
    for record in sorted(written, key=lambda r: (r.topic, -r.partition, r.offset)):
        memory.write(record)
        if record.offset == 1:
            same_as_anew(memory)
    assert [found(memory.store, query) for query in QUERIES] == before


@pytest.mark.requirement("C-23")
def test_a_word_near_to_the_question_s_finds_what_was_said_unless_it_stands_in_too_much(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmx_pipeline.store.search.COMMON", 3 * POSTING.itemsize)

    def told(query: str) -> list[str]:
        fetched = found(memory.store, query)
        assert fetched == found(Store([memory.client], memory.keys), query)
        return [each.source.event_id for each in fetched.episodes]

    said = [
        episode_as_read(episode(f"e{n}", "A dog sleeps.", session=f"s{n}", index=n, at=T0 + n), n) for n in range(5)
    ]
    memory.write(*said[:2])
    assert told("Which pets are there?") == ["e0", "e1"]
    memory.write(said[2])
    assert told("Which pets are there?") == ["e0", "e1", "e2"]
    memory.write(said[3])
    assert told("Which pets are there?") == []
    assert told("Which dogs are there?") == ["e0", "e1", "e2", "e3"]
    assert told("Which pets are there?") == []
    memory.wipe()
    memory.write(*said[:3])
    assert told("Which pets are there?") == ["e0", "e1", "e2"]


def test_a_question_waits_for_no_other_ones_answer_and_takes_in_what_that_one_has_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer(9)
    memory.write(*writer.episodes(30), *writer.artifacts(3))
    found(memory.store, QUERIES[0])
    first, go_on = threading.Event(), threading.Event()

    def slow(*asked: Any) -> list[Any]:
        answers = snapshot(*asked)
        if not first.is_set():  # its answers are old when they come
            first.set()
            assert go_on.wait(30)
        return answers

    monkeypatch.setattr("hmx_pipeline.store.search.snapshot", slow)
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(found, memory.store, QUERIES[1])
        assert first.wait(30)
        memory.write(*writer.episodes(30), *writer.artifacts(3))
        other = found(memory.store, QUERIES[2])
        go_on.set()
        fresh = Store([memory.client], memory.keys)
        assert waiting.result(30) == found(fresh, QUERIES[1])
        assert other == found(fresh, QUERIES[2])


def test_an_emptied_redis_that_holds_something_else_is_not_mistaken_for_the_old_one(memory: Memory) -> None:
    memory.write(*Writer(1).episodes(20))
    same_as_anew(memory)
    memory.wipe()
    assert not found(memory.store, "deploy staging").episodes
    memory.wipe()
    memory.write(*Writer(2).episodes(20))
    same_as_anew(memory)


def test_what_a_server_has_lost_and_was_given_again_in_another_order_is_not_taken_for_what_was_remembered(
    memory: Memory,
) -> None:
    """As after a fail-over: it goes back to an earlier moment, positions and all, and is filled from there."""
    writer = Writer(8)
    memory.write(*writer.episodes(30), *writer.artifacts(5))
    kept = [(key, memory.client.dump(key)) for key in memory.client.keys(memory.keys.root + "*")]
    lost = [*writer.episodes(30), *writer.artifacts(5)]
    memory.write(*lost)
    same_as_anew(memory)
    memory.wipe()
    for key, value in kept:
        memory.client.restore(key, 0, value)
    memory.blocks.read_again()
    later = [*writer.episodes(30), *writer.artifacts(5)]
    for record in sorted([*lost, *later], key=lambda r: (r.topic, -r.partition, r.offset)):
        memory.write(record)
    same_as_anew(memory)


def test_cards_are_read_again_where_more_has_changed_than_is_told(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hmx_pipeline.store.changes.CHANGES", 4)
    monkeypatch.setattr("hmx_pipeline.store.search.CHANGES", 4)
    writer = Writer(5)
    for count in (1, 20, 3, 6, 4, 5, 30):
        memory.write(*writer.artifacts(count))
        same_as_anew(memory)


def test_what_a_tenant_says_in_several_partitions_is_found(memory: Memory) -> None:
    writer = Writer(6)
    for partition in (1, 0, 2, 0, 1):
        memory.write(*(record._replace(partition=partition) for record in writer.artifacts(6)))
        same_as_anew(memory)


def test_other_tenants_and_terms_are_forgotten_first_and_read_again(memory: Memory) -> None:
    writer = Writer(3)
    memory.write(*writer.episodes(60), *writer.episodes(60, "zeta"))
    store = Store([memory.client], memory.keys)
    store._searches.all[0].views = views = TenantIndexes(8 * KB)
    fresh = Store([memory.client], memory.keys)
    for _ in range(3):
        for query in QUERIES:
            for tenant in ("acme", "zeta"):
                planned = plan(PackRequest(query=query, tenant_id=tenant))
                assert store.fetch(planned) == fresh.fetch(planned)
                assert views.nbytes <= max(8 * KB, views.of(memory.keys.tenant(tenant).root).bytes)


def test_a_view_in_use_is_not_taken_from_under_its_user() -> None:
    views = TenantIndexes(0)
    used, other = views.of("used"), views.of("other")
    with used.lock, other.lock:
        views.settle(other)
    assert views.of("used") is used
    with other.lock:
        views.settle(other)
    assert views.of("used") is not used
    assert isinstance(views.of("other"), TenantIndex)


def test_what_is_remembered_and_nowhere_else_is_forgotten(memory: Memory) -> None:
    memory.write(*Writer(3).episodes(20), artifact_as_read(artifact("a1"), 0))
    same_as_anew(memory)
    tenant = memory.keys.tenant("acme")
    card = _CARD.decode(memory.client.hget(tenant.artifact_cards, "a1"))
    lost = msgspec.structs.replace(card, digest=bytes(len(card.digest)))
    memory.store._searches.all[0].views.of(tenant.root).artifacts.catalogue.put([("lost", lost)])
    same_as_anew(memory)


def test_what_changes_between_the_trips_is_looked_for_again(memory: Memory) -> None:
    """A pack's state version and what it holds belong together."""
    memory.write(artifact_as_read(artifact("a1"), 0), episode_as_read(episode("e1", "deploy staging"), 0))
    store = Store([memory.client], memory.keys)
    changes = iter([artifact_as_read(artifact("a1", "Deploy production", version=2), 1)])
    read = store._searches.all[0]._read

    def meanwhile(*arguments: Any) -> Any:
        for record in changes:
            memory.write(record)
        return read(*arguments)

    store._searches.all[0]._read = meanwhile  # type: ignore[method-assign]
    fetched = found(store, "deploy staging")
    assert [hit.source.title for hit in fetched.artifacts] == ["Deploy production"]
    assert fetched.state_version == store.state_version("acme")
