"""The clients' contract and the JavaScript client, on the whole pipeline; and the program of the client's page."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hmx_pipeline.settings import Settings
from tests.support.documents import DOCS, ROOT
from tests.support.pipeline import environment, new_settings, running

HERE = Path(__file__).parent
pytestmark = pytest.mark.web


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    assert shutil.which("node"), "install nodejs (Debian's package), as `make test-web` does for root"
    made = new_settings(kafka, redis_url)
    with running(made, tmp_path_factory.mktemp("logs"), "worker", "materialiser", "service", partitions=2):
        yield made


def ran(settings: Settings, *words: object, **more: str) -> str:
    own = {**os.environ, **environment(settings), "HMX_SERVICE_URL": settings.service_url, **more}
    ended = subprocess.run(["node", *map(str, words)], env=own, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder where the client is installed."""
    (tmp_path / "node_modules" / "@hmx").mkdir(parents=True)
    (tmp_path / "node_modules" / "@hmx" / "client").symlink_to(ROOT / "integrations" / "javascript")
    return tmp_path


@pytest.mark.requirement("O-04", "O-05", "O-06", "O-07", "O-10")
def test_the_contract_of_the_clients_holds_from_javascript(settings: Settings) -> None:
    ran(settings, "--test", "--test-reporter=spec", HERE / "dialect.test.mjs")


def test_the_javascript_client_keeps_its_promises(settings: Settings, project: Path) -> None:
    shutil.copy(HERE / "sdk.test.mjs", project)
    ran(settings, "--test", "--test-reporter=spec", project / "sdk.test.mjs")


def test_the_programs_of_the_page_run(settings: Settings, project: Path) -> None:
    page = (DOCS / "how-to" / "javascript.md").read_text("utf-8")
    programs = re.findall(r"^```js\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert programs
    for n, code in enumerate(programs):
        (project / f"{n}.mjs").write_text(code)
        assert "registry.internal:5000" in ran(settings, project / f"{n}.mjs", SERVICE=settings.service_url)
