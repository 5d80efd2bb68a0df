"""Memory as the service reads it: what both stages publish of events, in a real Redis, and whole packs from there.

Enters: events. Leaves: the records of all topics in their order, and a memory that they are written to as the
materialiser writes them. HMX_REDIS_URL names a Redis, else one is started and thrown away. Fails: StackError.
"""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.local.redis import redis
from hmx_pipeline.local.supervisor import Supervisor
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.store.embedding_model import Semantic
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE
from tests.quality.sessions import happened, published
from tests.support.inprocess import run
from tests.support.memory import Memory
from tests.support.records import START_MS, LogRecord

_BLOCK: Final = 500
_PREFIX: Final = "quality-"


def both_stages(events: Iterable[dict[str, Any]]) -> list[TopicRecord]:
    """Episodes, artifacts and knowledge, each topic's in the order of their publication."""
    said = list(events)
    made = list(published(said))
    after = max([START_MS, *map(happened, said)])  # what is learnt is appended when all of it has happened
    evidence = [
        LogRecord(0, offset, after + offset, output.key, output.value, output.headers)
        for offset, output in enumerate(output for output in made if output.topic == EVIDENCE)
    ]
    return [*as_read(made, EPISODES), *as_read(run(PatternsFold, evidence).outputs, ARTIFACTS, KNOWLEDGE)]


def as_read(outputs: Iterable[Output], *topics: str) -> list[TopicRecord]:
    """As a reader of these topics gets them."""
    found: list[TopicRecord] = []
    offsets = dict.fromkeys(topics, 0)
    for output in outputs:
        if output.topic in offsets:
            found.append(TopicRecord(output.topic, 0, offsets[output.topic], output.key, output.value, output.headers))
            offsets[output.topic] += 1
    return found


def newest(records: Iterable[TopicRecord], topic: str) -> list[bytes]:
    """What a compacted topic holds in the end, by key."""
    held = {record.key: record.value for record in records if record.topic == topic}
    return [value for _, value in sorted(held.items()) if value is not None]


class Remembered(Memory):
    def add(self, records: Iterable[TopicRecord]) -> None:
        """In blocks, as the materialiser does."""
        rest = list(records)
        while rest:
            self.write(*rest[:_BLOCK])
            rest = rest[_BLOCK:]

    def ask(
        self, query: str, tenant_id: str, budgets: Iterable[int], **fields: Any
    ) -> dict[int, tuple[ContextPack, MemorySnapshot]]:
        """As the service answers, at each budget, with what the answer was chosen from; that is fetched once."""
        requests = [PackRequest(query=query, tenant_id=tenant_id, token_budget=budget, **fields) for budget in budgets]
        fetched = self.store.fetch(plan(requests[-1], self.store.embed))
        return {request.token_budget: (assemble(request, plan(request), fetched), fetched) for request in requests}


@contextmanager
def memory(name: str, model: Semantic | None = None) -> Iterator[Remembered]:
    """Empty at the beginning; `name` tells memories of one server apart. With a model what was said in other words is
    found too."""
    with _server() as url:
        semantic = (model.name, model.vector) if model else ()
        held = Remembered(url, f"{_PREFIX}{name}.", *semantic)
        held.wipe()
        yield held
        held.wipe()


@contextmanager
def _server() -> Iterator[str]:
    if given := os.environ.get("HMX_REDIS_URL"):
        yield given
        return
    with tempfile.TemporaryDirectory() as folder:
        server = redis(Path(folder))
        supervisor = Supervisor([[server.component]], Path(folder))
        supervisor.start()
        try:
            yield server.url
        finally:
            supervisor.stop()
