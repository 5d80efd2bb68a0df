"""Records that are no events, on the real broker: each has its own reason, none is lost, and the stream goes on.

Valid events stand between them in the same sessions and arrive in order.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson
import pytest
from confluent_kafka import Message

from pipeline.audit.verify import verify
from pipeline.contracts import headers as names
from pipeline.contracts.headers import header
from pipeline.contracts.keys import partition_of, session_key
from pipeline.contracts.limits import EVENT_BYTES, WINDOW_MS
from pipeline.kafka.barriers import wait_for_stages
from pipeline.kafka.clients import Cluster, plain_producer
from pipeline.settings import Settings
from pipeline.topology import EVENTS, EVENTS_DLQ
from tests.support.pipeline import new_settings, running
from tests.support.records import event
from tests.support.topics import counts, episodes_by_session, headers_of, read

VALID = 12
SESSION = "between"


def without(field: str) -> bytes:
    return orjson.dumps({name: value for name, value in event("bad").items() if name != field})


def with_(**fields: Any) -> bytes:
    return orjson.dumps({**event("bad"), **fields})


def padded(size: int) -> bytes:
    """A valid event of exactly this many bytes; the padding is white space, which counts as received."""
    value = orjson.dumps(event("padded"))
    return value[:-1] + b" " * (size - len(value)) + b"}"


class Bad(NamedTuple):
    reason: str
    path: str
    value: bytes | None


BAD = {
    "null value": Bad("null_value", "$", None),
    "1 MB + 1 byte": Bad("too_large", "$", padded(EVENT_BYTES + 1)),
    "not UTF-8": Bad("not_utf8", "$", b'{"event_id": "\xff\xfe"}'),
    "not JSON": Bad("not_json", "$", b'{"event_id": '),
    "nothing": Bad("not_json", "$", b""),
    "no object": Bad("not_an_object", "$", b"[1, 2]"),
    "a field is missing": Bad("missing_field", "$.agent_id", without("agent_id")),
    "a field has another type": Bad("wrong_type", "$.content", with_(content=[])),
    "an empty id": Bad("empty_field", "$.event_id", with_(event_id="")),
    "an unknown field": Bad("unknown_field", "$.extra", with_(extra=1)),
    "no version": Bad("bad_version", "$.hmx_version", with_(hmx_version="HMX-1.0\n")),
    "another major": Bad("unsupported_version", "$.hmx_version", with_(hmx_version="HMX-2.0")),
    "a naive timestamp": Bad("bad_timestamp", "$.timestamp", with_(timestamp="2026-03-14T03:00:00")),
    "sequence -1": Bad("bad_sequence", "$.sequence", with_(sequence=-1)),
    "salience 1.01": Bad("bad_salience", "$.salience", with_(salience=1.01)),
    "no embeddings": Bad("bad_embeddings", "$.embeddings", with_(embeddings=[])),
    "65 tags": Bad("bad_tags", "$.tags", with_(tags=["t"] * 65)),
    "a negative ttl": Bad("bad_ttl", "$.ttl_seconds", with_(ttl_seconds=-1)),
    "our own tenant": Bad("reserved", "$.tenant_id", with_(tenant_id="_hmx")),
    "a forged barrier": Bad("reserved", "$.tenant_id", with_(tenant_id="_hmx", event_type="x-hmx-barrier")),
}
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
            for sequence in range(round_, VALID, len(CODECS)):
                producer.produce(topic, orjson.dumps(event(SESSION, sequence)), b"any key", place)
            producer.flush()
        producer.produce(topic, orjson.dumps(event("bad")), b"astray", elsewhere, headers=headers_for("astray"))
        producer.flush()
        wait_for_stages(settings)
        yield settings


def letters(settings: Settings) -> dict[bytes | None, Message]:
    return {m.key(): m for messages in read(settings, EVENTS_DLQ).values() for m in messages}


@pytest.mark.parametrize("name", BAD)
def test_it_has_a_dead_letter_that_says_why_and_keeps_all_of_it(settled: Settings, name: str) -> None:
    bad, letter = BAD[name], letters(settled)[name.encode()]
    assert letter.value() == bad.value
    said = headers_of(letter)
    assert said[:2] == headers_for(name)
    assert (header(said, names.REASON), header(said, names.PATH)) == (bad.reason.encode(), bad.path.encode())
    assert header(said, names.STEP) in (b"decode", b"validate")
    assert header(said, names.ORIGIN_TOPIC) == EVENTS.encode()
    origin = int(header(said, names.ORIGIN_OFFSET) or -1)
    original = {m.offset(): m for m in read(settled, EVENTS)[letter.partition() or 0]}[origin]
    assert original.key() == name.encode()
    assert int(header(said, names.LOG_TIME) or 0) == original.timestamp()[1]


def test_a_record_in_the_wrong_partition_arrives_all_the_same(settled: Settings) -> None:
    assert b"astray" not in letters(settled)
    assert episodes_by_session(settled)["bad"] == ["bad-0"]
    assert counts(settled)["rerouted"] == 1


def test_the_valid_neighbours_arrive_in_order_and_everything_is_counted_and_conserved(settled: Settings) -> None:
    assert episodes_by_session(settled)[SESSION] == [f"{SESSION}-{n}" for n in range(VALID)]
    report = verify(settled)
    assert report.conserved, report.faults
    reasons = Counter(bad.reason for bad in BAD.values())
    counted = counts(settled)
    assert {reason: counted[f"rejected.{reason}"] for reason in reasons} == reasons
    assert counted["rejected"] == len(BAD)
    assert counted["released"] == VALID + 1


def test_exactly_at_the_limit_an_event_passes_and_in_silence_a_gap_is_left_by_ticks(settled: Settings) -> None:
    producer = plain_producer(settled.kafka_bootstrap)
    topic = settled.topic_prefix + EVENTS
    producer.produce(topic, padded(EVENT_BYTES), session_key("acme", "padded").encode())
    producer.produce(topic, orjson.dumps(event("gap", 3)), session_key("acme", "gap").encode())
    producer.flush()
    await_release(settled, {"padded": ["padded-0"], "gap": ["gap-3"]}, seconds=WINDOW_MS / 1000 + 20)
    assert counts(settled)["control"] > 0


def await_release(settings: Settings, expected: dict[str, list[str]], seconds: float) -> None:
    import time

    deadline = time.monotonic() + seconds
    while not expected.items() <= episodes_by_session(settings).items():
        assert time.monotonic() < deadline, episodes_by_session(settings)
        time.sleep(0.3)
