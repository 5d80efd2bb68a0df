"""The same memory gives the same packs to the byte, in whatever order and in whichever partitions it was written.

So do two generations of a log, and two replays whose partitions came together in another way."""

import random
from hashlib import sha256

import pytest

from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import KNOWLEDGE
from tests.support.memory import T0, Memory, artifact, artifact_as_read, episode, episode_as_read
from tests.support.sessions import interleaved
from tests.support.talk import knowledge_of, said

SAID = ("We deploy on Friday.", "We deploy staging with make.", "The namespace of staging is blue.")
LETTERS = str.maketrans("0123456789", "ghijklmnop")
QUERIES = ("deploy staging", "What is the namespace?", "When do we deploy?")


def written(memory: Memory, dice: random.Random) -> None:
    """Sessions, mixed and placed by these dice. More turns answer alike, at the same time, than a pack looks at."""
    homes = [dice.randrange(4) for _ in range(240)]
    offsets = [0, 0, 0, 0]
    records = []
    for n, place in interleaved([[(n, place) for place in range(1 + n % 2)] for n in range(240)], dice):
        own = " ".join(sha256(f"{n}/{word}".encode()).hexdigest().translate(LETTERS)[:7] for word in range(5))
        made = episode(f"s{n}-{place}", f"Deploy staging {own}", session=f"s{n}", index=place, at=T0 + n // 120)
        records.append(episode_as_read(made, offsets[homes[n]], homes[n]))
        offsets[homes[n]] += 1
    learnt = [artifact(f"a{n}", f"Deploy staging {n % 2}") for n in range(6)]
    known = [
        KnowledgeRecord.model_validate(one) for one in knowledge_of([*said("k1", *SAID[:2]), *said("k2", SAID[2])])
    ]
    for source, made in ((learnt, artifact_as_read), (known, _known)):
        records += [made(one, offset, 3) for offset, one in enumerate(dice.sample(source, len(source)))]
    for start in range(0, len(records), 100):
        memory.write(*records[start : start + 100])


def _known(record: KnowledgeRecord, offset: int, partition: int) -> TopicRecord:
    return TopicRecord(KNOWLEDGE, partition, offset, f"acme/{record.record_id}".encode(), record.to_json(), [])


def told(pack: ContextPack) -> bytes:
    """All but how far topics were read and how long it took."""
    timing = pack.assembly_metadata.model_copy(update={"assembly_duration_ms": 0})
    return pack.model_copy(update={"pack_id": "p", "metadata": {}, "assembly_metadata": timing}).to_json()


@pytest.mark.parametrize("seed", range(3))
def test_in_whatever_order_memory_was_written_its_packs_are_the_same(redis_url: str, seed: int) -> None:
    found = []
    for number in (2 * seed, 2 * seed + 1):
        memory = Memory(redis_url, f"same{seed}-{number}-")
        memory.wipe()
        try:
            written(memory, random.Random(number))
            asked = [
                {"token_budget": budget, "fill": fill} for budget in (300, 3_000) for fill in ("budget", "relevant")
            ]
            found.append([told(memory.pack(query, **more)) for query in QUERIES for more in asked])
        finally:
            memory.wipe()
            memory.client.close()
    assert found[0] == found[1]
