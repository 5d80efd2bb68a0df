"""What cards are said to take is about what they take."""

import tracemalloc

import msgspec
import pytest

from hmx_pipeline.retrieval.correction_index import Corrections
from hmx_pipeline.retrieval.memory_index import Corrected, KnowledgeIndexEntry, MemoryIndex

_CARDS = 2_000


def packed(number: int, about: Corrected | None, length: int) -> bytes:
    terms = {f"word{(number * 31 + n * 7) % 2_000}": 1 for n in range(length)}
    labels = ("agent:a", f"session:s{number}")
    return msgspec.msgpack.encode(
        KnowledgeIndexEntry(number.to_bytes(16, "big"), "memory", number, labels, terms, "", about)
    )


@pytest.mark.parametrize("length", [12, 40])
@pytest.mark.parametrize("corrected", [False, True])
def test_what_is_counted_is_within_a_third_of_what_is_taken(corrected: bool, length: int) -> None:
    goal = {f"goal{n}": 1 for n in range(20)}
    cards = [
        packed(n, Corrected(f"src/a/f{n}.py", "Edit", 1, ("agent",), goal) if corrected else None, length)
        for n in range(_CARDS)
    ]
    read = msgspec.msgpack.Decoder(KnowledgeIndexEntry).decode
    held = Corrections() if corrected else MemoryIndex()
    tracemalloc.start()
    try:
        held.put((f"name{n}", read(card)) for n, card in enumerate(cards))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken * 2 / 3 < held.nbytes < taken * 4 / 3
