"""Packs without Kafka, HTTP and child processes but one Redis: what the service would answer, for development.

Enters: a world's events. Leaves: what the benchmark asks of a service. Both folds run in process over as many
partitions as the topics have, with a barrier at the end; what they publish is written to a real Redis as the
materialiser writes it, and a pack is made by the function that the service's route calls. Nothing fails.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, Literal
from urllib.parse import unquote

import orjson

from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.keys import partition_of, session_key, tenant_partition
from hmx_pipeline.contracts.timestamps import NS_PER_MS, parse_instant
from hmx_pipeline.intake.control_records import setting
from hmx_pipeline.kafka.topic_files import load_topics
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, EVIDENCE, KNOWLEDGE
from tests.act.asking import for_whom
from tests.act.benchmark import Benchmark, World
from tests.quality.remembered import Remembered, memory
from tests.support.inprocess import barrier_record, run, sessions_fold, signed, tick_record
from tests.support.records import START_MS, LogRecord

Sharing = Literal["subjects", "team"]
_PACE_MS: Final = 1
_SILENCE_MS: Final = 60_000
_DAY_MS: Final = 86_400_000
_PARTITIONS: Final = next(spec.partitions for spec in load_topics() if spec.topic == EVENTS)


def learn(events: Sequence[dict[str, Any]], later_ms: int = _DAY_MS, sharing: Sharing = "team") -> list[TopicRecord]:
    """All that both stages publish, of tenants that are teams or not. All events are appended one after the other,
    that long after the last of them."""
    logs = _events_log(events, later_ms, sharing)
    made = [run(lambda: sessions_fold(_PARTITIONS, _PARTITIONS), log) for log in logs]
    outputs = [output for one in made for output in one.outputs]
    appended = _end(events) + later_ms
    evidence: dict[int, list[LogRecord]] = defaultdict(list)
    for output in (output for output in outputs if output.topic == EVIDENCE):
        log = evidence[output.partition]
        at = appended + len(log) * _PACE_MS
        log.append(LogRecord(output.partition, len(log), at, output.key, output.value, output.headers))
    outputs += [output for _, log in sorted(evidence.items()) for output in run(PatternsFold, log).outputs]
    return list(_as_read(outputs))


def _events_log(events: Sequence[dict[str, Any]], later_ms: int, sharing: Sharing) -> list[list[LogRecord]]:
    logs: list[list[LogRecord]] = [[] for _ in range(_PARTITIONS)]
    at = _end(events) + later_ms
    for tenant_id in dict.fromkeys(event["tenant_id"] for event in events):
        partition = tenant_partition(tenant_id, _PARTITIONS)
        value = setting(TenantSettings(tenant_id=tenant_id, sharing=sharing), partition, at)
        logs[partition].append(signed(value, partition, 0, at - START_MS))
    for event in events:
        key = session_key(event["tenant_id"], event["session_id"])
        log = logs[partition_of(key, _PARTITIONS)]
        log.append(LogRecord(partition_of(key, _PARTITIONS), len(log), at, key.encode(), orjson.dumps(event)))
        at += _PACE_MS
    for partition, log in enumerate(logs):
        end = at + _SILENCE_MS - START_MS
        log.append(tick_record(end, partition, len(log)))
        log.append(barrier_record(end, partition, len(log)))
    return logs


def _end(events: Iterable[dict[str, Any]]) -> int:
    return max((parse_instant(event["timestamp"]) or 0) // NS_PER_MS for event in events)


def _as_read(outputs: Iterable[Output]) -> Iterator[TopicRecord]:
    """As the materialiser gets them: each partition of each topic in its order."""
    topics = (EPISODES, EVIDENCE, ARTIFACTS, KNOWLEDGE)
    offsets: dict[tuple[str, int], int] = defaultdict(int)
    for output in sorted((o for o in outputs if o.topic in topics), key=lambda o: topics.index(o.topic)):
        where = output.topic, output.partition or 0
        yield TopicRecord(*where, offsets[where], output.key or b"", output.value, output.headers)
        offsets[where] += 1


@contextmanager
def serving(benchmark: Benchmark, budget: int) -> Iterator["Serving"]:
    with memory(f"act-{os.getpid()}") as held:
        yield Serving(benchmark, held, budget)


class Serving:
    def __init__(self, benchmark: Benchmark, held: Remembered, budget: int) -> None:
        self._run, self._held, self._budget = benchmark.module("run"), held, budget

    def learnt(self, world: World) -> Any:
        """The benchmark's own service of this world's tenant, asked in process."""
        self._held.add(learn(world.events()))
        service = self._run.Service("", world.name, self._budget)
        service._send = lambda path, body=None: self._answer(world.name, path, body)
        return service

    def _answer(self, tenant: str, path: str, body: Mapping[str, Any] | None) -> Any:
        """As the routes of `hmx_pipeline.service.memory` do."""
        if body is not None:
            request = PackRequest.model_validate({**for_whom(body), "tenant_id": tenant})
            return json.loads(make_pack(self._held.store, request).to_json())
        return self._held.store.get_artifact(tenant, unquote(path.rpartition("/")[2]))
