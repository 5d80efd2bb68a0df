"""What goes wrong, one function a kind, and the order in which it does.

Enters: the site, its traffic, and dice of the fault's own. Leaves: what was done, and how long partitions were held up.
`hit` are the partitions whose work went through what failed; a broker holds replicas, offsets and transactions of all.
"""

import random
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from confluent_kafka import Producer
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from redis import Redis

from hmx_pipeline.kafka.clients import plain_producer, producer_config, sendable
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.runtime.barriers import output_ends
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.store.fetch import Store
from hmx_pipeline.topology import EPISODES, SESSIONS, STAGES
from hmx_pipeline.worker.ticks import make_tick
from tests.harness.fleet import HarnessError
from tests.harness.producer import Traffic
from tests.harness.recovery import NEVER, Positions, Watch
from tests.harness.site import EXTRA, Site

RECOVERED_S = 120.0
SHIFTS_S = (-600, -30, -5, 5, 30, 600)
REFUSING_S = 3.0
SURGE_S = 0.6


@dataclass
class Row:
    """What came of one fault."""

    number: int
    kind: str
    at_s: float = 0.0
    rate: float = 0.0
    """Events a second before it; fewer than planned where the workers were behind."""
    detail: str = ""
    hit: list[float] = field(default_factory=list)
    others: list[float] = field(default_factory=list)


class Crash:
    """One fault at a time, on everything that runs."""

    def __init__(self, site: Site, traffic: Traffic, positions: Positions) -> None:
        self.site, self.traffic, self.positions = site, traffic, positions
        self.fleet = site.fleet
        self.beyond = site.settings.session_timeout_ms / 1_000 + 4
        """Seconds after which a silent worker has lost its partitions."""
        self.row = Row(0, "")

    @contextmanager
    def measured(self, hit: set[int]) -> Iterator[Watch]:
        """From here until every partition has gone on; more may be added to `hit` meanwhile."""
        watch = self.positions.watch()
        yield watch
        watch.settle(RECOVERED_S)
        self.row.hit += watch.of(hit)
        self.row.others += watch.of(self.site.everywhere - hit)

    def undisturbed(self) -> float:
        """Every process is ready and every partition goes on: after how many seconds. Raises HarnessError."""
        self.fleet.await_ready(seconds=RECOVERED_S)
        self.traffic.check()
        watch = self.positions.watch()
        if not watch.settle(RECOVERED_S):
            raise HarnessError(f"after {self.row.kind!r}: {watch.lacking()}; {self.traffic.sent} events sent")
        return max(watch.seconds.values())

    def worker(self, dice: random.Random) -> str:
        return dice.choice([name for name in self.fleet.names("worker") if name != EXTRA])

    def leader(self, dice: random.Random) -> str:
        return self.site.leader(dice.randrange(self.site.partitions))


def worker_killed(crash: Crash, dice: random.Random) -> None:
    crash.row.detail = name = crash.worker(dice)
    with crash.measured(crash.site.owned(name)):
        crash.fleet.kill(name)


def worker_killed_twice(crash: Crash, dice: random.Random) -> None:
    """The second time while it restores."""
    crash.row.detail = name = crash.worker(dice)
    with crash.measured(crash.site.owned(name)):
        crash.fleet.kill(name)
        time.sleep(dice.uniform(1.0, 3.0))
        crash.fleet.kill(name)


def worker_gone(crash: Crash, dice: random.Random) -> None:
    """Another one takes over."""
    crash.row.detail = name = crash.worker(dice)
    with crash.measured(crash.site.owned(name)):
        crash.fleet.kill(name, back_after=crash.beyond)


def killed_then_silence(crash: Crash, dice: random.Random) -> None:
    crash.row.detail = name = crash.worker(dice)
    with crash.measured(crash.site.owned(name)) as watch:
        crash.fleet.kill(name, back_after=crash.beyond)
        time.sleep(0.5)
        crash.traffic.silence()
        time.sleep(0.5)  # what was sent is answered
        watch.seal()
        watch.settle(RECOVERED_S)
        time.sleep(1.5)  # a second of silence, and ticks
        crash.traffic.resume()


def worker_frozen(crash: Crash, dice: random.Random) -> None:
    """Beyond its session, with batches queued; then it goes on as if nothing had happened."""
    crash.row.detail = name = crash.worker(dice)
    hit = crash.site.owned(name)
    crash.traffic.surge()
    time.sleep(SURGE_S)
    with crash.measured(hit):
        crash.fleet.freeze(name)
        crash.traffic.resume()
        time.sleep(crash.beyond)
        crash.fleet.thaw(name)


def worker_stopped(crash: Crash, dice: random.Random) -> None:
    crash.row.detail = name = crash.worker(dice)
    with crash.measured(crash.site.owned(name)):
        crash.fleet.terminate(name)


def worker_added(crash: Crash, dice: random.Random) -> None:
    if EXTRA in crash.fleet.names("worker"):
        crash.fleet.remove(EXTRA)
        crash.undisturbed()
    hit: set[int] = set()
    with crash.measured(hit):
        crash.site.add_worker()
        hit |= crash.site.owned(EXTRA)


def worker_removed(crash: Crash, dice: random.Random) -> None:
    if EXTRA not in crash.fleet.names("worker"):
        crash.site.add_worker()
        crash.undisturbed()
    with crash.measured(crash.site.owned(EXTRA)):
        crash.fleet.remove(EXTRA)


def fenced(crash: Crash, dice: random.Random) -> None:
    """Somebody else takes the transactional id of a partition."""
    partition = dice.randrange(crash.site.partitions)
    owner = crash.site.owner(partition)
    crash.row.detail = f"{owner}, partition {partition}"
    settings = crash.site.settings
    name = f"{settings.topic_prefix}hmx-{SESSIONS.name}-{partition}"
    with crash.measured(crash.site.owned(owner)):
        usurper = Producer(producer_config(settings.kafka_bootstrap, **{"transactional.id": name}))
        usurper.init_transactions(30.0)
        usurper.close()


def replicas_lacking(crash: Crash, dice: random.Random) -> None:
    """The episodes ask for more replicas than there are brokers for a while, so that no transaction can be committed.

    No bound on bytes does for this: what Kafka refuses for its size is that record's outcome.
    """
    with crash.measured(crash.site.everywhere):
        before = _ask_for_replicas(crash.site, str(len(crash.fleet.names("kafka")) + 1))
        time.sleep(REFUSING_S)
        _ask_for_replicas(crash.site, before)


def _ask_for_replicas(site: Site, number: str) -> str:
    """How many were asked for before."""
    admin, setting = connect(site.settings.kafka_bootstrap), "min.insync.replicas"
    topic = site.settings.topic_prefix + EPISODES
    plain = ConfigResource(ResourceType.TOPIC, topic)
    before = admin.describe_configs([plain])[plain].result()[setting].value
    entry = ConfigEntry(setting, number, incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
    admin.incremental_alter_configs([changed])[changed].result()
    return str(before)


def broker_killed(crash: Crash, dice: random.Random) -> None:
    crash.row.detail = name = crash.leader(dice)
    with crash.measured(crash.site.everywhere):
        crash.fleet.kill(name)


def broker_paused(crash: Crash, dice: random.Random) -> None:
    """Longer than the controller waits for it."""
    crash.row.detail = name = crash.leader(dice)
    with crash.measured(crash.site.everywhere):
        crash.fleet.freeze(name)
        time.sleep(dice.uniform(6.0, 9.0))
        crash.fleet.thaw(name)


def worker_and_broker_killed(crash: Crash, dice: random.Random) -> None:
    worker, broker = crash.worker(dice), crash.leader(dice)
    crash.row.detail = f"{worker}, {broker}"
    with crash.measured(crash.site.everywhere):
        crash.fleet.kill(worker, broker)


def materialiser_killed(crash: Crash, dice: random.Random) -> None:
    names = crash.fleet.names("materialiser")
    names = dice.sample(names, dice.randint(1, len(names)))
    crash.row.detail = ", ".join(names)
    with crash.measured(set()):
        _catches_up(crash, lambda: crash.fleet.kill(*names))


def materialiser_frozen(crash: Crash, dice: random.Random) -> None:
    crash.row.detail = name = dice.choice(crash.fleet.names("materialiser"))
    with crash.measured(set()):
        _catches_up(crash, lambda: crash.fleet.freeze(name))
        time.sleep(2.0)
        crash.fleet.thaw(name)


def redis_killed(crash: Crash, dice: random.Random) -> None:
    with crash.measured(set()):
        _catches_up(crash, lambda: crash.fleet.kill("redis-1"))


def redis_restarted(crash: Crash, dice: random.Random) -> None:
    with crash.measured(set()):
        _catches_up(crash, lambda: crash.fleet.terminate("redis-1", back_after=2.0))


def redis_emptied(crash: Crash, dice: random.Random) -> None:
    with crash.measured(set()):
        _catches_up(crash, Redis.from_url(crash.site.settings.redis_url).flushall)


def _catches_up(crash: Crash, strike: Callable[[], object]) -> None:
    """What the outputs held at the fault is in Redis: counted as one hit."""
    ends, store = output_ends(crash.site.settings), Store.open(crash.site.settings)
    strike()
    _until(crash, lambda: all(store.positions().get(place, 0) >= end for place, end in ends.items()))


def service_killed(crash: Crash, dice: random.Random) -> None:
    with crash.measured(set()):
        crash.fleet.kill("service-1")
        time.sleep(0.1)
        _until(crash, lambda: crash.fleet.ready("service-1"))


def _until(crash: Crash, recovered: Callable[[], bool]) -> None:
    started = time.monotonic()
    while (seconds := time.monotonic() - started) < RECOVERED_S:
        try:
            if recovered():
                crash.row.hit.append(seconds)
                return
        except StoreUnavailableError:
            pass
        time.sleep(0.1)
    crash.row.hit.append(NEVER)


def everything_killed(crash: Crash, dice: random.Random) -> None:
    with crash.measured(crash.site.everywhere):
        crash.fleet.kill(*crash.fleet.all)


def everything_restarted(crash: Crash, dice: random.Random) -> None:
    """In an orderly way, all at the same time."""
    with crash.measured(crash.site.everywhere):
        crash.fleet.terminate(*crash.fleet.all, back_after=3.0)


def worker_clock_shifted(crash: Crash, dice: random.Random) -> None:
    name = crash.worker(dice)
    _shifted(crash, dice, name, crash.site.owned(name))


def broker_clock_shifted(crash: Crash, dice: random.Random) -> None:
    """Append times leap, and go backwards when it is set right again."""
    name = crash.leader(dice)
    _shifted(crash, dice, name, crash.site.led(name))


def _shifted(crash: Crash, dice: random.Random, name: str, hit: set[int]) -> None:
    seconds = dice.choice(SHIFTS_S)
    crash.row.detail = f"{name}, {seconds:+} s"
    with crash.measured(hit):
        crash.site.clocks.shift(name, seconds)
        time.sleep(dice.uniform(2.0, 5.0))
    crash.site.clocks.shift(name, 0)


def tick_doubled(crash: Crash, dice: random.Random) -> None:
    """On both stages' sources."""
    settings, partition = crash.site.settings, dice.randrange(crash.site.partitions)
    crash.row.detail = f"partition {partition}"
    with crash.measured({partition}):
        producer = plain_producer(settings.kafka_bootstrap)
        for stage in STAGES:
            value, headers = make_tick(stage, partition, settings.control_key, int(time.time() * 1_000))
            topic, sent = settings.topic_prefix + stage.source, sendable(headers)
            for _ in range(2):
                producer.produce(topic, value, b"tick", partition, headers=sent)
        producer.flush(10.0)
        producer.close()


KINDS: dict[str, Callable[[Crash, random.Random], None]] = {
    "worker killed": worker_killed,
    "worker killed while it restores": worker_killed_twice,
    "worker gone, another takes over": worker_gone,
    "worker killed, then silence": killed_then_silence,
    "worker frozen beyond its session": worker_frozen,
    "worker restarted": worker_stopped,
    "worker added": worker_added,
    "worker removed": worker_removed,
    "worker's clock shifted": worker_clock_shifted,
    "transactional id taken": fenced,
    "replicas lacking": replicas_lacking,
    "leading broker killed": broker_killed,
    "broker paused": broker_paused,
    "broker's clock shifted": broker_clock_shifted,
    "worker and broker killed": worker_and_broker_killed,
    "materialiser killed": materialiser_killed,
    "materialiser frozen": materialiser_frozen,
    "service killed": service_killed,
    "Redis killed": redis_killed,
    "Redis restarted": redis_restarted,
    "Redis emptied": redis_emptied,
    "tick doubled": tick_doubled,
    "everything killed": everything_killed,
    "everything restarted": everything_restarted,
}
CLOCKS = {"worker's clock shifted", "broker's clock shifted"}


def schedule(seed: int, faults: int, only: str, *, clocks: bool) -> list[str]:
    """Every kind once before any comes again; `only` is a regular expression. Raises HarnessError."""
    dice = random.Random(seed)
    kinds = [kind for kind in KINDS if (clocks or kind not in CLOCKS) and re.search(only, kind)]
    if not kinds:
        raise HarnessError(f"no kind of fault is like {only!r}")
    planned: list[str] = []
    while len(planned) < faults:
        planned += dice.sample(kinds, len(kinds))
    return planned[:faults]
