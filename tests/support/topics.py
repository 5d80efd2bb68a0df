"""Reading what a pipeline has written, with a read_committed consumer and nothing of the stages."""

from collections import defaultdict
from contextlib import closing
from typing import Any

import orjson
from confluent_kafka import Message

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.kafka.clients import Cluster, read_partition
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, SESSION_STATE
from tests.support.inprocess import law_five


def read(settings: Settings, topic: str) -> dict[int, list[Message]]:
    """Every committed record, by partition."""
    records: dict[int, list[Message]] = defaultdict(list)
    name = settings.topic_prefix + topic
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        for partition in range(cluster.topic(name).partitions):
            marks = cluster.watermarks(name, partition)
            records[partition] = list(read_partition(settings.kafka_bootstrap, name, partition, marks))
    return records


def values(settings: Settings, topic: str) -> list[Any]:
    """JSON values, partition after partition."""
    return [orjson.loads(m.value() or b"null") for messages in read(settings, topic).values() for m in messages]


def headers_of(message: Message) -> Headers:
    return [(name, value) for name, value in message.headers() or [] if isinstance(value, bytes)]


def logged(settings: Settings, session: str) -> list[Accepted]:
    """A session's events, as they stand in the log."""
    found = [decode(m.value()) for messages in read(settings, EVENTS).values() for m in messages]
    assert all(isinstance(event, Accepted) for event in found), found
    return [event for event in found if isinstance(event, Accepted) and event.event.session_id == session]


def active_artifacts(settings: Settings) -> list[tuple[Any, ...]]:
    return law_five(values(settings, ARTIFACTS))


def episodes_by_session(settings: Settings) -> dict[str, list[str]]:
    """Session → ids of its released events, in order."""
    sessions: dict[str, list[str]] = defaultdict(list)
    for episode in values(settings, EPISODES):
        sessions[episode["sessionId"]].append(episode["id"])
    return sessions


def counts(settings: Settings) -> dict[str, int]:
    """The sessions stage's totals, as its own state says."""
    totals: dict[str, int] = defaultdict(int)
    for messages in read(settings, SESSION_STATE).values():
        positions = [m for m in messages if m.key() == b"!"]
        if positions:
            for name, count in orjson.loads(positions[-1].value() or b"{}")["counts"].items():
                totals[name] += count
    return totals
