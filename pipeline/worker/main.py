"""The worker process: checks the topics, then runs Faust until it is told to stop."""

import asyncio
import logging
import time
from typing import Final

import faust

from pipeline.kafka.clients import Cluster
from pipeline.kafka.topics import KafkaUnreachableError, check_events_topic, connect
from pipeline.observe.health import serve_health
from pipeline.observe.logs import configure_logs
from pipeline.settings import Settings
from pipeline.worker.app import create_app, create_runner, quiet_libraries
from pipeline.worker.runner import Runner

LOG: Final = logging.getLogger("hmx.worker")
STUCK_S: Final = 60.0
RETRY_S: Final = (0.5, 1.0, 2.0, 5.0)


def run_worker(settings: Settings) -> None:
    """Blocks until SIGTERM or SIGINT. Raises SettingsError, UnfitTopicError. Waits while Kafka does not answer."""
    configure_logs(settings.log_level)
    runner: Runner | None = None

    def live() -> tuple[bool, str]:
        idle = time.monotonic() - runner.last_progress if runner is not None else 0.0
        return idle < STUCK_S, f"last progress {idle:.1f} s ago"

    def ready() -> tuple[bool, str]:
        if runner is None:
            return False, "Kafka does not answer"
        return runner.ready, f"{runner.owned} partitions owned"

    serve_health(settings.host, settings.worker_port, live, ready)
    cluster = _wait_for_topics(settings)
    runner = create_runner(settings, cluster)
    app = create_app(settings, runner)
    quiet_libraries()
    asyncio.set_event_loop(asyncio.new_event_loop())
    faust.Worker(app, loglevel=settings.log_level, override_logging=False).execute_from_commandline()


def _wait_for_topics(settings: Settings) -> Cluster:
    admin = connect(settings.require_kafka())
    attempt = 0
    while True:
        try:
            check_events_topic(admin, prefix=settings.topic_prefix)
            return Cluster(settings.require_kafka())
        except KafkaUnreachableError as error:
            wait = RETRY_S[min(attempt, len(RETRY_S) - 1)]
            LOG.warning("no Kafka at %s (%s); trying again in %.1f s", settings.kafka_bootstrap, error, wait)
            attempt += 1
            time.sleep(wait)
