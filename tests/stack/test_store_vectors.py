"""Packs from a real Redis for questions that bring a vector: what events' own embeddings are near it (HMX-E §2.2)."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.vectors import Vector, vector
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.store.projection import TopicRecord
from tests.support.memory import T0, Memory, episode, episode_as_read
from tests.verifier.log import Row
from tests.verifier.memory import read_memory
from tests.verifier.projection import Expected, sorted_parts

QUESTION = "How do I get my money back?"
ASKED = [0.1, 0.9, 0.2]
DECOY, ANSWER, FAR = "decoy", "answer", "far"
MODEL = {"x-hmx-embedding-model": "mini"}


def said(
    event_id: str, text: str, embeddings: list[float], place: int, partition: int = 0, **fields: Any
) -> TopicRecord:
    made = episode(event_id, text, session=event_id, index=place, embeddings=embeddings, **fields)
    return episode_as_read(made, place, partition)


def talk(**fields: Any) -> list[TopicRecord]:
    """A turn that has the question's words, one that says the same in others, one that is about something else."""
    return [
        said(DECOY, "Get back to my desk, the money is on it", [0.9, -0.1, 0.1], 0, **fields),
        said(ANSWER, "Refunds are paid out within five days", [0.2, 1.8, 0.4], 1, partition=1, **fields),
        said(FAR, "The build has failed again", [0.1, -0.2, 0.9], 2, partition=2, **fields),
    ]


@pytest.mark.requirement("E-13")
def test_a_paraphrase_near_the_question_s_vector_comes_before_what_only_has_its_words(memory: Memory) -> None:
    memory.write(*talk())
    assert memory.found(QUESTION)[0] == DECOY
    assert memory.found(QUESTION, query_vector=ASKED)[:2] == [ANSWER, DECOY]
    assert memory.found("the and of", query_vector=ASKED)[0] == ANSWER, "stop words alone find nothing"


@pytest.mark.requirement("E-13", "C-23")
def test_every_process_and_every_filling_answers_alike(memory: Memory) -> None:
    more = [said(f"e{n}", f"money word{n % 7}", [n % 5, n % 3, 1], n, n % 3) for n in range(3, 90)]
    records = [*talk(), *more]
    question = {"query_vector": ASKED, "token_budget": 100_000}
    for start in range(0, len(records), 20):
        memory.write(*records[start : start + 20])
        mine = memory.pack(QUESTION, **question)
    memory.store = Store([memory.client], memory.keys)
    assert memory.pack(QUESTION, **question) == mine
    memory.wipe()
    memory.write(*sorted(records, key=lambda record: (-record.partition, record.offset)))
    assert memory.pack(QUESTION, **question) == mine
    assert len(mine.entries) > 5


def test_a_vector_of_another_length_or_model_finds_nothing(memory: Memory) -> None:
    memory.write(*talk(metadata=MODEL))
    alone = memory.found(QUESTION)
    assert memory.found(QUESTION, query_vector=ASKED) == alone
    assert memory.found(QUESTION, query_vector=ASKED, query_model="maxi") == alone
    assert memory.found(QUESTION, query_vector=[*ASKED, 0.0], query_model="mini") == alone
    assert memory.found(QUESTION, query_vector=ASKED, query_model="mini")[0] == ANSWER


def test_a_tenant_s_vectors_are_its_own(memory: Memory) -> None:
    memory.write(*talk(tenant="other"))
    assert memory.found(QUESTION, query_vector=ASKED) == []


def test_what_is_asked_for_by_origin_or_time_is_all_that_a_vector_finds(memory: Memory) -> None:
    later = said("later", "Money is returned by bank transfer", ASKED, 3, at=T0 + 86_400_000, tags=["bank"])
    memory.write(*talk(), later)
    assert memory.found(QUESTION, query_vector=ASKED)[0] == "later"
    assert "later" not in memory.found(QUESTION, query_vector=ASKED, as_of=format_ms(T0))
    assert memory.found(QUESTION, query_vector=ASKED, as_of=format_ms(T0))[0] == ANSWER
    assert memory.found(QUESTION, tags=["bank"], query_vector=ASKED) == ["later"]
    assert memory.found(QUESTION, query_vector=ASKED, lineage={"session_id": DECOY}) == [DECOY]


def test_what_has_outlived_its_time_is_not_found_by_its_vector_either(memory: Memory) -> None:
    memory.write(*talk(ttl_seconds=60))
    assert memory.found(QUESTION, query_vector=ASKED)[0] == ANSWER
    memory.write(said("clock", "A word", [-1.0, -1.0, -1.0], 3, at=T0 + 61_000))
    assert {DECOY, ANSWER}.isdisjoint(memory.found(QUESTION, query_vector=ASKED))


def test_an_event_whose_embeddings_point_nowhere_is_found_by_its_words(memory: Memory) -> None:
    memory.write(said("e1", "Money comes back", [0.0, 0.0, 0.0], 0))
    assert memory.found(QUESTION, query_vector=ASKED) == ["e1"]
    assert memory.found(QUESTION, query_vector=[0.0]) == ["e1"]


def test_without_a_question_s_vector_embeddings_change_nothing(memory: Memory) -> None:
    memory.write(*talk())
    with_embeddings = memory.pack(QUESTION)
    memory.wipe()
    memory.write(*(_bare(record) for record in talk()))
    assert memory.pack(QUESTION) == with_embeddings


def test_the_verifier_expects_the_vectors_that_are_there(redis_url: str, memory: Memory) -> None:
    wide = said("wide", "Wider than what is kept", [1.0, -1.0] * 1_000, 3)
    records = [*talk(metadata=MODEL), wide]
    memory.write(*records)
    expected = Expected(memory.keys.root, {})
    for n, record in enumerate(records):
        expected.take(record.topic, record.partition, Row(record.offset, n, record.key, record.value, []))
    found = sorted_parts(read_memory(redis_url, memory.keys.prefix))
    mine = {key: value for key, value in expected.keys().items() if b":vector:" in key}
    assert len(mine) == 2
    assert {key: value for key, value in found.items() if b":vector:" in key} == mine


def _meaning(text: str) -> Vector | None:
    """In the place of a model: what is about money paid back is one direction, all else another."""
    about_refunds = any(word in text.lower() for word in ("refund", "money back"))
    return vector([0.0, 1.0] if about_refunds else [1.0, 0.0], "model")


@pytest.fixture
def semantic(redis_url: str, memory: Memory) -> Iterator[Memory]:
    made = Memory(redis_url, memory.keys.prefix, "model", _meaning)
    yield made
    made.client.close()


def test_with_a_model_every_text_and_every_question_has_a_vector(semantic: Memory) -> None:
    semantic.write(*map(_bare, talk()))
    assert semantic.found(QUESTION)[:2] == [ANSWER, DECOY]
    mine = semantic.pack(QUESTION)
    semantic.store = Store([semantic.client], semantic.keys, _meaning)
    assert semantic.pack(QUESTION) == mine


def test_an_event_s_own_vector_of_the_same_model_is_taken_for_what_it_says(semantic: Memory) -> None:
    semantic.write(said("e1", "Unheard of", [0.0, 2.0], 0, metadata={"x-hmx-embedding-model": "model"}))
    semantic.write(said("e2", "Unheard of as well", [0.0, 2.0], 1))
    assert semantic.found(QUESTION) == ["e1"]
    assert sorted(semantic.found(QUESTION, query_vector=[0.0, 1.0])) == ["e2"], "the question brings another model's"


def test_memory_with_a_model_is_another_one_than_memory_without(memory: Memory, semantic: Memory) -> None:
    for each in (memory, semantic):
        assert each.store.positions() == {}
        each.write(*map(_bare, talk()))
    assert memory.found(QUESTION)[0] == DECOY
    assert memory.pack(QUESTION).pack_id != semantic.pack(QUESTION).pack_id
    assert memory.store.state_version("acme") != semantic.store.state_version("acme")


def _bare(record: TopicRecord) -> TopicRecord:
    assert record.value is not None
    fields = json.loads(record.value)
    del fields["metadata"]["hmx"]["embeddings"]
    return record._replace(value=json.dumps(fields).encode())
