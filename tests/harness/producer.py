"""Producers of every codec, with the right key, another or none, at a pace that can be changed: the harness's traffic.

Enters: a seed. Leaves: records on the events topic, and of each one that Kafka acknowledged its place and a digest, so
that what was acknowledged and is missing later can be named.
"""

import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product

from confluent_kafka import KafkaError, Message, Producer
from xxhash import xxh3_64_intdigest

from hmx_pipeline.contracts.headers import REROUTED_FROM
from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.kafka.clients import plain_producer
from tests.harness.fleet import HarnessError
from tests.harness.site import Site
from tests.harness.traffic import stream
from tests.support.traffic import Sent

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONERS = ("murmur2_random", "random")
FORGED = (REROUTED_FROM, b"0:0:0123456789abcdef")
DELIVERY_MS = 180_000  # longer than anything stays away
FLUSH_S = 200.0
LINGER_MS = 100  # ten producers to eight partitions: else every event is a request of its own
TURN_S = 0.02
SURGE = 8.0

Place = tuple[int, int]
"""Partition and offset."""


def digest(value: bytes | None) -> int:
    return -1 if value is None else xxh3_64_intdigest(value)


@dataclass
class Acknowledged:
    """What Kafka promised to keep. Written in the producer's thread; `seen` is told of every record there."""

    places: dict[Place, int] = field(default_factory=dict)
    somewhere: set[tuple[int, int]] = field(default_factory=set)
    """Partition and digest of what was sent once more after its answer was lost: then Kafka doesn't say where it is."""
    refused: int = 0
    """Not acknowledged: such a record may be in the log, or not."""
    seen: Callable[[int, int, float], None] = lambda *_: None
    """Partition, offset, monotonic time at which it was sent."""

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.refused += 1
            return
        partition, offset = message.partition(), message.offset()
        value: bytes | None = message.value()
        assert partition is not None
        if offset is None:
            self.somewhere.add((partition, digest(value)))
            return
        self.places[partition, offset] = digest(value)
        self.seen(partition, offset, time.monotonic() - (message.latency() or 0.0))

    def missing(self, log: dict[Place, int]) -> list[str]:
        """Acknowledged places where the log holds nothing, or something else."""
        held = {(partition, value) for (partition, _), value in log.items()}
        lost = sorted(place for place, value in self.places.items() if log.get(place) != value)
        nowhere = sorted(self.somewhere - held)
        return [*(f"partition {p} offset {o}" for p, o in lost), *(f"partition {p}, digest {d}" for p, d in nowhere)]


class Traffic(threading.Thread):
    """`rate` may be set at any time; `close` ends it once as many events are sent as were wanted at least."""

    def __init__(
        self, site: Site, seed: int, events: int, rate: float, progress: Callable[[int], None] = lambda _: None
    ) -> None:
        super().__init__(name="traffic", daemon=True)
        self._kafka, self._topic, self._partitions = site.settings.kafka_bootstrap, site.events, site.partitions
        self._progress = progress
        self._dice = random.Random(f"{seed}/ways")
        self._records: Iterator[Sent] = stream(seed, lambda: self.rate)
        self._producers = {way: self._producer(*way) for way in product(CODECS, PARTITIONERS)}
        self._speed = 1.0
        self._closing = threading.Event()
        self.events, self.rate = events, rate
        self.sent = 0
        self.acknowledged = Acknowledged()
        self.failure: BaseException | None = None

    def _producer(self, codec: str, partitioner: str) -> Producer:
        settings = {
            "compression.type": codec,
            "partitioner": partitioner,
            "delivery.timeout.ms": DELIVERY_MS,
            "linger.ms": LINGER_MS,
            "log_level": 0,
        }
        return plain_producer(self._kafka, **settings)

    def silence(self) -> None:
        self._speed = 0.0

    def surge(self) -> None:
        self._speed = SURGE

    def resume(self) -> None:
        self._speed = 1.0

    def close(self) -> None:
        """Returns when everything is sent and answered. Raises HarnessError."""
        self._closing.set()
        self.resume()
        while self.is_alive():
            self.join(0.2)
        self.check()

    def check(self) -> None:
        """Raises HarnessError where it has ended by itself."""
        if self.failure is not None:
            raise HarnessError(f"the traffic ended: {self.failure!r}") from self.failure

    def abandon(self) -> None:
        """Ends at once, whatever is missing."""
        self.events = 0
        self._closing.set()

    def run(self) -> None:
        try:
            self._send_all()
            self._flush()
        except Exception as error:  # noqa: BLE001 - carried to whoever closes
            self.failure = error

    def _send_all(self) -> None:
        now, before = 0.0, time.monotonic()
        record = next(self._records)
        while not (self._closing.is_set() and self.sent >= self.events):
            time.sleep(TURN_S)
            moment = time.monotonic()
            now, before = now + 1_000 * self._speed * min(moment - before, 0.5), moment
            while record.at <= now and not (self._closing.is_set() and self.sent >= self.events):
                self._send(record)
                record = next(self._records)
            for producer in self._producers.values():
                producer.poll(0)
            self._progress(self.sent)

    def _send(self, record: Sent) -> None:
        key, partition, partitioner = self._way(record)
        producer = self._producers[self._dice.choice(CODECS), partitioner]
        headers = [FORGED] if record.event is not None and self._dice.random() < 0.003 else []
        while True:
            try:
                producer.produce(
                    self._topic, record.value, key, partition, headers=list(headers), on_delivery=self.acknowledged
                )
                break
            except BufferError:  # the brokers are away
                producer.poll(0.1)
        self.sent += 1

    def _way(self, record: Sent) -> tuple[str | None, int, str]:
        """Key, partition or -1 for the client's choice, and partitioner."""
        right = record.key if record.event is not None else f"bad/{record.at}"
        home = partition_of(right, self._partitions)
        if not record.astray:
            return self._dice.choices(
                [(right, -1, "murmur2_random"), (None, home, "murmur2_random"), ("any", home, "murmur2_random")],
                [90, 5, 5],
            )[0]
        wrong = (home + self._dice.randrange(1, self._partitions)) % self._partitions
        return self._dice.choice(
            [("any", wrong, "murmur2_random"), (right, -1, "random"), (None, -1, "random"), ("any", -1, "random")]
        )

    def _flush(self) -> None:
        deadline = time.monotonic() + FLUSH_S
        while any(len(producer) for producer in self._producers.values()) and self.events:
            if time.monotonic() > deadline:
                raise HarnessError(f"{sum(map(len, self._producers.values()))} events are still not answered for")
            for producer in self._producers.values():
                producer.poll(0.02)
        for producer in self._producers.values():
            producer.purge()
            producer.close()
