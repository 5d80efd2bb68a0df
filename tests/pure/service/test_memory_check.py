"""Readiness asks Kafka anew after a client's error."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from hmx_pipeline.service import service_routes
from hmx_pipeline.service.service_routes import MemoryCheck
from hmx_pipeline.settings import Settings


class FencedLag:
    """A client that knows an old leader's epoch for as long as it lives, if it was made before the broker restarted."""

    made = 0
    closed = 0

    def __init__(self, *_: Any) -> None:
        FencedLag.made += 1
        self._old = FencedLag.made == 1

    def places(self, _: Any) -> list[Any]:
        if self._old:
            raise KafkaException(KafkaError(KafkaError.FENCED_LEADER_EPOCH))
        return []

    def behind(self, _: Any) -> dict[Any, Any]:
        return {}

    def close(self) -> None:
        FencedLag.closed += 1


class EmptyStore:
    def __init__(self) -> None:
        self.servers = [self]

    def positions(self) -> dict[str, int]:
        return {}


def test_a_client_that_knows_an_old_leader_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_routes, "ConsumerLag", FencedLag)
    monkeypatch.setattr(service_routes, "check_rights", lambda *_: None)
    store: Any = EmptyStore()
    check = MemoryCheck(Settings(kafka_bootstrap="kafka:9092", redis_url="redis://redis:6379"), store)
    assert "FENCED_LEADER_EPOCH" in (check.why_not() or "")
    assert FencedLag.closed == 1
    assert check.why_not() is None
    check.close()
    assert (FencedLag.made, FencedLag.closed) == (2, 2)
