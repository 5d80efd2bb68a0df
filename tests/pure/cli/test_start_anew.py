"""A process whose secret was replaced starts anew in its place, unless anybody else told it to stop meanwhile."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CHILD = """
import logging, os, signal, sys, threading, time
from pathlib import Path
from hmx_pipeline.cli import run
from hmx_pipeline.observe import shutdown

how, folder = sys.argv[1], Path(sys.argv[2])
starts = folder / "starts"
starts.write_text(str(int(starts.read_text() or 0) + 1 if starts.exists() else 1))
if starts.read_text() == "2":
    sys.exit(7)  # the successor
run.LOOK_S, run.SPREAD_S, shutdown.END_S = 0.02, 0.0, 0.3
os.environ.update(HMX_STATE=str(folder), HMX_KAFKA_BOOTSTRAP="k:1", HMX_REDIS_PASSWORD_FILE=str(folder / "secret"))
(folder / "secret").write_text("old")


def process(settings):
    stop = threading.Event()
    def told(*_):
        shutdown.end_in_time()
        stop.set()
    signal.signal(signal.SIGTERM, told)
    if how == "damaged":  # a file of the running stack that is half written, for a while
        (folder / "control.key").write_text("key")
        (folder / "stack.json").write_text("{")
        time.sleep(0.3)
        (folder / "stack.json").unlink()
    if how == "stopped":
        os.kill(os.getpid(), signal.SIGTERM)
    else:
        (folder / "secret").write_text("new")
    stop.wait(20)
    if how == "both":
        os.kill(os.getpid(), signal.SIGTERM)
    if how == "hangs":
        time.sleep(20)
    if how == "both hang":
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(20)


run._renewed(process)
"""


@pytest.mark.parametrize(
    ("how", "starts"),
    [("replaced", 2), ("stopped", 1), ("hangs", 2), ("both", 1), ("both hang", 1), ("damaged", 2)],
)
def test_only_what_was_told_to_stop_by_itself_starts_anew(tmp_path: Path, how: str, starts: int) -> None:
    script = tmp_path / "child.py"
    script.write_text(CHILD)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HMX_")}
    done = subprocess.run(
        [sys.executable, str(script), how, str(tmp_path)], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (tmp_path / "starts").read_text() == str(starts), done.stderr
    assert done.returncode == (7 if starts == 2 else 0), done.stderr
