"""Many questions at once while memory is written: each is answered as of one moment."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import EVIDENCE
from tests.stack.test_precedents import QUESTION, begun, told, withdrawn
from tests.stack.test_search import QUERIES, Writer
from tests.support.memory import Memory, episode, episode_as_read

BLOCKS = 150
ASKERS = 8
ASKED: list[dict[str, Any]] = [
    *({"query": query} for query in QUERIES),
    {"query": QUESTION, "session_id": "now"},
    {"query": "build failed", "session_id": "now"},
    {"query": "deploy", "session_id": "s1-1"},
    {"query": "deploy", "lineage": {"session_id": "s1-1"}},
    {"query": "vault pods", "query_vector": [1.0, 0.2, -0.3, 0.4]},
]


def blocks(memory: Memory, seed: int) -> None:
    """Writes episodes, some with vectors, artifacts, and what sessions did, withdrawn again and more than has room."""
    writer, dice = Writer(seed), random.Random(seed)
    waiting = [each for each in told(24) if each.topic == EVIDENCE and each.value and b"pattern_type" in each.value]
    done = list(waiting[:0])
    offset = 1_000
    for number in range(BLOCKS):
        records = [*writer.episodes(dice.randrange(4)), *writer.artifacts(dice.randrange(3))]
        said = [*dice.choices(waiting, k=dice.randrange(4))]
        said += [withdrawn(each, 0) for each in dice.sample(done, min(len(done), dice.randrange(3)))]
        said = [each._replace(offset=offset + n) for n, each in enumerate(said)]
        offset += len(said)
        done = [*done, *said][-200:]
        if number % 3 == 0:
            near = [dice.uniform(-1, 1) for _ in range(4)]
            fields = episode(f"v{number}", writer.text(), session="near", index=number, embeddings=near)
            records.append(episode_as_read(fields, number, 5))
        memory.write(*records, *said)
        if number % 40 == 39:
            memory.blocks.read_again()


@pytest.mark.parametrize("changes", [20, 10_000])
def test_questions_while_memory_is_written_are_each_answered_as_of_one_moment(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, changes: int
) -> None:
    """Of one state every answer to a question is the same, whatever its process has read before."""
    monkeypatch.setattr("hmx_pipeline.store.changes.PATTERN_SAMPLE", 8)
    monkeypatch.setattr("hmx_pipeline.store.changes.CHANGES", changes)
    monkeypatch.setattr("hmx_pipeline.store.search.CHANGES", changes)
    plans = [plan(PackRequest(tenant_id="acme", **asked)) for asked in ASKED]
    written = threading.Event()

    def asking(number: int) -> dict[tuple[int, str], MemorySnapshot]:
        dice, found = random.Random(number), dict[tuple[int, str], MemorySnapshot]()
        while not written.is_set():
            store = Store([memory.client], memory.keys) if number == 0 else memory.store
            which = dice.randrange(len(plans))
            fetched = store.fetch(plans[which])
            assert found.setdefault((which, fetched.state_version), fetched) == fetched
        return found

    memory.write(*(each._replace(partition=3) for each in begun("build_image")))
    with ThreadPoolExecutor(ASKERS) as pool:
        answers = [pool.submit(asking, number) for number in range(ASKERS)]
        try:
            blocks(memory, seed=3)
        finally:
            written.set()
    of_one_state: dict[tuple[int, str], MemorySnapshot] = {}
    for each in answers:
        for asked, fetched in each.result().items():
            assert of_one_state.setdefault(asked, fetched) == fetched
    assert len({state for _, state in of_one_state}) > 1
    assert [memory.store.fetch(each) for each in plans] == [Store([memory.client], memory.keys).fetch(e) for e in plans]
