"""What a pack may take (HMX-C §1 and §11). `make bench` measures it closely; this holds the specification's own bars,
which lie far above, with a memory of the size that they are about."""

import pytest

from hmx_pipeline.store.fetch import Store
from tests.bench import memories
from tests.bench.kit import quantile
from tests.bench.packs import timed
from tests.support.memory import Memory

MEMORIES, ARTIFACTS, QUESTIONS = 100_000, 5_000, 1_000


@pytest.mark.slow
@pytest.mark.requirement("C-24", "X25")
def test_a_thousand_questions_to_a_hundred_thousand_memories_are_answered_in_time(memory: Memory) -> None:
    memories.fill(memory, "acme", MEMORIES, ARTIFACTS)
    asked = memories.queries(2 * QUESTIONS, MEMORIES, 1)
    assert len(set(asked)) > QUESTIONS
    reader = Store(memory.client, memory.keys)
    cold, warm = (timed(reader, "acme", some) for some in (asked[:QUESTIONS], asked[QUESTIONS:]))
    for took in (cold, warm):
        assert quantile(took, 50) < 50
        assert quantile(took, 99) < 100  # a third bar of the specification, for every pack; §11 allows 200
