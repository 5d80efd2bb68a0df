"""`hmx demo`: what it prints is what the samples must become, and nothing of it stays."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hmx_pipeline.local.samples import EXPECTED, QUESTION, SECRETS
from tests.support.processes import NEEDS_PROC, processes_of

READY_S = 300.0
STOP_S = 90.0


def start(folder: Path, **settings: str) -> subprocess.Popen[str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    return subprocess.Popen(
        [sys.executable, "-m", "hmx_pipeline.cli", "demo"],
        cwd=folder,
        env={**inherited, **settings, "TMPDIR": str(folder), "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def assert_nothing_is_left(folder: Path) -> None:
    deadline = time.monotonic() + STOP_S
    while processes_of(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert processes_of(folder) == []
    assert not list(folder.iterdir())


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("demo")
    demo = start(folder, HMX_KAFKA_BOOTSTRAP="127.0.0.1:1", HMX_REDIS_URL="redis://127.0.0.1:1/0")  # somebody's own
    out, err = demo.communicate(timeout=READY_S)
    assert demo.returncode == 0, err
    assert not list(folder.iterdir())
    return out


def test_every_outcome_is_counted_as_expected(printed: str) -> None:
    counted = {name.replace(" ", "_"): int(n) for n, name in re.findall(r"(\d+) ([a-z ]+)[,.]", printed)}
    assert counted == counted | {str(name): n for name, n in EXPECTED.outcomes.items()}


def test_it_tells_in_order_what_failed_what_was_learnt_and_what_the_next_agent_gets(printed: str) -> None:
    _, met, learnt, gets = re.split(r"^What (?:agents|memory|the next) .*$", printed, flags=re.MULTILINE)
    assert "4 found a way out" in " ".join(met.split())
    assert "Deploy <service> <version> to staging" in learnt
    assert QUESTION in gets
    assert "(worked in 4 of 6 sessions)" in " ".join(gets.split())
    assert len(printed.splitlines()) < 40


def test_output_fits_a_terminal_of_80_columns(printed: str) -> None:
    as_installed = printed.replace(f"{sys.executable} -m hmx_pipeline.cli", "hmx")
    assert max(map(len, as_installed.splitlines())) <= 80


@pytest.mark.parametrize("secret", SECRETS)
def test_no_planted_secret_is_printed(printed: str, secret: str) -> None:
    assert secret not in printed


@NEEDS_PROC
@pytest.mark.parametrize("asked", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_it_stops_all_that_it_has_started(tmp_path: Path, asked: signal.Signals) -> None:
    demo = start(tmp_path)
    try:
        assert demo.stderr is not None
        for line in demo.stderr:
            if "kafka" in line:
                break
        running = processes_of(tmp_path)
        demo.send_signal(asked)
        demo.communicate(timeout=STOP_S)
    finally:
        demo.kill()
    assert len(running) > 1  # itself and what it had started
    assert demo.returncode == 130
    assert_nothing_is_left(tmp_path)


def test_a_setting_that_cannot_be_is_refused_before_anything_starts(tmp_path: Path) -> None:
    demo = start(tmp_path, HMX_WINDOW_MS="soon")
    _, err = demo.communicate(timeout=READY_S)
    assert demo.returncode == 1
    assert "HMX_WINDOW_MS='soon' is not a whole number" in err
    assert_nothing_is_left(tmp_path)
