"""Worker process: checks the topics, then runs Faust until it is told to stop.

Enters: settings. Leaves: a process that answers health checks and metrics on HMX_WORKER_PORT, also while it waits for
Kafka. Raises SettingsError, and TopicsError if a topic or a right is missing or unfit.
"""

import asyncio
import logging
import time
from signal import Signals
from typing import Final

import faust

from hmx_pipeline.kafka.acl_rights import check_rights
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, MissingTopicError, check_events_topic, connect
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.observe.health_server import serve_health
from hmx_pipeline.observe.logs import configure_logs
from hmx_pipeline.observe.shutdown import end_in_time
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import SESSIONS
from hmx_pipeline.worker.app import create_app, create_runner, quiet_libraries
from hmx_pipeline.worker.runner import Runner
from hmx_pipeline.worker.worker_status import ProgressWatch, WorkerHealth

LOG: Final = logging.getLogger("hmx.worker")
KNOWN_S: Final = 5.0
"""A broker that has just started may not know all topics yet."""
RETRY_S: Final = (0.5, 1.0, 2.0, 5.0)


def run_worker(settings: Settings) -> None:
    """Blocks until SIGTERM or SIGINT; retries while Kafka does not answer. Raises SettingsError, UnfitTopicError."""
    collect_seldom()
    configure_logs(settings.log_level, settings.log)
    cluster = Cluster(settings.require_kafka())
    silent = cluster.answers(settings.topic_prefix + SESSIONS.source, "worker").why_not
    health = WorkerHealth(settings.ready_lag_s, silent)
    serve_health(settings.host, settings.worker_port, health)
    runner = health.runner = _wait_for_kafka(settings, cluster, health.watch)
    app = create_app(settings, runner)
    quiet_libraries()
    asyncio.set_event_loop(asyncio.new_event_loop())
    worker = Worker(app, loglevel=settings.log_level, override_logging=False, quiet=True)
    worker.spinner = None  # it would write into the log
    worker.execute_from_commandline()


class Worker(faust.Worker):
    """Limits the shutdown time, since leaving the group or a transaction may hang."""

    def _schedule_shutdown(self, signal: Signals) -> None:
        end_in_time()
        super()._schedule_shutdown(signal)


def _wait_for_kafka(settings: Settings, cluster: Cluster, watch: ProgressWatch) -> Runner:
    """Retries until the topics are there and Kafka's controller says which they are."""
    admin = connect(settings.require_kafka())
    attempt, known_by = 0, time.monotonic() + KNOWN_S
    while True:
        try:
            check_rights(settings.require_kafka(), "worker", settings.topic_prefix)
            check_events_topic(admin, prefix=settings.topic_prefix)
            return create_runner(settings, cluster, watch)
        except MissingTopicError:
            if time.monotonic() > known_by:
                raise
            time.sleep(RETRY_S[0])
        except KafkaUnreachableError as error:
            known_by = time.monotonic() + KNOWN_S
            wait = RETRY_S[min(attempt, len(RETRY_S) - 1)]
            LOG.warning("Kafka does not answer at %s (%s); retrying in %.1f s", settings.require_kafka(), error, wait)
            attempt += 1
            time.sleep(wait)
