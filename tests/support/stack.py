"""The Kafka and Redis that tests run on, wherever they come from: given addresses, containers, or the local stack."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from hmx_pipeline.local.ports import free_ports
from hmx_pipeline.local.stack import Stack

ROOT = Path(__file__).parents[2]
REDIS_VARIANT = "HMX_TEST_REDIS"  # "redis" or "valkey": the local stack, with this server


@dataclass(frozen=True)
class Servers:
    kafka_bootstrap: str
    redis_url: str


@contextmanager
def servers(state: Path, together: Path | None = None) -> Iterator[Servers]:
    """Running servers; what was started for them is stopped and its data thrown away. Processes that run tests side by
    side name a folder, `together`, and have one local Kafka: each one more costs a start and what an idle one computes.
    """
    given = os.environ.get("HMX_KAFKA_BOOTSTRAP") and os.environ.get("HMX_REDIS_URL")
    variant = os.environ.get(REDIS_VARIANT) or None
    if not given and not variant and docker_answers():
        with containers(state) as running:
            yield running
    elif together is None:
        with Stack(state, keep=False, redis_server=variant) as stack:
            yield Servers(stack.kafka_bootstrap, stack.redis_url)
    else:
        with one_kafka(Stack(state, keep=False, redis_server=variant), together) as running:
            yield running


@contextmanager
def one_kafka(stack: Stack, folder: Path) -> Iterator[Servers]:
    """Who asks first starts it, and stops it once nobody else uses it. Each has a Redis of its own."""
    address = folder / "kafka"
    with (
        (folder / "starts").open("w") as starts,
        (folder / "uses").open("w") as uses,
        pytest.MonkeyPatch.context() as env,
    ):
        fcntl.flock(starts, fcntl.LOCK_EX)
        if not (first := not address.exists()):
            env.setenv("HMX_KAFKA_BOOTSTRAP", address.read_text())
        fcntl.flock(uses, fcntl.LOCK_SH)
        with stack:
            env.undo()
            address.write_text(stack.kafka_bootstrap)
            fcntl.flock(starts, fcntl.LOCK_UN)
            yield Servers(stack.kafka_bootstrap, stack.redis_url)
            if first:
                fcntl.flock(starts, fcntl.LOCK_EX)
                address.unlink()  # whoever comes from now on starts another
                fcntl.flock(starts, fcntl.LOCK_UN)
                fcntl.flock(uses, fcntl.LOCK_EX)


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=5, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def containers(folder: Path) -> Iterator[Servers]:
    """The compose file's own Kafka and Redis, under a name and on ports that no other stack has."""
    from testcontainers.compose import DockerCompose

    kafka, redis = free_ports(2)
    file = folder / "compose.env"
    variables = {
        "COMPOSE_PROJECT_NAME": f"hmx-test-{kafka}",
        "HMX_KAFKA_PORT": kafka,
        "HMX_REDIS_PORT": redis,
        "HMX_CONTROL_KEY": "of-no-use-here",  # the file asks for one
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    with DockerCompose(ROOT, services=["kafka", "redis"], env_file=str(file)) as compose:
        try:
            yield Servers(f"127.0.0.1:{kafka}", f"redis://127.0.0.1:{redis}/0")
        finally:
            compose.services = None  # the network goes with them
