"""Whether Kafka answers: said with its reason, counted by process, asked again only after a while."""

from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer

from hmx_pipeline.kafka import answering
from hmx_pipeline.kafka.answering import KEPT_S, KafkaAnswers
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.kafka_profile import KafkaProfile
from hmx_pipeline.observe.metrics import METRICS


class AskedKafka:
    """Answers with what `says` holds; an error code is raised."""

    def __init__(self) -> None:
        self.asked = 0
        self.says: Any = topic(1, 2)

    def list_topics(self, name: str, timeout: float) -> Any:
        self.asked += 1
        if isinstance(self.says, int):
            raise KafkaException(KafkaError(self.says))
        return SimpleNamespace(topics={name: self.says})


def topic(*leaders: int, error: KafkaError | None = None) -> Any:
    return SimpleNamespace(error=error, partitions={n: SimpleNamespace(leader=at) for n, at in enumerate(leaders)})


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = SimpleNamespace(now=1_000.0)
    monkeypatch.setattr(answering, "time", SimpleNamespace(monotonic=lambda: made.now))
    return made


def gauge() -> float:
    return float(METRICS.kafka_answers.labels("of-test")._value.get())


def test_an_outage_is_told_and_counted_until_it_is_over(clock: Any) -> None:
    kafka: Any = AskedKafka()
    answers = KafkaAnswers(lambda: kafka, "events", "of-test")
    assert (answers.why_not(), gauge()) == (None, 1)
    kafka.says = KafkaError._TRANSPORT
    assert answers.why_not() is None
    assert kafka.asked == 1
    clock.now += KEPT_S
    assert (answers.why_not() or "").startswith("Kafka does not answer: ")
    assert gauge() == 0
    kafka.says = topic(1)
    clock.now += KEPT_S
    assert (answers.why_not(), gauge()) == (None, 1)


def test_a_topic_that_is_gone_or_has_no_leader_is_named(clock: Any) -> None:
    kafka: Any = AskedKafka()
    kafka.says = topic(1, -1, 2, -1)
    assert KafkaAnswers(lambda: kafka, "events", "of-test").why_not() == (
        "topic events has no leader for the partitions [1, 3]"
    )
    kafka.says = topic(error=KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART))
    assert "topic events: " in (KafkaAnswers(lambda: kafka, "events", "of-test").why_not() or "")
    kafka.says = topic(error=KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))
    assert "hmx acls" in (KafkaAnswers(lambda: kafka, "events", "of-test").why_not() or "")
    assert gauge() == 0


@pytest.mark.parametrize("client", [connect, plain_producer])
def test_asking_for_a_topic_does_not_create_it(client: Callable[[KafkaProfile], Any]) -> None:
    """Kafka's default `auto.create.topics.enable=true` lets a producer's question create it; librdkafka's own mock of a
    broker does the same."""
    broker = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (address,) = (f"{each.host}:{each.port}" for each in broker.list_topics(timeout=10).brokers.values())
    kafka = KafkaProfile(address)
    asking = client(kafka)
    assert "topic lost: " in (KafkaAnswers(lambda: asking, "lost", "of-test").why_not() or "")
    with closing(Cluster(kafka)) as cluster:
        assert "topic lost: " in (cluster.answers("lost", "of-test").why_not() or "")
    assert "lost" not in broker.list_topics(timeout=10).topics
