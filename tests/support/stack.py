"""The Kafka and Redis that tests run on, wherever they come from: given addresses, containers, or the local stack."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pipeline.local.kafka import MESSAGE_BYTES
from pipeline.local.stack import Stack

REDIS_VARIANT = "HMX_TEST_REDIS"  # "redis" or "valkey": which server the local stack runs


@dataclass(frozen=True)
class Servers:
    kafka_bootstrap: str
    redis_url: str


@contextmanager
def servers(state: Path) -> Iterator[Servers]:
    """Running servers; what was started for them is stopped and its data thrown away."""
    given = os.environ.get("HMX_KAFKA_BOOTSTRAP") and os.environ.get("HMX_REDIS_URL")
    if not given and docker_answers():
        with containers() as running:
            yield running
    else:
        with Stack(state, keep=False, redis_server=os.environ.get(REDIS_VARIANT) or None) as stack:
            yield Servers(stack.kafka_bootstrap, stack.redis_url)


def docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    try:
        return subprocess.run(["docker", "info"], capture_output=True, timeout=5, check=False).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@contextmanager
def containers() -> Iterator[Servers]:
    from testcontainers.kafka import KafkaContainer
    from testcontainers.redis import RedisContainer

    image = "valkey/valkey:9" if os.environ.get(REDIS_VARIANT) == "valkey" else "redis:8"
    with ExitStack() as started:
        kafka = KafkaContainer().with_kraft()
        for name, value in {
            "KAFKA_AUTO_CREATE_TOPICS_ENABLE": "false",
            "KAFKA_MESSAGE_MAX_BYTES": str(MESSAGE_BYTES),
            "KAFKA_REPLICA_FETCH_MAX_BYTES": str(MESSAGE_BYTES),
            "KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS": "0",
            "KAFKA_TRANSACTION_STATE_LOG_REPLICATION_FACTOR": "1",
            "KAFKA_TRANSACTION_STATE_LOG_MIN_ISR": "1",
        }.items():
            kafka.with_env(name, value)
        started.enter_context(kafka)
        redis = started.enter_context(RedisContainer(image))
        yield Servers(
            kafka.get_bootstrap_server(), f"redis://{redis.get_container_host_ip()}:{redis.get_exposed_port(6379)}/0"
        )
