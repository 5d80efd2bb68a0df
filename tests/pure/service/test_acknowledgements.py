"""The producer of an idle service is left alone, and asked for acknowledgements as soon as one is due."""

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from hmx_pipeline.service import event_log
from hmx_pipeline.service.event_log import EventLog, EventRecord, LogPosition


class AcknowledgingProducer:
    """Acknowledges what it was given once it is asked."""

    def __init__(self) -> None:
        self.polls = 0
        self.asked = threading.Event()
        self._reports: list[Callable[..., None]] = []

    def __len__(self) -> int:
        return len(self._reports)

    def produce(self, *_: Any, on_delivery: Callable[..., None], **__: Any) -> None:
        self._reports.append(on_delivery)

    def poll(self, seconds: float) -> None:
        self.polls += 1
        self.asked.set()
        while self._reports:
            self._reports.pop()(None, SimpleNamespace(partition=lambda: 3, offset=lambda: 7))

    def flush(self, *_: float) -> None:
        pass

    close = flush


def test_an_idle_producer_is_left_alone_and_an_append_is_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    producer = AcknowledgingProducer()
    monkeypatch.setattr(event_log, "plain_producer", lambda *_, **__: producer)
    monkeypatch.setattr(event_log, "IDLE_S", 600.0)
    log = EventLog(SimpleNamespace(), "events")  # type: ignore[arg-type]
    assert producer.asked.wait(60)
    for _ in range(3):  # the thread waits again, whether it saw the last one early or late
        assert asyncio.run(log.append([EventRecord("k", b"v", [])])) == [LogPosition(3, 7)]
    assert producer.polls <= 1 + 3 * 2
    log.close()
    assert not log._thread.is_alive()
