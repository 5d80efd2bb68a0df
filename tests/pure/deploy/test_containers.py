"""The containers that tests run on where an engine answers, asked of a `docker` that only notes what it is asked."""

import os
import stat
from pathlib import Path

import pytest
import yaml

from tests.support.stack import REDIS_VARIANT, ROOT, servers

DOCKER = """#!/bin/sh
echo "$PWD $*" >> "$(dirname "$0")/asked"
"""


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an engine notes what it is asked for; it answers everything."""
    docker = tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    docker.write_text(DOCKER)
    docker.chmod(docker.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{docker.parent}{os.pathsep}{os.environ['PATH']}")
    for name in ("HMX_KAFKA_BOOTSTRAP", "HMX_REDIS_URL", REDIS_VARIANT):
        monkeypatch.delenv(name, raising=False)
    return docker.with_name("asked")


def test_they_are_those_of_the_compose_file_on_ports_of_their_own(asked: Path, tmp_path: Path) -> None:
    with servers(tmp_path) as running:
        told = dict(line.split("=") for line in (tmp_path / "compose.env").read_text().splitlines())
    compose = f"{ROOT} compose --env-file {tmp_path / 'compose.env'}"
    assert asked.read_text().splitlines() == [
        f"{Path.cwd()} info",
        f"{compose} up --wait kafka redis",
        f"{compose} down --volumes",
    ]
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    published = [services[name]["ports"][0].split("{")[1].split(":")[0] for name in ("kafka", "redis")]
    assert running.kafka_bootstrap == f"127.0.0.1:{told[published[0]]}"
    assert running.redis_url == f"redis://127.0.0.1:{told[published[1]]}/0"


def test_an_engine_that_does_not_answer_is_not_asked_for_more(asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from tests.support.stack import docker_answers

    assert docker_answers()
    asked.with_name("docker").write_text("#!/bin/sh\nexit 1\n")
    assert not docker_answers()
    monkeypatch.setenv("PATH", str(asked.parent.parent))
    assert not docker_answers()
