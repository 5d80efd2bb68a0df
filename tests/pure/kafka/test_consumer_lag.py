"""Who owns the partitions is asked again where a new cluster has no coordinator for the group yet."""

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.audit import restore
from hmx_pipeline.audit.backup import BackupError
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


@pytest.mark.parametrize("partitions", [None, []], ids=["joining", "without partitions"])
def test_a_worker_that_owns_nothing_yet_stops_a_restore(
    monkeypatch: pytest.MonkeyPatch, partitions: list[Any] | None
) -> None:
    """While a group rebalances, its members own no partition."""
    assignment = None if partitions is None else SimpleNamespace(topic_partitions=partitions)
    member = SimpleNamespace(group_instance_id="worker-1", client_id="", host="", assignment=assignment)
    group = SimpleNamespace(result=lambda: SimpleNamespace(members=[member]))
    admin = SimpleNamespace(describe_consumer_groups=lambda groups, **_: {groups[0]: group})
    monkeypatch.setattr(consumer_lag, "connect", lambda _: admin)
    monkeypatch.setattr(restore, "GONE_S", 0.01)
    settings = Settings(kafka_bootstrap="127.0.0.1:1", session_timeout_ms=1)
    assert owners(settings) == {}
    with pytest.raises(BackupError, match="worker-1"):
        restore._await_no_worker(settings)
