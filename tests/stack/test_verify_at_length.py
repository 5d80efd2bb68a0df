"""`hmx verify` of a long log: in several processes as in one, in bounded memory, and it says how far it is."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from hmx_pipeline.audit import pipeline_conservation as audit
from hmx_pipeline.audit.parallel_audit import shares
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.filled import fill
from tests.support.pipeline import create_topics, environment, new_settings
from tests.support.sessions import session

RECORDS = 600_000
MOST = 300 * MB
PARTITIONS = 4


def values(records: int) -> Iterator[bytes]:
    """Sessions under new names without end; some of it twice, some of it invalid, some of it late, some behind gaps."""
    count, number = 0, 0
    while count < records:
        lines = [orjson.dumps({**item, "session_id": f"s-{number}"}) for item in session(number % 50)]
        if number % 7 == 0:
            lines.append(lines[0])
        if number % 11 == 0:
            lines.append(b"no event")
        if number % 13 == 0:
            lines[2], lines[4] = lines[4], lines[2]
        if number % 17 == 0:
            del lines[3]
        yield from lines[: records - count]
        count, number = count + len(lines), number + 1


def filled(kafka: str, records: Iterable[bytes]) -> Settings:
    settings = new_settings(kafka)
    create_topics(settings, PARTITIONS)
    fill(settings, records)
    return settings


@pytest.fixture(scope="module")
def settings(kafka: str) -> Settings:
    return filled(kafka, values(4_000))


def test_several_processes_find_what_one_does(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    one = audit.verify(settings)
    monkeypatch.setattr(audit, "SEVERAL_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    several = audit.verify(settings)
    assert several.as_json() == one.as_json()
    assert several.conserved
    assert several.outcomes.total() == 4_000
    assert {"released", "duplicate", "rejected", "waiting"} <= several.outcomes.keys()


@pytest.mark.parametrize("processes", [1, 2])
def test_it_says_how_far_it_is(settings: Settings, monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    monkeypatch.setattr(audit, "SEVERAL_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processes)))
    said: list[tuple[str, int, int]] = []
    audit.verify(settings, lambda *progress: said.append(progress))
    events = [(done, total) for what, done, total in said if what == EVENTS]
    assert events[-1] == (4_000, 4_000)
    assert sorted(events) == events
    assert {total for _, total in events} == {4_000}


def test_what_fails_in_a_process_fails_the_audit(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEVERAL_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setenv("PYTHONPATH", os.devnull)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ended with code 1"):
        audit.verify(settings)


def test_what_has_ended_before_it_is_asked_fails_the_audit(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEVERAL_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        process = popen(*arguments, **options)
        process.wait()
        return process

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(RuntimeError, match="ended with code 1"):
        audit.verify(settings)


def test_who_interrupts_it_waits_for_no_process(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "SEVERAL_FROM", 0)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    started: list[subprocess.Popen[bytes]] = []
    popen = subprocess.Popen

    def start(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(popen(*arguments, **options))
        return started[-1]

    def interrupted(what: str, *_: int) -> None:
        if what == EVENTS and len(started) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", start)
    with pytest.raises(KeyboardInterrupt):
        audit.verify(settings, interrupted)
    assert {process.wait(20) for process in started} == {-signal.SIGTERM}


def test_each_process_has_about_as_much_to_read() -> None:
    sizes = [50, 10, 40, 0, 30, 20]
    found = shares(sizes, 2)
    assert sorted(n for share in found for n in share) == list(range(6))
    assert [sum(sizes[n] for n in share) for share in found] in ([80, 70], [70, 80])


def test_the_result_as_json_comes_without_a_bar(settings: Settings) -> None:
    found = verified(settings)
    assert (json.loads(found.stdout)["conserved"], found.stderr) == (True, "")


def verified(settings: Settings) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "hmx_pipeline.cli", "verify", "--json"]
    return subprocess.run(command, env=environment(settings), capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_of_600_000_records_all_its_processes_hold_300_mb_at_most(kafka: str) -> None:
    settings = filled(kafka, values(RECORDS))
    command = [sys.executable, "-m", "hmx_pipeline.cli", "verify", "--json"]
    peak: Counter[int] = Counter()
    started = time.monotonic()
    with subprocess.Popen(command, env=environment(settings), stdout=subprocess.PIPE) as process:
        while process.poll() is None:
            for one in family(process.pid):
                peak[one] = max(peak[one], held(one))
            time.sleep(0.05)
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
    print(f"{RECORDS:,} records in {time.monotonic() - started:.1f} s, {peak.total() / MB:.0f} MB")
    assert (found["conserved"], sum(found["outcomes"].values())) == (True, RECORDS)
    assert peak.total() <= MOST


def family(process: int) -> list[int]:
    """A process and those that it has started."""
    try:
        tasks = list(Path(f"/proc/{process}/task").glob("*/children"))
        return [process, *(one for task in tasks for child in task.read_text().split() for one in family(int(child)))]
    except OSError:
        return []


def held(process: int) -> int:
    """Its highest resident memory so far."""
    try:
        return int(Path(f"/proc/{process}/status").read_text().split("VmHWM:")[1].split()[0]) * 1024
    except (OSError, IndexError):
        return 0
