"""A process of a small stack may be late with all its timers, and with nothing that comes in."""

import sys
import time
from pathlib import Path

import pytest

from hmx_pipeline.local.process import Component, Process, State


@pytest.mark.skipif(not Path("/proc/self/timerslack_ns").exists(), reason="only Linux has timer slack")
@pytest.mark.parametrize("seconds", [1.0, 0.0])
def test_every_thread_may_be_late_once_its_process_is_ready(tmp_path: Path, seconds: float) -> None:
    own = Path("/proc/self/timerslack_ns").read_text().strip()
    log = tmp_path / "log"
    code = "import threading, time; threading.Thread(target=time.sleep, args=[60]).start(); print(1, flush=True)"
    command = (sys.executable, "-c", code)
    process = Process(Component("idle", command, slack_s=seconds, ready=lambda: log.stat().st_size > 0), log)
    try:
        until = time.monotonic() + 30
        while process.state is not State.READY and time.monotonic() < until:
            process.step(time.monotonic())
        threads = list(Path(f"/proc/{process.pid}/task").iterdir())
        assert len(threads) == 2
        assert {Path(f"/proc/{each.name}/timerslack_ns").read_text().strip() for each in threads} == {
            f"{seconds * 1e9:.0f}" if seconds else own
        }
    finally:
        process.terminate()
        process.wait_or_kill(time.monotonic())
