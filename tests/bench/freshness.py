"""From an event's append until it is visible in a pack, at 1,000 events a second in contiguous sequences.

Worker, materialiser and Redis run as processes; what is asked here is what the service asks: plan, fetch, assemble.
Every hundredth event has a word of its own, and a pack is assembled for it again and again until the event is in it.
"""

import threading
import time
from collections import Counter

import orjson
from confluent_kafka import Consumer, Message, TopicPartition

from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.kafka.clients import consumer_config, plain_producer
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.bench.kit import Bench, quantile
from tests.bench.report import Bar, Line
from tests.support.memory import Memory
from tests.support.pipeline import Pipeline

RATE = 1_000
SECONDS = 8
PROBE_EVERY = 100
SESSIONS_LIVE = 64
TENANTS = 8
LOOK_S = 0.02
LOST_S = 30.0


def freshness(bench: Bench) -> list[Line]:
    packs: list[list[float]] = []
    bare: list[list[float]] = []
    with bench.topics() as settings:
        pipeline = Pipeline(settings, bench.folder)
        try:
            for name in ("worker", "materialiser"):
                pipeline.start(name, ready=False)
            pipeline.await_ready("worker", settings.worker_port)
            pipeline.await_ready("materialiser", settings.materialiser_port)
            traffic = Traffic(settings)
            traffic.round(2)  # warms up
            for _ in bench.rounds():
                in_packs, in_log = traffic.round(SECONDS)
                packs.append(in_packs)
                bare.append(in_log)
        finally:
            pipeline.stop_all()
    name, base = f"append to pack, {RATE:,}/s", "bare consumer"
    return [
        Line(
            f"{name}, p{share}",
            "ms",
            [quantile(seen, share) for seen in packs],
            base,
            [quantile(seen, share) for seen in bare],
            Bar("≤", limit, ratio=False),
            notes={"probes": sum(map(len, packs))},
        )
        for share, limit in ((50, 300), (99, 1_000))
    ]


class Traffic:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topic_prefix + EVENTS
        self._producer = plain_producer(settings.kafka_bootstrap)
        self._memory = Memory(settings.redis_url, settings.topic_prefix)
        self._sequences: Counter[int] = Counter()
        self._sent = 0
        self._appended: dict[str, int] = {}
        """Probe → append time, milliseconds."""
        self._read: dict[str, float] = {}
        """Probe → how many milliseconds after that a bare consumer had it."""

    def round(self, seconds: float) -> tuple[list[float], list[float]]:
        """Milliseconds until visible, of every probe: in a pack, and to a bare consumer of the log."""
        self._appended, self._read = {}, {}
        done = threading.Event()
        sender = threading.Thread(target=self._send, args=(int(seconds * RATE),))
        reader = threading.Thread(target=self._follow, args=(done, self._ends()))
        reader.start()
        sender.start()
        seen: dict[str, float] = {}
        probes, deadline = int(seconds * RATE) // PROBE_EVERY, time.monotonic() + seconds + LOST_S
        while len(seen) < probes or len(self._read) < probes:
            assert time.monotonic() < deadline, f"{probes - len(seen)} of {probes} events are in no pack"
            for probe, appended in list(self._appended.items()):
                if probe not in seen and self._visible(probe):
                    seen[probe] = time.time() * 1000 - appended
            time.sleep(LOOK_S)
        done.set()
        sender.join()
        reader.join()
        return list(seen.values()), list(self._read.values())

    def beside(self, seconds: float) -> list[float]:
        """The traffic alone: milliseconds until visible to a bare consumer of the log, of every probe."""
        self._appended, self._read = {}, {}
        done = threading.Event()
        reader = threading.Thread(target=self._follow, args=(done, self._ends()))
        reader.start()
        self._send(int(seconds * RATE))
        deadline = time.monotonic() + LOST_S
        while len(self._read) < len(self._appended):
            assert time.monotonic() < deadline, "the log is not read to its end"
            time.sleep(LOOK_S)
        done.set()
        reader.join()
        return list(self._read.values())

    def _visible(self, probe: str) -> bool:
        return f"e-{probe}" in self._memory.found(probe, tenant=f"tenant-{int(probe[5:]) % TENANTS}")

    def _send(self, count: int) -> None:
        started = time.monotonic()
        for number in range(count):
            probe = f"probe{self._sent:07d}" if self._sent % PROBE_EVERY == 0 else ""
            session = self._sent % SESSIONS_LIVE
            tenant, name = f"tenant-{session % TENANTS}", f"live-{session}"
            event = {
                "hmx_version": "HMX-1.0",
                "event_id": f"e-{probe or self._sent}",
                "event_type": "message",
                "agent_id": "agent-1",
                "tenant_id": tenant,
                "session_id": name,
                "timestamp": format_ms(int(time.time() * 1000)),
                "sequence": self._sequences[session],
                "content": {
                    "role": "assistant",
                    "text": f"The rollout of checkout goes on {probe} " + "as planned " * 40,
                },
                "metadata": {},
            }
            self._sequences[session] += 1
            self._sent += 1
            time.sleep(max(0.0, started + number / RATE - time.monotonic()))
            key = session_key(tenant, name)
            self._producer.produce(
                self._topic, orjson.dumps(event), key, on_delivery=self._delivered if probe else None
            )
            self._producer.poll(0)
        self._producer.flush(10)

    def _delivered(self, error: object, message: Message) -> None:
        assert error is None
        _, at = message.timestamp()
        self._appended[_probe_in(message)] = at

    def _ends(self) -> list[TopicPartition]:
        consumer = Consumer(consumer_config(self._settings.kafka_bootstrap))
        partitions = consumer.list_topics(self._topic).topics[self._topic].partitions
        places = [TopicPartition(self._topic, number) for number in partitions]
        for place in places:
            place.offset = consumer.get_watermark_offsets(place)[1]
        consumer.close()
        return places

    def _follow(self, done: threading.Event, places: list[TopicPartition]) -> None:
        consumer = Consumer(consumer_config(self._settings.kafka_bootstrap))
        consumer.assign(places)
        while not done.is_set():
            for message in consumer.consume(1_000, LOOK_S):
                if message.error() is None and (probe := _probe_in(message)):
                    self._read[probe] = time.time() * 1000 - message.timestamp()[1]
        consumer.close()


def _probe_in(message: Message) -> str:
    event_id = str(orjson.loads(message.value() or b"{}").get("event_id", ""))
    return event_id.removeprefix("e-") if event_id.startswith("e-probe") else ""
