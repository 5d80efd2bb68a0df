"""The clients' contract held from JavaScript, on the whole pipeline."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.pipeline import environment, new_settings, running

HERE = Path(__file__).parent
pytestmark = pytest.mark.web


@pytest.mark.requirement("O-04", "O-05", "O-06", "O-07", "O-10")
def test_the_contract_of_the_clients_holds_from_javascript(kafka: str, redis_url: str, tmp_path: Path) -> None:
    assert shutil.which("node"), "install nodejs (Debian's package), as `make test-web` does for root"
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path, "worker", "materialiser", "service", partitions=2):
        ran = subprocess.run(
            ["node", "--test", "--test-reporter=spec", HERE / "dialect.test.mjs"],
            env={**os.environ, **environment(settings), "HMX_SERVICE_URL": settings.service_url},
            capture_output=True,
            text=True,
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
