"""Who owns the partitions is asked again where a new cluster has no coordinator for the group yet."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.kafka import consumer_lag
from hmx_pipeline.kafka.consumer_lag import owners
from hmx_pipeline.settings import Settings


def test_a_cluster_that_makes_its_coordinator_first_has_no_owners(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def describe(groups: list[str], **_: Any) -> Any:
        asked.extend(groups)

        def result() -> Any:
            if len(asked) == 1:
                raise KafkaException(KafkaError(KafkaError.NOT_COORDINATOR))
            return SimpleNamespace(members=[])

        return {groups[0]: SimpleNamespace(result=result)}

    monkeypatch.setattr(consumer_lag, "connect", lambda _: SimpleNamespace(describe_consumer_groups=describe))
    assert owners(Settings(kafka_bootstrap="127.0.0.1:1")) == {}
    assert asked == ["hmx", "hmx"]
