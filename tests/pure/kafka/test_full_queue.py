"""A client whose queue is full is waited for; nothing is lost for that."""

from typing import Any

import pytest

from hmx_pipeline.kafka import clients, control_producer
from hmx_pipeline.settings import Settings


class Crowded:
    """A client that holds two records until it is polled."""

    def __init__(self) -> None:
        self.waiting = 0
        self.sent: list[bytes] = []

    def produce(self, topic: str, value: bytes, *_: Any, **__: Any) -> None:
        if self.waiting == 2:
            raise BufferError
        self.waiting += 1
        self.sent.append(value)

    def poll(self, _: float) -> int:
        self.waiting = 0
        return 0

    def flush(self, seconds: float) -> int:
        return self.poll(seconds)

    def close(self) -> None:
        pass


def test_more_control_records_than_a_client_holds_are_appended_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    crowded = Crowded()
    monkeypatch.setattr(clients, "plain_producer", lambda *_, **__: crowded)
    values = [(0, b'{"n": %d}' % n) for n in range(7)]
    settings = Settings(kafka_bootstrap="127.0.0.1:9", control_key="key")
    control_producer.append_control(settings, "import", values)
    assert crowded.sent == [value for _, value in values]
