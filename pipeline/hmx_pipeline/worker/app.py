"""Worker application: builds a Faust app with one agent per stage from the settings.

Enters: settings and a `Cluster`. Leaves: the `Runner` that owns the partitions, and the Faust app that feeds it. The
process exits with code 3 (fenced), 4 (failed) or 5 (refuses to run); supervisors restart it except after 5.
"""

import logging
from typing import Any, Final

import faust
from faust.sensors import Monitor
from faust.types import TP
from mode import Service
from mode.supervisors import CrashingSupervisor
from yarl import URL

from hmx_pipeline.contracts.limits import BATCH_BYTES
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.observe.tracing import spans
from hmx_pipeline.runtime.stage_folds import fold_factories
from hmx_pipeline.runtime.transaction import Transactions
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import GROUP, STAGES
from hmx_pipeline.worker.aiokafka_transport import Transport
from hmx_pipeline.worker.credentials import credentials
from hmx_pipeline.worker.partition import FetchedBatch, OwnedPartition
from hmx_pipeline.worker.runner import Runner
from hmx_pipeline.worker.ticks import ticker
from hmx_pipeline.worker.worker_status import ProgressWatch

APPEND_MS: Final = 60_000
HEARTBEATS: Final = 5
"""Within a session timeout."""
HEARTBEAT_S: Final = 2.0
"""The most between two of them. Their answers tell of a rebalance."""
NEVER: Final = 20 * 24 * 3600.0


class App(faust.App):
    def _create_directories(self) -> None:
        """Creates nothing: state is in the state topics, and Faust would leave table folders behind."""


class UnsampledMonitor(Monitor):
    @Service.task
    async def _sampler(self) -> None:
        """Does nothing: Faust computes rates here, every second, that nobody reads."""


def create_runner(settings: Settings, cluster: Cluster, watch: ProgressWatch) -> Runner:
    prefix = settings.topic_prefix
    stages = {prefix + stage.source: stage for stage in STAGES}
    folds = fold_factories(settings, cluster)
    tracing = spans(settings, "worker")
    log = plain_producer(settings.require_kafka(), **{"linger.ms": 0, "delivery.timeout.ms": APPEND_MS})

    def new_partition(tp: TP) -> OwnedPartition:
        stage = stages[tp.topic]
        transactions = Transactions(cluster, stage, tp.partition, prefix, settings.transaction_timeout_ms, log)
        return OwnedPartition(tp, stage, folds[stage.name], transactions, tracing)

    return Runner(new_partition, ticker(log, settings.require_control_key(), watch))


def create_app(settings: Settings, runner: Runner) -> faust.App:
    kafka = settings.require_kafka()
    brokers = [URL(f"kafka://{address}") for address in kafka.bootstrap.split(",")]
    app = App(
        settings.topic_prefix + GROUP,
        broker=brokers,
        broker_credentials=credentials(kafka),
        store="memory://",
        web_enabled=False,
        topic_allow_declare=False,
        topic_disable_leader=True,
        Monitor=UnsampledMonitor,
        agent_supervisor=CrashingSupervisor,
        stream_wait_empty=False,
        worker_redirect_stdouts=False,
        consumer_auto_offset_reset="none",  # the state decides where to continue
        consumer_metadata_max_age_ms=10_000,  # how soon it notices a recreated topic
        consumer_max_fetch_size=BATCH_BYTES,
        consumer_group_instance_id=settings.worker_id or None,
        broker_session_timeout=settings.session_timeout_ms / 1000,
        broker_heartbeat_interval=min(HEARTBEAT_S, settings.session_timeout_ms / 1000 / HEARTBEATS),
        broker_request_timeout=40.0,
        broker_rebalance_timeout=30.0,
        broker_max_poll_interval=NEVER,
        broker_commit_interval=NEVER,
        broker_commit_livelock_soft_timeout=NEVER,
        stream_processing_timeout=NEVER,
    )
    app.transport = Transport(runner, brokers, app)
    for stage in STAGES:
        _add_agent(app, runner, settings.topic_prefix + stage.source, stage.name)
    return app


def _add_agent(app: faust.App, runner: Runner, topic: str, name: str) -> None:
    # acks=False is what turns off Faust's own commits.
    source = app.topic(topic, value_serializer="raw", value_type=None, key_type=bytes, key_serializer="raw", acks=False)

    async def agent(batches: Any) -> None:
        async for batch in batches:
            assert isinstance(batch, FetchedBatch)
            runner.feed(batch)

    app.agent(source, name=name)(agent)


def quiet_libraries() -> None:
    """Silences aiokafka, which reports every rebalance as errors; the runner reports what matters."""
    logging.getLogger("aiokafka").setLevel(logging.ERROR)
    logging.getLogger("faust").setLevel(logging.WARNING)
    logging.getLogger("mode").setLevel(logging.WARNING)
