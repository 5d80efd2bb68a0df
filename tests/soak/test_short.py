"""A soak of a minute: everything starts, grows, stays and ends. What twenty minutes show, it cannot."""

import os
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_minute_of_growing_traffic_leaves_every_process_bounded(tmp_path: Path) -> None:
    env = {**os.environ, "MINUTES": "1", "PYTHONPATH": f"{ROOT / 'pipeline'}{os.pathsep}{ROOT}"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.soak"], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    report = orjson.loads((tmp_path / "build" / "soak.json").read_bytes())
    assert report["samples"][-1]["events"] > 2_000
    assert report["answered"] > 100
    assert [verdict["name"] for verdict in report["verdicts"]] == ["worker", "materialiser", "service", "redis"]
