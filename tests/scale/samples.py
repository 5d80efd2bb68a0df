"""What a deployment of the sample's size costs: CPU and bytes by component, measured on a stack of its own.

Enters: so many events of so many tenants, real sessions where the open data is. Leaves: a `Sample`. Fails:
AssertionError where a process ended or not everything came out.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import orjson
import redis

from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.barriers import wait_for_all
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS, EVIDENCE, PATTERN_STATE, SESSION_STATE
from tests.bench import workload
from tests.bench.kit import PATIENCE_S, Bench, committed, cpu_seconds
from tests.support.memory import Memory
from tests.support.pipeline import Pipeline
from tests.support.resident import resident, used_memory

PROCESSES: Final = ("worker", "materialiser", "service")
COMPONENTS: Final = ("worker", "materialiser", "kafka", "redis")
STATES: Final = (SESSION_STATE, PATTERN_STATE)
QUESTIONS: Final = 300


@dataclass(frozen=True)
class Sample:
    tenants: int
    events: int
    memories: int
    """Episodes: what packs find, with what was learnt from it beside."""
    cpu: Mapping[str, float]
    """Component → CPU seconds for all events."""
    asked: Mapping[str, float]
    """Service and Redis → CPU seconds a pack."""
    redis: int
    """Bytes that memory takes in Redis."""
    topics: Mapping[str, int]
    """Topic → bytes in the broker's segments, compressed and not compacted."""
    resident: Mapping[str, int]
    """Process → bytes, after all questions."""


def taken(bench: Bench, tenants: int, events: int) -> Sample:
    with bench.topics() as settings:
        pipeline = Pipeline(settings, bench.folder)
        server = redis.Redis.from_url(settings.redis_url)
        memory = Memory(settings.redis_url, settings.topic_prefix)
        try:
            for name in PROCESSES:
                pipeline.start(name)
            before, began = used_memory(server), _cpu(bench, pipeline)
            assert publish(_spread(tenants, events), settings).complete, "not everything came in"
            wait_for_all(settings, memory.store.positions, PATIENCE_S)
            cpu = {name: spent - began[name] for name, spent in _cpu(bench, pipeline).items() if name in COMPONENTS}
            used, began = used_memory(server) - before, _cpu(bench, pipeline)
            _ask(settings, tenants, events)
            spent = _cpu(bench, pipeline)
            return Sample(
                tenants,
                events,
                committed(settings, EPISODES),
                cpu,
                {name: (spent[name] - began[name]) / QUESTIONS for name in ("service", "redis")},
                used,
                {name: _bytes(bench.stack.state, settings, name) for name in (EVENTS, EPISODES, EVIDENCE, *STATES)},
                {name: resident(pipeline.processes[name].pid) for name in PROCESSES},
            )
        finally:
            pipeline.stop_all()
            memory.wipe()


def _spread(tenants: int, events: int) -> Iterator[bytes]:
    """Whole sessions, one tenant after the other."""
    numbers: dict[str, int] = {}
    for event in workload.events(events):
        number = numbers.setdefault(event["session_id"], len(numbers)) % tenants
        yield orjson.dumps({**event, "tenant_id": f"tenant-{number}"})


def _ask(settings: Settings, tenants: int, events: int) -> None:
    """Of tenants in turns, in words of the events, as agents at work would."""
    texts = [text[:400] for each in workload.events(events) if (text := _said(each))]
    with httpx.Client(base_url=settings.service_url, timeout=60) as client:
        for number in range(QUESTIONS):
            body = {"query": texts[number * 7_919 % len(texts)], "agent_id": "asking"}
            answer = client.post(
                "/v1/hmx/context-packs", json=body, headers={"X-HMX-Tenant": f"tenant-{number % tenants}"}
            )
            assert answer.status_code == 200, answer.text
    time.sleep(1)  # what the service writes after its last answer


def _said(event: Mapping[str, Any]) -> str:
    return str(event["content"].get("text", "")) if event["event_type"] == "message" else ""


def _cpu(bench: Bench, pipeline: Pipeline) -> dict[str, float]:
    own = {name: cpu_seconds(Path(f"/proc/{pipeline.processes[name].pid}/stat")) for name in PROCESSES}
    return {**own, **{name: bench.server_cpu(name) for name in ("kafka", "redis")}}


def _bytes(state: Path, settings: Settings, topic: str) -> int:
    return sum(file.stat().st_size for file in state.rglob(f"{settings.topic_prefix}{topic}-*/*.log"))
