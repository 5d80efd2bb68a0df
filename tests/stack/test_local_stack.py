"""The local stack: it comes up, keeps its processes running, and leaves nothing behind."""

import os
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from redis import Redis

from hmx_pipeline.local import jars
from hmx_pipeline.local.kafka import kafka as kafka_servers
from hmx_pipeline.local.ports import free_ports, same_ports
from hmx_pipeline.local.process import Component, Process, StackError, State
from hmx_pipeline.local.stack import AlreadyUpError, Stack, down, status, up
from hmx_pipeline.local.state import control_key
from hmx_pipeline.local.supervisor import Supervisor
from tests.support.processes import NEEDS_PROC, processes_of
from tests.support.waiting import until

SLEEP = ("sleep", "1000")
PATIENCE = 120.0


def running(pid: int) -> bool:
    """A zombie has ended: where nobody reaps orphans it stays in the table of processes."""
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False
    shown = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(shown.strip()) and not shown.startswith("Z")


def pids(stack: dict[str, Any]) -> list[int]:
    return [component["pid"] for component in stack["components"].values()]


@pytest.fixture
def own_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests start servers, also where the rest of the suite runs on given ones."""
    monkeypatch.delenv("HMX_KAFKA_BOOTSTRAP", raising=False)
    monkeypatch.delenv("HMX_REDIS_URL", raising=False)


@pytest.fixture
def states(tmp_path: Path, own_servers: None) -> Iterator[tuple[Path, Path]]:
    folders = tmp_path / "one", tmp_path / "two"
    yield folders
    for folder in folders:
        down(folder)


# --- supervision, on processes that cost nothing ---


def test_each_exit_in_a_row_waits_twice_as_long(tmp_path: Path) -> None:
    process = Process(Component("brief", ("true",)), tmp_path / "brief.log")
    now, waits = 0.0, []
    for _ in range(8):
        process.step(now)
        assert process.pid is not None
        while process.state is not State.WAITING:
            process.step(now)
        before, now = now, process.due
        process.step(before + 0.99 * (now - before))
        assert process.state is State.WAITING
        waits.append(now - before)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30]


def test_a_killed_process_comes_back(tmp_path: Path) -> None:
    supervisor = Supervisor([[Component("sleeper", SLEEP, slack_s=1.0)]], tmp_path)
    supervisor.start()
    try:
        (sleeper,) = supervisor.processes
        first = sleeper.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        until(lambda: sleeper.pid not in (None, first) and sleeper.state is State.READY, "it runs again")
        assert sleeper.restarts == 1
        if (slack := Path(f"/proc/{sleeper.pid}/timerslack_ns")).exists():
            assert int(slack.read_text()) == 10**9  # as the first had it
    finally:
        supervisor.stop()
    assert sleeper.state is State.STOPPED


def test_what_a_component_has_started_ends_with_it(tmp_path: Path) -> None:
    tell = tmp_path / "pid"
    supervisor = Supervisor([[Component("family", ("sh", "-c", f"sleep 1000 & echo $! > {tell}; wait"))]], tmp_path)
    supervisor.start()
    try:
        until(lambda: tell.exists() and tell.read_text().strip(), "the grandchild runs")
    finally:
        supervisor.stop()
    until(lambda: not running(int(tell.read_text())), "the grandchild has ended")


def test_a_failed_start_says_why_and_stops_the_rest(tmp_path: Path) -> None:
    stages = [
        [Component("sleeper", SLEEP)],
        [Component("broken", ("sh", "-c", "echo out of order; exit 3"), once=True)],
    ]
    seen: set[int] = set()
    supervisor = Supervisor(stages, tmp_path, lambda processes: seen.update(p.pid for p in processes if p.pid))
    with pytest.raises(StackError, match=r"broken does not start[^$]*out of order"):
        supervisor.start()
    assert seen
    assert not any(running(pid) for pid in seen)


def test_stages_start_one_after_the_other(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    first = Component("first", ("sh", "-c", f"sleep 0.3; touch {mark}"), once=True)
    second = Component("second", ("sh", "-c", f"test -e {mark} && sleep 1000"))
    supervisor = Supervisor([[first], [second]], tmp_path)
    supervisor.start()
    states = [process.state for process in supervisor.processes]
    restarts = [process.restarts for process in supervisor.processes]
    supervisor.stop()
    assert (states, restarts) == ([State.DONE, State.READY], [0, 0])


@pytest.mark.parametrize("watch", ["", "1"], ids=["killed by the kernel", "killed by a watcher"])
def test_nothing_outlives_a_supervisor_killed_with_9(tmp_path: Path, watch: str) -> None:
    code = (
        "import sys, time; from pathlib import Path; from hmx_pipeline.local.supervisor import Supervisor\n"
        "from hmx_pipeline.local.process import Component\n"
        "s = Supervisor([[Component('a', ('sleep', '1000')), Component('b', ('sleep', '1000'))]], Path(sys.argv[1]))\n"
        "s.start(); print(*(p.pid for p in s.processes), flush=True); time.sleep(1000)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HMX_SHIM_WATCH": watch, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    with parent:
        assert parent.stdout is not None
        children = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(children) == 2
        assert all(running(pid) for pid in children)
        parent.kill()
    until(lambda: not any(running(pid) for pid in children), "the children have ended")


def test_a_port_that_is_taken_meanwhile_is_exchanged_for_another(
    tmp_path: Path, own_servers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMX_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        choices = [[taken.getsockname()[1]], free_ports(1)]
        monkeypatch.setattr("hmx_pipeline.local.redis.same_ports", lambda *_: choices.pop(0))
        with Stack(tmp_path, keep=False) as stack, Redis.from_url(stack.redis_url) as redis:
            assert redis.ping()
            described = status(tmp_path)
    assert not choices
    assert described is not None
    assert described["redis_url"] == stack.redis_url


def test_the_ports_of_the_last_time_are_taken_again_unless_one_is_taken(tmp_path: Path) -> None:
    first = same_ports(tmp_path, 2)
    assert same_ports(tmp_path, 2) == first
    with socket.create_server(("127.0.0.1", first[1])):
        others = same_ports(tmp_path, 2)
    assert not {*others} & {*first}
    assert same_ports(tmp_path, 2) == others


def test_ports_are_given_once() -> None:
    ports = [port for _ in range(100) for port in free_ports(3)]
    assert len(ports) == len(set(ports))


# --- Kafka and Redis ---


@pytest.mark.slow
def test_servers_serve_and_a_killed_broker_comes_back_with_its_data(tmp_path: Path, own_servers: None) -> None:
    with Stack(tmp_path, keep=False) as stack:
        with Redis.from_url(stack.redis_url) as redis:
            assert redis.set("key", "value")
        admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
        admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result()
        producer = Producer({"bootstrap.servers": stack.kafka_bootstrap, "message.max.bytes": 5_000_000})
        producer.produce("kept", b"x" * 1_000_000)
        assert producer.flush(PATIENCE) == 0

        def broker() -> dict[str, Any]:
            described = status(tmp_path)
            assert described is not None
            return dict(described["components"]["kafka-1"])

        killed = broker()["pid"]
        os.kill(killed, signal.SIGKILL)
        until(lambda: broker()["state"] == "ready" and broker()["pid"] != killed, "the broker is ready again")
        assert broker()["restarts"] == 1
        consumer = Consumer({"bootstrap.servers": stack.kafka_bootstrap, "group.id": "reader"})
        try:
            consumer.assign([TopicPartition("kept", 0, 0)])
            message = consumer.poll(PATIENCE)
            assert message is not None
            assert message.value() == b"x" * 1_000_000
        finally:
            consumer.close()
    assert status(tmp_path) is None


def test_two_state_folders_side_by_side_whose_data_outlives_a_stop(states: tuple[Path, Path]) -> None:
    """And a small stack gives Kafka a quarter of the heap."""

    def words(described: dict[str, Any] | None) -> list[bytes]:
        return Path(f"/proc/{(described or {})['components']['kafka-1']['pid']}/cmdline").read_bytes().split(b"\0")

    one, two = states
    first, second = up(one, pipeline=False), up(two, pipeline=False)
    assert first["kafka_bootstrap"] != second["kafka_bootstrap"]
    assert first["redis_url"] != second["redis_url"]
    assert first["ready"]
    assert second["ready"]
    with pytest.raises(AlreadyUpError):
        up(one, pipeline=False)
    admin = AdminClient({"bootstrap.servers": first["kafka_bootstrap"]})
    admin.create_topics([NewTopic("kept", 1, 1)])["kept"].result()
    large = words(first)

    assert down(one)
    assert not any(running(pid) for pid in pids(first))
    assert all(running(pid) for pid in [second["pid"], *pids(second)])
    assert (one / "kafka" / "kafka-1" / ".kafka_cleanshutdown").exists(), "the broker was given the time to stop"
    assert status(one) is None
    assert not down(one)
    assert b"-Xmx128m" not in large
    with Stack(one, small=True) as stack:
        assert b"-Xmx128m" in words(status(one))
        assert "kept" in AdminClient({"bootstrap.servers": stack.kafka_bootstrap}).list_topics(timeout=PATIENCE).topics

    os.kill(second["pid"], signal.SIGKILL)
    until(lambda: not any(running(pid) for pid in pids(second)), "the killed supervisor's children have ended")
    until(lambda: status(two) is None, "nobody holds the folder")
    assert not down(two)


def test_a_fresh_start_forgets_what_was_kept(
    tmp_path: Path, own_servers: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMX_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    kept = tmp_path / "kafka" / "kept"
    kept.parent.mkdir()
    kept.touch()
    with Stack(tmp_path):
        assert kept.exists()
    with Stack(tmp_path, fresh=True):
        assert not kept.exists()


@NEEDS_PROC
def test_where_a_process_does_not_start_the_rest_is_stopped(
    tmp_path: Path, own_servers: None, kafka: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After Redis and the topics, one that refuses a setting which only it reads."""
    given = {
        "KAFKA_BOOTSTRAP": kafka,
        "TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "SEMANTIC": str(tmp_path / "no model"),
    }
    for name, value in given.items():
        monkeypatch.setenv(f"HMX_{name}", value)
    with pytest.raises(StackError, match="does not start"):
        Stack(tmp_path, pipeline=True, keep=False).start()
    assert processes_of(tmp_path) == []


@pytest.mark.slow
def test_three_nodes_go_on_without_one_of_them(tmp_path: Path, own_servers: None) -> None:
    with Stack(tmp_path, nodes=3, keep=False) as stack:
        admin = AdminClient({"bootstrap.servers": stack.kafka_bootstrap})
        admin.create_topics([NewTopic("kept", 3, 3)])["kept"].result()
        described = status(tmp_path)
        assert described is not None
        os.kill(described["components"]["kafka-2"]["pid"], signal.SIGKILL)
        delivered: list[object] = []
        producer = Producer({"bootstrap.servers": stack.kafka_bootstrap, "acks": "all"})
        for partition in range(3):
            producer.produce(
                "kept", b"value", partition=partition, on_delivery=lambda error, _: delivered.append(error)
            )
        assert producer.flush(PATIENCE) == 0
        assert delivered == [None, None, None]


def test_another_number_of_nodes_is_refused_on_the_same_data(tmp_path: Path) -> None:
    kafka_servers(tmp_path, 1, lambda _: None)
    with pytest.raises(StackError, match="holds data of 1 nodes"):
        kafka_servers(tmp_path, 3, lambda _: None)


def test_any_cluster_id_will_do_and_only_the_first_cluster_of_a_version_costs_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    jars.classpath(lambda _: None)
    fetched = list(jars.kafka_folder().glob("*.jar"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    jars.kafka_folder().mkdir(parents=True)
    for jar in fetched:
        (jars.kafka_folder() / jar.name).symlink_to(jar)
    monkeypatch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=b"\xfb" * 16))  # written, it begins like an option
    made = []
    for name in ("asked", "known"):
        kafka_servers(tmp_path / name, 1, lambda _: None)
        monkeypatch.setattr(subprocess, "run", None)
        lines = (tmp_path / name / "kafka-1" / "meta.properties").read_text().splitlines()
        told = dict(line.split("=") for line in lines if not line.startswith("#"))
        assert len(told.pop("directory.id")) == 22
        made.append((told, (tmp_path / name / "kafka-1" / "bootstrap.checkpoint").read_bytes()))
    assert made[0] == made[1]


def test_a_jar_with_other_bytes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forged = tmp_path / "forged.jar"
    forged.write_bytes(b"something else")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(jars, "_download", lambda *_: forged)
    with pytest.raises(StackError, match="does not match its pinned SHA-256"):
        jars.classpath(lambda _: None)
    assert not list(jars.cache_folder().rglob("*.jar"))


def test_the_control_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    key = control_key(tmp_path)
    assert len(bytes.fromhex(key)) == 32
    assert control_key(tmp_path) == key
    assert (tmp_path / "control.key").stat().st_mode & 0o777 == 0o600


def test_the_session_has_a_kafka_and_a_redis(kafka: str, redis_url: str) -> None:
    assert AdminClient({"bootstrap.servers": kafka}).list_topics(timeout=PATIENCE).brokers
    with Redis.from_url(redis_url) as redis:
        assert redis.ping()
