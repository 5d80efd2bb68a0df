"""Reading stretches of topics on a real Kafka: by a few consumers, whoever they read for, each stretch whole."""

import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException

from hmx_pipeline.kafka import range_reader
from hmx_pipeline.kafka.consumer_lag import Place
from hmx_pipeline.kafka.range_reader import PassingRecord, RangeReader, Wanted
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES
from tests.support.pipeline import create_topics, new_settings
from tests.support.topics import read
from tests.support.writing import Topics

PARTITIONS = 3


@pytest.fixture(scope="module")
def settings(kafka: str) -> Settings:
    made = new_settings(kafka)
    create_topics(made, partitions=PARTITIONS)
    topics = Topics(made, PARTITIONS)
    for n in range(8):
        topics.events(60, commit=n % 3 != 1)  # what is aborted leaves holes
    return made


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many consumers are made, for portions of a few records, and how often one is moved."""
    made: Counter[str] = Counter()

    class Counted(Consumer):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made["consumers"] += 1

        def assign(self, *given: Any) -> None:
            super().assign(*given)
            made["moved"] += 1

    monkeypatch.setattr(range_reader, "Consumer", Counted)
    monkeypatch.setattr(range_reader, "SCANNED", 7)
    monkeypatch.setattr(range_reader, "CONSUMERS", 2)
    return made


def is_wanted(key: bytes) -> bool:
    return key.endswith(b"1")


def everything(_: bytes) -> bool:
    return True


def stretch(
    ours: RangeReader, place: Place, begin: int, end: int, wanted: Wanted = is_wanted
) -> Iterator[PassingRecord]:
    while begin < end:
        portion = ours.portion(place, begin, end, wanted)
        assert begin < portion.position <= end
        begin = portion.position
        yield from portion.records


def test_many_who_read_at_once_share_a_few_consumers_and_each_gets_its_own_stretch(
    settings: Settings, asked: Counter[str]
) -> None:
    dice, ours = random.Random(3), RangeReader(settings.kafka_bootstrap, settings.topic_prefix)
    held = {number: messages for number, messages in read(settings, EPISODES).items() if messages}
    wanted: list[tuple[int, int, int]] = []
    for _ in range(40):
        number = dice.choice(sorted(held))
        end = dice.randrange(1, (held[number][-1].offset() or 0) + 2)
        wanted.append((number, dice.randrange(end), end))

    def reading(each: tuple[int, int, int]) -> list[int]:
        number, begin, end = each
        return [record.offset for record in stretch(ours, (EPISODES, number), begin, end)]

    with ThreadPoolExecutor(20) as pool:
        found = list(pool.map(reading, wanted))
    ours.close()
    for (number, begin, end), offsets in zip(wanted, found, strict=True):
        own = [message.offset() or 0 for message in held[number] if is_wanted(message.key() or b"")]
        assert offsets == [offset for offset in own if begin <= offset < end]
    assert asked["consumers"] == 2


def test_consumers_that_cannot_be_made_are_made_later(
    settings: Settings, asked: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any) -> None:
        raise KafkaException("too many open files")

    ours = RangeReader(settings.kafka_bootstrap, settings.topic_prefix)
    with monkeypatch.context() as patch:
        patch.setattr(range_reader, "Consumer", none_left)
        for _ in range(range_reader.CONSUMERS):
            with pytest.raises(KafkaException):
                ours.portion((EPISODES, 0), 0, 1, is_wanted)
    number, messages = max(read(settings, EPISODES).items(), key=lambda item: len(item[1]))
    end = (messages[-1].offset() or 0) + 1
    found = [record.offset for record in stretch(ours, (EPISODES, number), 0, end, everything)]
    ours.close()
    assert found == [message.offset() for message in messages]
    assert asked["consumers"] == 1


def test_who_goes_on_where_a_portion_ended_moves_no_consumer(settings: Settings, asked: Counter[str]) -> None:
    ours = RangeReader(settings.kafka_bootstrap, settings.topic_prefix)
    number, messages = max(read(settings, EPISODES).items(), key=lambda item: len(item[1]))
    end = messages[-1].offset() or 0
    one, other = (stretch(ours, (EPISODES, number), begin, end, everything) for begin in (0, 1))
    assert list(zip(one, other, strict=False)), "they take turns"
    ours.close()
    assert asked == {"consumers": 2, "moved": 2}
