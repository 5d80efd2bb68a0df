"""Worlds played on the whole pipeline: events through Kafka, packs over HTTP, each process a child of this one.

Enters: worlds. Leaves: what `run.py play` writes; the processes' logs. Topics are the run's own, on HMX_KAFKA_BOOTSTRAP
and HMX_REDIS_URL where those are given. A world's name is its tenant, and without a file of keys that is all the
service asks for. Fails: UnplayedError.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.control_producer import append_settings
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.local.process import StackError
from hmx_pipeline.runtime.barriers import LackingError
from hmx_pipeline.runtime.stored_positions import stored_positions
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError
from hmx_pipeline.topology import SESSIONS
from tests.act.benchmark import Benchmark, UnplayedError, World
from tests.support.pipeline import new_settings, running
from tests.support.stack import servers

Say = Callable[[str], None]


def play(benchmark: Benchmark, worlds: Sequence[World], budget: int, logs: Path, say: Say) -> dict[str, Any]:
    """By world: the figures of every agent, and every task that was played with packs."""
    try:
        return _play_on_a_stack(benchmark, worlds, budget, logs, say)
    except (LackingError, StackError, StoreUnavailableError) as error:
        raise UnplayedError(f"{error}; the logs are in {logs}") from error


def _play_on_a_stack(
    benchmark: Benchmark, worlds: Sequence[World], budget: int, logs: Path, say: Say
) -> dict[str, Any]:
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    with tempfile.TemporaryDirectory(prefix="hmx-act-") as folder:
        os.environ["HMX_STATE"] = folder  # no stack that runs in this checkout is met
        say("starting Kafka, Redis, the worker, the materialiser and the service")
        with servers(Path(folder)) as started:
            settings = new_settings(started.kafka_bootstrap, started.redis_url)
            with running(settings, logs, "worker", "materialiser", "service"):
                _learn(settings, worlds, say)
                return _play(benchmark, worlds, settings.service_url, budget, Path(folder) / "act.json", say)


def _learn(settings: Settings, worlds: Sequence[World], say: Say) -> None:
    began = time.monotonic()
    for world in worlds:
        append_settings(settings, TenantSettings(tenant_id=world.name, sharing="team"))
        done = publish(world.lines(), settings)
        if not done.complete:
            raise UnplayedError(f"{world.name}: not every event was published: {done}")
        say(f"{world.name}: {done.events} events published")
    wait_for_all(settings)
    say(f"all of it learnt {time.monotonic() - began:.1f} s after the first")
    with closing(Cluster(settings.require_kafka())) as cluster:
        positions = stored_positions(cluster, SESSIONS, settings.topic_prefix)
    if rejected := sum(position.counts.get(Outcome.REJECTED, 0) for position in positions if position is not None):
        raise UnplayedError(f"{rejected} events were rejected: `hmx validate events.ndjson` says why")


def _play(
    benchmark: Benchmark, worlds: Sequence[World], service: str, budget: int, file: Path, say: Say
) -> dict[str, Any]:
    say("playing")
    folders = [str(world.folder) for world in worlds]
    run = ("play", "--service", service, "--budget", str(budget), "--json", str(file), "--worlds", *folders)
    played = benchmark.run(*run)
    if played.returncode:
        raise UnplayedError(f"`run.py play` ends with {played.returncode}:\n{played.stdout}\n{played.stderr}")
    results: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return {world.name: results[world.name] for world in worlds}
