"""What is cold leaves the same Redis behind, whenever its cut rises and however the partitions come together."""

from collections.abc import Sequence
from itertools import permutations

import pytest

from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, mark_of
from hmx_pipeline.contracts.retention import HOT, RETENTION
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.block_builder import BlockBuilder
from hmx_pipeline.store.cold_episodes import cold_part
from hmx_pipeline.store.cold_index import ColdIndex, joined
from hmx_pipeline.store.erased_memory import Erasures, erase_tenant
from hmx_pipeline.store.integrity_sweep import IntegritySweep
from hmx_pipeline.store.projection import TopicRecord
from tests.support.memory import T0, Memory, artifact, artifact_as_read, episode, episode_as_read

DAY = 86_400_000
CUT = T0 + 5 * DAY
MARK = ErasureMark(
    erasure_id=RETENTION, tenant_id="acme", at=CUT, marks=[], partition=0, before=0, policy="hot:1d", cuts={HOT: CUT}
)
SUBJECT = {"metadata": {"subject_id": "ada"}}
EMBEDDED = {"embeddings": [0.5, -1.0, 0.25]}


def told(partition: int, *moments: tuple[int, str]) -> list[TopicRecord]:
    """A session of one partition: the day and the text of each episode."""
    return [
        episode_as_read(
            episode(
                f"e{partition}-{n}", text, session=f"s{partition}", at=T0 + day * DAY, index=n, **SUBJECT, **EMBEDDED
            ),
            n,
            partition,
        )
        for n, (day, text) in enumerate(moments)
    ]


FIRST = told(0, (1, "the copper kettle"), (2, "the kettle whistles"), (8, "the copper spoon"), (3, "the late kettle"))
SECOND = told(1, (4, "a kettle of tin"), (4, "tin sings"))
BRIEF = [episode_as_read(episode("brief", "kettle for a day", session="s2", at=T0, ttl_seconds=60), 2, partition=1)]
OTHERS = [artifact_as_read(artifact("a1"), 0)]
PARTS = (FIRST, [*SECOND, *BRIEF], OTHERS)


def write(memory: Memory, records: Sequence[TopicRecord], hides: Erasures) -> None:
    name = f"{records[0].topic}/{records[0].partition}"
    for block, commands in BlockBuilder(memory.keys, None, hides, lambda: None).blocks(records):
        memory.blocks.apply(name, memory.store.positions().get(name), block[-1].offset + 1, commands)


@pytest.fixture
def refilled(memory: Memory) -> dict[bytes, bytes]:
    for records in PARTS:
        write(memory, records, Erasures([MARK]))
    found = memory.dump()
    memory.wipe()
    return found


@pytest.mark.parametrize("order", list(permutations(range(len(PARTS)))))
@pytest.mark.parametrize("after", range(4))
def test_every_interleaving_leaves_the_same(
    memory: Memory, refilled: dict[bytes, bytes], order: Sequence[int], after: int
) -> None:
    """`after`: how many parts are there when the cut rises; it has risen in part before."""
    early = MARK.model_copy(update={"cuts": {HOT: T0 + 2 * DAY}, "partition": 1})
    erasures = Erasures()
    for n, part in enumerate(order):
        if n == min(after, 1):
            assert erasures.arrived([early]) == ["acme"]
            erase_tenant(memory.client, memory.keys, "acme", erasures)
        if n == after:
            assert erasures.arrived([MARK]) == ["acme"]
            erase_tenant(memory.client, memory.keys, "acme", erasures)
        write(memory, PARTS[part], erasures)
    erasures.arrived([early, MARK])
    erase_tenant(memory.client, memory.keys, "acme", erasures)
    assert memory.dump() == refilled
    assert not any(each.lost or each.broken for each in iter(IntegritySweep(memory.client, memory.keys).step, None))
    assert memory.store.cold("acme").before == CUT
    assert memory.found("the copper kettle", subject_id="ada") == ["e0-2"], "the brief one has expired"


def test_a_search_with_the_cold_index_is_as_if_nothing_had_cooled(memory: Memory) -> None:
    """Also where some of it has not left Redis yet."""
    erasures = Erasures([MARK])
    parts = [cold_part("acme", records, erasures) for records in (FIRST, SECOND)]
    asked = {"query": "which copper kettle", "tenant_id": "acme", "fill": "budget", "query_vector": [1.0, -1.0, 0.0]}
    packs = []
    for subject in ("ada", "bob"):
        for written in (Erasures(), erasures):
            for records in PARTS:
                write(memory, records, written)
            cold = ColdIndex(joined(parts))
            planned = plan(PackRequest.model_validate({**asked, "subject_id": subject}))
            plain = assemble(planned.request, planned, memory.store.fetch(planned))
            whole = assemble(planned.request, planned, memory.store.fetch(planned, cold))
            packs.append([entry.model_dump() for entry in whole.entries])
            if not written:
                assert [entry.model_dump() for entry in plain.entries] == packs[-1]
            memory.wipe()
        assert packs[-2] == packs[-1]
    assert len(packs[0]) > len(packs[2])


@pytest.mark.parametrize("live", [True, False])
def test_a_tenant_of_nothing_but_cold_episodes_is_not_called_damaged(memory: Memory, live: bool) -> None:
    erasures = Erasures([MARK])
    write(memory, SECOND, Erasures() if live else erasures)
    erase_tenant(memory.client, memory.keys, "acme", erasures)
    assert memory.client.hlen(memory.keys.tenant("acme").digests("event")) == 0
    assert not any(each.lost or each.broken for each in iter(IntegritySweep(memory.client, memory.keys).step, None))
    assert memory.store.newest("acme") == T0 + 4 * DAY
    memory.client.set(memory.keys.tenant("acme").cold, b"no moment")
    assert memory.found("kettle") == []


def test_an_erased_tenant_has_no_cold_past(memory: Memory) -> None:
    erasures = Erasures([MARK])
    for records in PARTS:
        write(memory, records, erasures)
    whole = mark_of("acme", ErasedScope.TENANT, "")
    marks = [
        MARK.model_copy(update={"erasure_id": "e1", "marks": [whole], "partition": n, "before": 99}) for n in (0, 1)
    ]
    assert erasures.arrived([one.model_copy(update={"cuts": {}}) for one in marks]) == ["acme"]
    erase_tenant(memory.client, memory.keys, "acme", erasures)
    assert memory.store.cold("acme").before == 0
    assert memory.store.newest_episodes("acme") == {}
    tenant = memory.keys.tenant("acme")
    assert not memory.client.exists(tenant.documents, tenant.rows), "no place is left blank, to be searched for ever"
