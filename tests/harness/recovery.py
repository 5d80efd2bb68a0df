"""How long a fault holds a partition up: until the first event sent after it is committed by the sessions stage.

Enters: the traffic's acknowledgements, and the positions that the stage commits, read as any read_committed reader
would. Leaves: seconds by partition. Nothing is asked of the processes under test.
"""

import threading
import time

import msgspec
from confluent_kafka import OFFSET_END, Consumer, TopicPartition

from hmx_pipeline.kafka.clients import consumer_config
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.fold import POSITION_KEY
from hmx_pipeline.topology import SESSION_STATE

LOOK_S = 0.02
NEVER = float("inf")


class _Position(msgspec.Struct):
    position: int


class Watch:
    """Of one fault."""

    def __init__(self, partitions: int) -> None:
        self.struck = time.monotonic()
        self._partitions = partitions
        self._targets: dict[int, int] = {}
        self._sealed = False
        self.seconds: dict[int, float] = {}

    def sent(self, partition: int, offset: int, sent_at: float, position: int) -> None:
        if sent_at >= self.struck and partition not in self._targets and not self._sealed:
            self._targets[partition] = offset
            self.committed(partition, position)

    def committed(self, partition: int, position: int) -> None:
        target = self._targets.get(partition)
        if target is not None and position > target and partition not in self.seconds:
            self.seconds[partition] = time.monotonic() - self.struck

    def seal(self) -> None:
        """Traffic is silent from now on: partitions to which nothing was sent since the fault are left out."""
        self._sealed = True

    def settle(self, timeout: float) -> bool:
        """Waits for every partition. False when the time is up."""
        deadline = time.monotonic() + timeout
        while len(self.seconds) < (len(self._targets) if self._sealed else self._partitions):
            if time.monotonic() > deadline:
                return False
            time.sleep(LOOK_S)
        return True

    def lacking(self) -> str:
        """What does not go on."""
        silent = [p for p in range(self._partitions) if p not in self._targets]
        still = [p for p in self._targets if p not in self.seconds]
        return f"nothing new in partitions {silent}, nothing committed in {still}"

    def of(self, partitions: set[int]) -> list[float]:
        known = sorted(partitions & self._targets.keys() if self._sealed else partitions)
        return [self.seconds.get(partition, NEVER) for partition in known]


class Positions(threading.Thread):
    def __init__(self, settings: Settings, partitions: int) -> None:
        super().__init__(name="positions", daemon=True)
        self.partitions = partitions
        self._at = dict.fromkeys(range(partitions), 0)
        self._watches: list[Watch] = []
        self._lock = threading.Lock()
        self._closing = threading.Event()
        quick = {"reconnect.backoff.max.ms": 500, "auto.offset.reset": "latest", "log_level": 0}
        self._consumer = Consumer(consumer_config(settings.kafka_bootstrap, **quick))
        state = settings.topic_prefix + SESSION_STATE
        self._consumer.assign([TopicPartition(state, partition, OFFSET_END) for partition in range(partitions)])

    def watch(self) -> Watch:
        with self._lock:
            self._watches = [watch for watch in self._watches if len(watch.seconds) < self.partitions][-4:]
            self._watches.append(Watch(self.partitions))
            return self._watches[-1]

    def sent(self, partition: int, offset: int, sent_at: float) -> None:
        with self._lock:
            for watch in self._watches:
                watch.sent(partition, offset, sent_at, self._at[partition])

    def close(self) -> None:
        self._closing.set()
        self.join()

    def run(self) -> None:
        while not self._closing.is_set():
            for message in self._consumer.consume(2_000, 0.05):
                value, partition = message.value(), message.partition()
                if message.error() is None and message.key() == POSITION_KEY.encode() and value is not None:
                    assert partition is not None
                    self._committed(partition, msgspec.json.decode(value, type=_Position).position)
        self._consumer.close()

    def _committed(self, partition: int, position: int) -> None:
        with self._lock:
            self._at[partition] = position
            for watch in self._watches:
                watch.committed(partition, position)
