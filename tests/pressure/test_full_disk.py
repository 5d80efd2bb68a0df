"""A broker's disk fills up: the broker ends, everything waits, and once there is room it all goes on where it was."""

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.process import answers_ok
from hmx_pipeline.local.stack import Stack
from hmx_pipeline.local.state import read_stack
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS
from tests.support.records import event
from tests.support.topics import episodes_by_session, read

DISK_MB = 256
LEFT_MB = 6
"""Less than what is sent: six thousand events of about two kilobytes, and what is made of them."""


def until(what: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        pytest.skip(f"this user can't mount a small file system here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=False)


def fill(disk: Path) -> Path:
    filler, block = disk / "filler", b"\0" * (1 << 20)
    used = sum(path.stat().st_blocks * 512 for path in disk.rglob("*") if path.is_file())
    with filler.open("wb") as file:
        for _ in range(DISK_MB - LEFT_MB - (used >> 20)):
            file.write(block)
    return filler


def send_what_is_taken(settings: Settings, lines: list[bytes]) -> int:
    """How many of them Kafka has acknowledged before it gave up."""
    taken = 0

    def answered(error: object, _: object) -> None:
        nonlocal taken
        taken += error is None

    producer = plain_producer(settings.kafka_bootstrap, **{"delivery.timeout.ms": 15_000, "compression.type": "none"})
    for n, line in enumerate(lines):
        key = session_key("acme", f"s{n % 50}")
        producer.produce(settings.topic_prefix + EVENTS, line, key, on_delivery=answered)
        producer.poll(0)
    while producer.flush(1):
        pass
    producer.close()
    return taken


def broker(stack: Stack) -> dict[str, Any]:
    described = read_stack(stack.state)
    assert described is not None
    component: dict[str, Any] = described["components"]["kafka-1"]
    return component


@pytest.mark.slow
def test_a_full_disk_stops_everything_and_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = tmp_path / "state"
    with small_disk(state / "kafka") as disk, Stack(state, pipeline=True, keep=False) as stack:
        for name, value in stack.environment.items():
            monkeypatch.setenv(name, value)
        settings = Settings.load(stack.environment)
        text = "nothing that compresses away " + "0123456789abcdef" * 120
        lines = [orjson.dumps(event(f"s{n % 50}", n // 50, content={"text": text})) for n in range(6_000)]
        filler = fill(disk)
        taken = send_what_is_taken(settings, lines)
        assert taken < len(lines)
        until(lambda: broker(stack)["restarts"])
        filler.unlink()
        until(lambda: broker(stack)["state"] == "ready")
        until(answers_ok(settings.worker_port))
        assert publish(lines, settings).complete
        wait_for_all(settings)
        report = verify(settings)
        assert report.conserved, report.faults
        assert sum(map(len, read(settings, EPISODES).values())) == len(lines)
        assert all(len(set(ids)) == len(ids) == 120 for ids in episodes_by_session(settings).values())
        assert report.outcomes["duplicate"] >= taken
