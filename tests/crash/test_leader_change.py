"""While a partition gets another leader, who asks for its watermarks waits, but not for ever."""

import uuid
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import NewPartitions, NewTopic

from hmx_pipeline.kafka import clients, topic_files
from hmx_pipeline.kafka.clients import Cluster, Watermarks
from hmx_pipeline.kafka.topic_files import KafkaUnreachableError, connect

UNSETTLED = {
    "not the leader": KafkaError.NOT_LEADER_FOR_PARTITION,
    "no leader": KafkaError.LEADER_NOT_AVAILABLE,
    "a leader that does not know its end yet": KafkaError.OFFSET_NOT_AVAILABLE,
    "not known yet": KafkaError.UNKNOWN_TOPIC_OR_PART,
}


class Reader:
    """Answers with these errors, one after the other, then with the watermarks."""

    def __init__(self, errors: Iterator[int]) -> None:
        self._errors = errors
        self.asked = 0

    def get_watermark_offsets(self, *_: Any, **__: Any) -> tuple[int, int]:
        self.asked += 1
        for code in self._errors:
            raise KafkaException(KafkaError(code))
        return 3, 14


def cluster_of(reader: Reader, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setattr(clients, "AdminClient", lambda _: None)
    monkeypatch.setattr(clients, "Consumer", lambda _: reader)
    return Cluster("broker:9092")


def test_watermarks_are_asked_for_again_while_leaders_change(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader(iter(UNSETTLED.values()))
    assert cluster_of(reader, monkeypatch).watermarks("topic", 0) == Watermarks(3, 14)
    assert reader.asked == len(UNSETTLED) + 1


@pytest.mark.parametrize("code", UNSETTLED.values(), ids=UNSETTLED)
def test_a_leader_that_never_comes_is_an_error(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(topic_files, "VISIBLE_S", 0.2)
    reader = Reader(iter(lambda: code, None))
    with pytest.raises(KafkaException) as raised:
        cluster_of(reader, monkeypatch).watermarks("topic", 0)
    assert raised.value.args[0].code() == code
    assert reader.asked > 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaException),
        (KafkaError._TRANSPORT, KafkaUnreachableError),
        (KafkaError._TIMED_OUT, KafkaUnreachableError),
    ],
)
def test_what_waiting_does_not_mend_is_raised_at_once(
    monkeypatch: pytest.MonkeyPatch, code: int, expected: type[Exception]
) -> None:
    reader = Reader(iter([code]))
    with pytest.raises(expected):
        cluster_of(reader, monkeypatch).watermarks("topic", 0)
    assert reader.asked == 1


def test_a_partition_that_was_missing_in_an_earlier_answer_is_found(kafka: str) -> None:
    """A broker that has just started may answer so."""
    topic = f"t{uuid.uuid4().hex[:8]}"
    admin = connect(kafka)
    admin.create_topics([NewTopic(topic, 1)])[topic].result()
    with closing(Cluster(kafka)) as cluster:
        assert cluster.watermarks(topic, 0) == Watermarks(0, 0)
        admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
        assert cluster.watermarks(topic, 1) == Watermarks(0, 0)
