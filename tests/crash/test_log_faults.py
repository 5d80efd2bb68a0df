"""The log itself changes under the worker: what retention takes is counted, and another log is not read as if it were
the same one."""

import time
from pathlib import Path

import orjson
import pytest
from confluent_kafka import TopicPartition

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.clients import Cluster
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from hmx_pipeline.worker.runner import EXIT_REFUSED
from tests.support.pipeline import Pipeline, create_topics, new_settings, running
from tests.support.sessions import interleaved, session
from tests.support.waiting import until

BEFORE = [orjson.dumps(event) for event in interleaved([session(number) for number in range(20)], 1)]
AFTER = [orjson.dumps(event) for event in interleaved([session(number) for number in range(20, 320)], 1)]

FETCH_S = 2.0
"""So long a broker keeps a fetch waiting for records, and somewhat longer: Faust asks for 1.5 s."""

STOPPED = pytest.param(True, marks=pytest.mark.slow)
RUNNING = pytest.param(False, marks=pytest.mark.slow)
"""A worker that starts and one that goes on come to the same end; the slower way is not in the default suite."""


def take_by_retention(settings: Settings, share: float) -> int:
    """That share of each partition of the log is deleted; how many offsets are gone."""
    cluster, topic = Cluster(settings.kafka_bootstrap), settings.topic_prefix + EVENTS
    marks = [cluster.watermarks(topic, partition) for partition in range(cluster.topic(topic).partitions)]
    cluster.close()
    ends = [TopicPartition(topic, p, mark.low + int(share * (mark.high - mark.low))) for p, mark in enumerate(marks)]
    admin = connect(settings.kafka_bootstrap)
    for done in admin.delete_records(ends).values():
        done.result()
    return sum(end.offset for end in ends)


@pytest.mark.parametrize("stopped", [STOPPED, False], ids=["stopped", "paused"])
def test_what_retention_takes_before_it_was_read_is_counted(
    kafka: str, redis_url: str, tmp_path: Path, stopped: bool
) -> None:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path, "worker", "materialiser") as pipeline:
        assert publish(BEFORE, settings).complete
        wait_for_all(settings)
        read = sum(part.position for part in verify(settings).partitions)
        if stopped:
            pipeline.stop("worker")
        else:
            pipeline.pause("worker")
            time.sleep(FETCH_S)  # a fetch that is under way ends without records
        assert publish(AFTER, settings).complete
        gone = take_by_retention(settings, 0.8)
        if stopped:
            pipeline.start("worker")
        else:
            pipeline.resume("worker")
        wait_for_all(settings)
        report = verify(settings)
        assert report.conserved, report.faults
        assert gone - read > 1_000
        assert report.outcomes[Outcome.LOST_TO_RETENTION] >= gone - read
        assert report.outcomes.total() >= sum(part.position for part in report.partitions) - read


def recreate_log(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    admin = connect(settings.kafka_bootstrap)
    for done in admin.delete_topics([settings.topic_prefix + EVENTS]).values():
        done.result()
    until(lambda: settings.topic_prefix + EVENTS not in admin.list_topics(timeout=30).topics, "its name is free")
    create_topics(settings)


@pytest.mark.parametrize("stopped", [True, RUNNING], ids=["stopped", "running"])
def test_a_log_that_was_deleted_and_created_again_is_refused(
    kafka: str, redis_url: str, tmp_path: Path, stopped: bool
) -> None:
    settings = new_settings(kafka, redis_url)
    with running(settings, tmp_path, "worker", "materialiser") as pipeline:
        assert publish(BEFORE, settings).complete
        wait_for_all(settings)
        if stopped:
            pipeline.stop("worker")
        recreate_log(pipeline)
        if stopped:
            pipeline.start("worker", ready=False)
        assert pipeline.processes["worker"].wait(120) == EXIT_REFUSED
        assert "was deleted and created again" in pipeline.log("worker")
