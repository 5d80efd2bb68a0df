"""Records that are no events, on the real broker: each has its own reason, none is lost, and the stream goes on.

Valid events stand between them in the same sessions and arrive in order.
"""

from collections import Counter
from collections.abc import Iterator

import orjson
import pytest
from confluent_kafka import Message

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.episode import event_fields
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.limits import EVENT_BYTES, RECORD_BYTES
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ
from tests.support.bad_input import AT_LIMIT, BAD, padded
from tests.support.pipeline import new_settings, running
from tests.support.records import event
from tests.support.topics import counts, episodes_by_session, headers_of, read, values
from tests.support.waiting import until

FORGED: tuple[str, str | bytes | None] = (names.REROUTED_FROM, b"0:0:" + b"0" * 64)
VALID = 15
SESSION = "between"


CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def headers_for(name: str) -> list[tuple[str, str | bytes | None]]:
    return [("mine", name.encode()), (names.ORIGIN_OFFSET, b"forged")]


@pytest.fixture(scope="module")
def settled(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Good and bad records in turn, in one partition, by producers of every codec."""
    settings = new_settings(kafka)
    topic = settings.topic_prefix + EVENTS
    with running(settings, tmp_path_factory.mktemp("logs"), "worker"):
        cluster = Cluster(kafka)
        partitions = cluster.topic(topic).partitions
        cluster.close()
        place = partition_of(session_key("acme", SESSION), partitions)
        elsewhere = (partition_of(session_key("acme", "bad"), partitions) + 1) % partitions
        for round_, codec in enumerate(CODECS):
            producer = plain_producer(kafka, **{"compression.type": codec, "message.max.bytes": 2 * EVENT_BYTES})
            for name, bad in list(BAD.items())[round_ :: len(CODECS)]:
                producer.produce(topic, bad.value, name.encode(), place, headers=headers_for(name))
            for sequence in range(VALID)[round_ * VALID // len(CODECS) : (round_ + 1) * VALID // len(CODECS)]:
                producer.produce(topic, orjson.dumps(event(SESSION, sequence)), b"any key", place)
            producer.flush()
        producer.produce(topic, orjson.dumps(event("bad")), b"astray", elsewhere, headers=headers_for("astray"))
        producer.produce(topic, orjson.dumps(event("bad", 1)), b"forged", elsewhere, headers=[FORGED])
        producer.flush()
        wait_for_stages(settings)
        yield settings


@pytest.fixture(scope="module")
def letters(settled: Settings) -> dict[bytes | None, Message]:
    return {m.key(): m for messages in read(settled, EVENTS_DLQ).values() for m in messages}


@pytest.fixture(scope="module")
def originals(settled: Settings) -> dict[tuple[int, int | None], Message]:
    return {(where, m.offset()): m for where, messages in read(settled, EVENTS).items() for m in messages}


@pytest.mark.requirement("E-01", "E-02", "E-06", "E-07", "E-09", "E-10", "E-11", "E-23", "E-33", "V-02", "Y15", "Y16")
@pytest.mark.parametrize("name", BAD)
def test_it_has_a_dead_letter_that_says_why_and_keeps_all_of_it(
    letters: dict[bytes, Message], originals: dict[tuple[int, int], Message], name: str
) -> None:
    bad, letter = BAD[name], letters[name.encode()]
    assert letter.value() == bad.value
    said = headers_of(letter)
    assert said[:2] == headers_for(name)
    assert (header(said, names.REASON), header(said, names.PATH)) == (bad.reason.encode(), bad.path.encode())
    assert header(said, names.STEP) in (b"decode", b"validate")
    assert header(said, names.DETAIL)
    assert header(said, names.ORIGIN_TOPIC) == EVENTS.encode()
    original = originals[letter.partition() or 0, int(header(said, names.ORIGIN_OFFSET) or -1)]
    assert (original.key(), original.value()) == (name.encode(), bad.value)
    assert int(header(said, names.LOG_TIME) or 0) == original.timestamp()[1]


def test_a_record_in_the_wrong_partition_arrives_all_the_same(settled: Settings, letters: dict[bytes, Message]) -> None:
    assert b"astray" not in letters
    assert episodes_by_session(settled)["bad"] == ["bad-0"]
    assert counts(settled)["rerouted"] == 1


def test_who_forges_the_mark_of_a_rerouted_copy_is_told_so(letters: dict[bytes, Message]) -> None:
    said = headers_of(letters[b"forged"])
    assert said[0] == FORGED
    assert (header(said, names.REASON), header(said, names.STEP)) == (b"forged_origin", b"route")


def test_the_valid_neighbours_arrive_in_order_and_everything_is_counted_and_conserved(settled: Settings) -> None:
    assert episodes_by_session(settled)[SESSION] == [f"{SESSION}-{n}" for n in range(VALID)]
    report = verify(settled)
    assert report.conserved, report.faults
    reasons = Counter(bad.reason for bad in BAD.values())
    counted = counts(settled)
    assert {reason: counted[f"rejected.{reason}"] for reason in reasons} == reasons
    assert counted["rejected"] == len(BAD) + 1  # and the forged one
    assert counted["released"] == VALID + 1


@pytest.mark.requirement("E-07", "E-10", "E-33", "X30", "Y02")
def test_exactly_at_each_limit_an_event_passes_and_in_silence_a_gap_is_left_by_ticks(settled: Settings) -> None:
    producer = plain_producer(settled.kafka_bootstrap, **{"message.max.bytes": 2 * EVENT_BYTES})
    topic = settled.topic_prefix + EVENTS
    for name, value in AT_LIMIT.items():
        producer.produce(topic, value, session_key("acme", name).encode())
    producer.produce(topic, orjson.dumps(event("gap", 3)), session_key("acme", "gap").encode())
    producer.flush()
    expected = {name: [orjson.loads(value)["event_id"]] for name, value in AT_LIMIT.items()} | {"gap": ["gap-3"]}
    until(lambda: expected.items() <= episodes_by_session(settled).items(), "all of them are released")
    assert counts(settled)["control"] > 0
    sent = {name: orjson.loads(value) for name, value in AT_LIMIT.items()}
    episodes = {episode["sessionId"]: episode for episode in values(settled, EPISODES)}
    assert {name: event_fields(episodes[name]) for name in sent} == sent


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_of_what_only_compression_brings_past_the_topics_limit_the_letter_says_where_it_stands(
    settled: Settings, codec: str
) -> None:
    before = len(letters_of_omitted(settled))
    value = padded(5 * RECORD_BYTES)
    producer = plain_producer(
        settled.kafka_bootstrap, **{"compression.type": codec, "message.max.bytes": 2 * len(value)}
    )
    producer.produce(settled.topic_prefix + EVENTS, value, b"bomb", headers=headers_for("bomb"))
    assert producer.flush(20) == 0
    wait_for_stages(settled)
    letter = letters_of_omitted(settled)[before]
    said = headers_of(letter)
    assert (letter.key(), letter.value(), header(said, names.REASON)) == (None, None, b"too_large")
    assert int(header(said, names.OMITTED) or 0) > len(value)
    assert header(said, names.ORIGIN_OFFSET) != b"forged"
    report = verify(settled)
    assert report.conserved, report.violations


def letters_of_omitted(settings: Settings) -> list[Message]:
    found = [m for messages in read(settings, EVENTS_DLQ).values() for m in messages]
    return [m for m in found if header(headers_of(m), names.OMITTED) is not None]
