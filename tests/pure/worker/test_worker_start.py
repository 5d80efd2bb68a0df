"""A worker that starts while Kafka, or only its controller, is away waits for it."""

from typing import Any

import pytest

from hmx_pipeline.kafka.topic_files import KafkaUnreachableError
from hmx_pipeline.settings import Settings
from hmx_pipeline.worker import main


def test_a_controller_that_is_gone_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    away: list[float] = []
    started: Any = object()

    def create(*_: object) -> Any:
        if len(away) < 3:
            raise KafkaUnreachableError("Kafka does not answer: Local: Timed out")
        return started

    monkeypatch.setattr(main, "check_events_topic", lambda *_, **__: None)
    monkeypatch.setattr(main, "create_runner", create)
    monkeypatch.setattr(main.time, "sleep", away.append)
    nothing: Any = None
    assert main._wait_for_kafka(Settings(kafka_bootstrap="127.0.0.1:1"), nothing, nothing) is started
    assert away == list(main.RETRY_S[:3])
