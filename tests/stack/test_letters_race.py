"""Dead letters sent back by two at the same time, on a real Kafka: each goes back once."""

import threading
from collections import Counter
from typing import Any

import orjson
import pytest

from hmx_pipeline.audit import dead_letter_replay
from hmx_pipeline.audit.dead_letter_replay import TAKEN_OVER, ReplaySummary, send_back
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.queries.dead_letter_policy import LetterFilter
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ
from tests.support.pipeline import create_topics, new_settings
from tests.support.records import event
from tests.support.topics import headers_of, read
from tests.support.waiting import PATIENCE_S

LETTERS = 30


@pytest.fixture
def settings(kafka: str) -> Settings:
    made = new_settings(kafka)
    create_topics(made, partitions=2)
    producer = plain_producer(kafka)
    for n in range(LETTERS):
        value, headers = orjson.dumps(event("s", n)), [(names.REASON, Reason.WRONG_PARTITION.encode())]
        producer.produce(made.topic_prefix + EVENTS_DLQ, value, f"acme/s{n}", n % 2, headers=headers)
    producer.flush()
    return made


def sent_back(settings: Settings) -> Counter[str]:
    """The dead letters that stand in the events topic."""
    found = [message for messages in read(settings, EVENTS).values() for message in messages]
    return Counter(str(header(headers_of(message), names.ORIGIN_OFFSET)) for message in found)


@pytest.mark.parametrize("at_once", [4, 1_000])
def test_of_two_who_send_back_at_once_the_later_takes_over_and_nothing_goes_twice(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    """The first has looked what was sent before, and is held up until the second is done."""
    looked, go_on, ours = threading.Event(), threading.Event(), dead_letter_replay._before
    found: list[ReplaySummary] = []

    def held_up(*asked: Any) -> Any:
        before = ours(*asked)
        if threading.current_thread() is first:
            looked.set()
            assert go_on.wait(PATIENCE_S)
        return before

    monkeypatch.setattr(dead_letter_replay, "_before", held_up)
    monkeypatch.setattr(dead_letter_replay, "AT_ONCE", at_once, raising=False)
    first = threading.Thread(target=lambda: found.append(send_back(settings, LetterFilter(), apply=True)))
    first.start()
    assert looked.wait(PATIENCE_S)
    second = send_back(settings, LetterFilter(), apply=True)
    go_on.set()
    first.join(PATIENCE_S)
    assert set(sent_back(settings).values()) == {2}, "one of each partition of the dead letters"
    assert second.as_json()["sent"] == LETTERS
    assert found[0].as_json()["sent"] == 0
    assert list(found[0].failed) == [TAKEN_OVER]
    assert send_back(settings, LetterFilter(), apply=True).as_json()["sent"] == 0
