"""Everything under test: three brokers, Redis, workers, two materialisers, the service; and who holds what just now.

Enters: a folder. Leaves: settings for whoever looks from outside, processes by name: `kafka-1`, `worker-2`, `redis-1`.
"""

import shutil
import sys
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from hmx_pipeline.kafka.acl_rights import rights
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.local.kafka import kafka
from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.process import Component, answers_ok
from hmx_pipeline.local.redis import redis
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.harness.clocks import Clocks
from tests.harness.fleet import Fleet
from tests.support.pipeline import COMMANDS, create_topics, environment
from tests.support.secured import secured

ARCHIVE_S = 2
"""So often that faults meet it."""
BROKERS = 3
WORKERS = 2
MATERIALISERS = 2
EXTRA = "worker-extra"
"""Without a static membership: it comes and goes."""
ANSWER_S = 10.0


class Site:
    def __init__(
        self,
        folder: Path,
        progress: Callable[[str], None],
        *,
        guarded: bool = False,
        partitions: int | None = None,
        forks: bool = False,
    ) -> None:
        """`guarded`: each process logs in over TLS as a user of its own, with the rights that it needs. `partitions` of
        each topic: None as the topic files say. `forks`: processes start without their imports, and keep their clocks.
        """
        shutil.rmtree(folder, ignore_errors=True)
        self.folder, self.logs = folder, folder / "logs"
        self.logs.mkdir(parents=True)
        self.clocks = Clocks(folder)
        self._progress, self._forks = progress, forks
        self._guarded = secured(folder, BROKERS) if guarded else None
        brokers = self._guarded.brokers if self._guarded else kafka(folder / "kafka", BROKERS, progress)
        memory = redis(folder / "redis")
        self._servers = [self._timed(component) for component in brokers.components]
        self._servers.append(replace(memory.component, name="redis-1"))
        self.settings = Settings(
            state=folder,
            kafka_bootstrap=brokers.bootstrap,
            redis_url=memory.url,
            control_key=uuid.uuid4().hex,
            archive=str(folder / "archive"),
            archive_s=ARCHIVE_S,
        )
        self.partitions = 0
        self._wanted = partitions
        self.service_url = ""
        self.fleet = Fleet(self.logs, forks=forks)

    def start(self) -> None:
        """Returns when all of it is ready."""
        self._progress("starting brokers and Redis")
        self.fleet.start(self._servers)
        self.fleet.await_ready()
        create_topics(self.settings, self._wanted)
        for process in COMMANDS if self._guarded else ():
            self._guarded.set_password(process, self.settings.control_key)
            self._guarded.allow(process, rights(process, self.settings.topic_prefix))
        admin = connect(self.settings.kafka_bootstrap)
        self.partitions = len(admin.list_topics(self.events, timeout=ANSWER_S).topics[self.events].partitions)
        self._progress("starting workers, materialisers and the service")
        workers = [self._process(f"worker-{n}", worker_id=f"worker-{n}") for n in range(1, WORKERS + 1)]
        readers = [self._process(f"materialiser-{n}") for n in range(1, MATERIALISERS + 1)]
        self.fleet.start([*map(self._timed, workers), *readers, self._process("service-1")])
        self.fleet.await_ready()

    def stop(self) -> None:
        self.fleet.stop()

    @property
    def events(self) -> str:
        return self.settings.topic_prefix + EVENTS

    @property
    def everywhere(self) -> set[int]:
        return set(range(self.partitions))

    def add_worker(self) -> None:
        self.fleet.start([self._process(EXTRA)])
        self.fleet.await_ready([EXTRA])

    def start_generation(self, prefix: str) -> None:
        """A worker and a materialiser on the topics of another prefix."""
        own = {"topic_prefix": prefix, "archive": ""}
        self.fleet.start([self._process("worker-3", **own), self._process("materialiser-3", **own)])
        self.fleet.await_ready()

    def owned(self, worker: str) -> set[int]:
        """Partitions of the events topic."""
        return next((owned for name, owned in self._owners().items() if name == worker), set())

    def owner(self, partition: int) -> str:
        return next((name for name, owned in self._owners().items() if partition in owned), "")

    def _owners(self) -> Mapping[str, set[int]]:
        admin = connect(self.settings.kafka_bootstrap)
        group = f"{self.settings.topic_prefix}hmx"
        described = admin.describe_consumer_groups([group], request_timeout=ANSWER_S)[group].result()
        return {
            member.group_instance_id or EXTRA: {
                place.partition for place in member.assignment.topic_partitions if place.topic == self.events
            }
            for member in described.members
        }

    def leader(self, partition: int) -> str:
        """The broker that leads this partition of the events topic; empty where none does just now."""
        admin = connect(self.settings.kafka_bootstrap)
        node = admin.list_topics(self.events, timeout=ANSWER_S).topics[self.events].partitions[partition].leader
        return f"kafka-{node}" if node > 0 else ""

    def led(self, broker: str) -> set[int]:
        return {partition for partition in self.everywhere if self.leader(partition) == broker}

    def _process(self, name: str, **changes: object) -> Component:
        kind = name.rpartition("-")[0]
        (port,) = free_ports(1)
        if kind == "service":
            self.service_url = f"http://127.0.0.1:{port}"
        settings = replace(self.settings, **{f"{kind}_port": port}, **changes)  # type: ignore[arg-type]
        if self._guarded:
            settings = self._guarded.as_user(settings, kind, self.settings.control_key)
        return Component(
            name=name,
            argv=(sys.executable, "-m", "hmx_pipeline.cli", COMMANDS[kind]),
            env=environment(settings),
            ready=answers_ok(port),
        )

    def _timed(self, component: Component) -> Component:
        """Its clock can be shifted, unless it is a fork: only a start loads what shifts it."""
        if self._forks:
            return component
        return replace(component, env={**component.env, **self.clocks.environment(component.name)})
