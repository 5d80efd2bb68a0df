"""A tenant whose index is full: what comes then is in memory and counted, and is not searched; nobody stops."""

import pytest

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.retrieval.postings import ROW, document_number
from hmx_pipeline.store import changes
from hmx_pipeline.store.fetch import Store
from tests.stack.test_search import Writer, found
from tests.support.memory import Memory


def test_a_full_index_takes_no_more_episodes_and_everything_else_goes_on(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis' strings end at 512 MB; what was refused there would have memory built anew, again and again."""
    monkeypatch.setattr(changes, "SEARCHED", 30)
    writer, tenant = Writer(7), memory.keys.tenant("acme")
    said = writer.episodes(80)
    before = METRICS.unsearched._value.get()
    for start in range(0, 80, 10):
        memory.write(*said[start : start + 10])
    searched = memory.client.strlen(tenant.rows) // ROW.itemsize
    assert 20 < searched <= 30
    assert memory.client.hlen(tenant.documents) == searched
    assert int(memory.client.get(tenant.unsearched)) == 80 - searched
    assert METRICS.unsearched._value.get() - before == 80 - searched
    last = writer.episodes(1, tenant="other")
    memory.write(*last)
    assert int(memory.client.exists(memory.keys.tenant("other").unsearched)) == 0, "another tenant has room of its own"
    numbers = {int(number) for number in memory.client.hkeys(tenant.documents)}
    searchable = {
        f"e{record.partition}-{record.offset}"
        for record in said
        if document_number(record.partition, record.offset) in numbers
    }
    fetched = found(Store([memory.client], memory.keys), "deploy staging vault rotate namespace")
    assert fetched.episodes
    assert searchable >= {each.source.event_id for each in fetched.episodes}
    newest = f"e{said[-1].partition}-{said[-1].offset}"
    assert newest not in searchable
    assert memory.store.get_event("acme", newest) is not None, "found by its id all the same"
