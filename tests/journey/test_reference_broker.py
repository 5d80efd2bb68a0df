"""The sessions stage on the real broker against the reference: generated traffic, paced in real time.

Producers of every codec, with the right key, another or none, with partitioners that agree with ours and that don't,
while the worker is killed. What was really appended, in which order and when, is read back from the events topic; the
reference says what must have become of it, offset by offset, and in which order the episodes stand.
"""

import random
import time
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Message, Producer

from pipeline.audit.verify import verify
from pipeline.contracts.headers import REROUTED_FROM, header
from pipeline.contracts.keys import CONTROL_TENANT, partition_of
from pipeline.intake.control import authentic, rerouted_from
from pipeline.kafka.barriers import wait_for_stages
from pipeline.kafka.clients import Cluster, plain_producer
from pipeline.kafka.positions import stored_positions
from pipeline.settings import Settings
from pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ, SESSION_STATE, SESSIONS
from tests.support.observed import Observed, differences, totals
from tests.support.pipeline import Pipeline, new_settings, running
from tests.support.reference import Entry, Rules, predict
from tests.support.topics import counts, headers_of, read
from tests.support.traffic import Sent, traffic

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONERS = ("murmur2_random", "random")
FORGED = (REROUTED_FROM, b"0:0:0123456789abcdef")
ROWS = pytest.mark.requirement(
    "E-05", "E-08", "E-24", "E-25", "E-26", "E-28", "E-30", "X03", "X04", "X29", "Y01", "Y11", "Y12", "Y13", "Y14",
    "Y17",
)  # fmt: skip


@ROWS
def test_traffic_has_the_outcomes_and_the_order_of_the_specification(kafka: str, tmp_path: Path) -> None:
    settings = new_settings(kafka)
    sent = [record for record in traffic(1, 700, 8, long=2) if record.at < 15_000]
    check(settings, tmp_path, sent, kills=1)


@pytest.mark.slow
@ROWS
@pytest.mark.parametrize(("ordering", "sessions", "seconds"), [("eager", 15_000, 130), ("strict", 3_000, 30)])
def test_much_traffic_has_them_too(kafka: str, tmp_path: Path, ordering: str, sessions: int, seconds: int) -> None:
    settings = new_settings(kafka, ordering=ordering)
    sent = [record for record in traffic(2, sessions, seconds, long=20) if record.at < (seconds + 20) * 1_000]
    check(settings, tmp_path, sent, kills=2)


def check(settings: Settings, logs: Path, sent: Sequence[Sent], kills: int) -> None:
    started = time.monotonic()
    with running(settings, logs, "worker") as pipeline:
        publish(settings, pipeline, sent, kills)
        paced = time.monotonic() - started
        wait_for_stages(settings, timeout=240, on_progress=lambda _: alive(pipeline))
        settled = time.monotonic() - started
        assert pipeline.stop("worker") == 0
    outcomes = compare(settings, {record.value: record.reason for record in sent if record.event is None})
    assert {"released", "released_late", "duplicate", "rerouted", "control"} <= outcomes.keys()
    assert {"rejected.event_id_reused", "rejected.forged_origin", "rejected.reserved"} <= outcomes.keys()
    report = verify(settings)
    assert report.conserved, report.violations[:5]
    print(
        f"\n{len(sent)} events sent in {paced:.0f} s, settled after {settled:.0f} s, killed {kills} times: {outcomes}"
    )


def alive(pipeline: Pipeline) -> None:
    assert pipeline.processes["worker"].poll() is None, pipeline.log("worker")


def publish(settings: Settings, pipeline: Pipeline, sent: Sequence[Sent], kills: int) -> None:
    """Each record at its time; the worker is killed in between, and started again at once."""
    topic, dice = settings.topic_prefix + EVENTS, random.Random(5)
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        partitions = cluster.topic(topic).partitions
    producers = {
        (codec, partitioner): plain_producer(
            settings.kafka_bootstrap, **{"compression.type": codec, "partitioner": partitioner}
        )
        for codec, partitioner in product(CODECS, PARTITIONERS)
    }
    deadly = {len(sent) * (n + 1) // (kills + 1) for n in range(kills)}
    began = time.monotonic()
    for n, record in enumerate(sent):
        while (ahead := record.at / 1_000 - (time.monotonic() - began)) > 0:
            time.sleep(min(ahead, 0.02))
        if n in deadly:
            pipeline.kill("worker")
            pipeline.start("worker", ready=False)
        _send(producers, topic, record, partitions, dice)
    for producer in producers.values():
        assert producer.flush(60) == 0
        producer.close()


def _send(
    producers: Mapping[tuple[str, str], Producer], topic: str, record: Sent, partitions: int, dice: random.Random
) -> None:
    right = record.key if record.event is not None else f"bad/{record.at}"
    home = partition_of(right, partitions)
    wrong = (home + dice.randrange(1, partitions)) % partitions
    key, partition, partitioner = dice.choices(
        [
            (right, -1, "murmur2_random"),
            (None, home, "murmur2_random"),
            ("any", home, "murmur2_random"),
            ("any", wrong, "murmur2_random"),
            (right, -1, "random"),
            (None, -1, "murmur2_random"),
            ("any", -1, "murmur2_random"),
        ],
        [70, 10, 8, 4, 4, 2, 2],
    )[0]
    headers = [FORGED] if record.event is not None and dice.random() < 0.003 else []
    producer = producers[dice.choice(CODECS), partitioner]
    producer.produce(topic, record.value, key, partition, headers=list(headers))
    producer.poll(0)


def compare(settings: Settings, reasons: Mapping[bytes | None, str]) -> Counter[str]:
    """Outcome of every offset and order of the episodes of every partition; how often there was which outcome."""
    appended, episodes, letters = read(settings, EVENTS), read(settings, EPISODES), read(settings, EVENTS_DLQ)
    state = read(settings, SESSION_STATE)
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        positions = stored_positions(cluster, SESSIONS, settings.topic_prefix)
    copied = originals(appended)
    seen: Counter[str] = Counter()
    for partition, messages in appended.items():
        stored = positions[partition]
        assert stored is not None
        entries = [entry for m in messages if (entry := entry_of(settings, m, reasons)).offset < stored.position]
        observed = Observed()
        for episode in episodes[partition]:
            observed.episode(episode.value())
        for letter in letters[partition]:
            observed.dead_letter(headers_of(letter))
        observed.settle(entries, waiting(state[partition]), copied[partition])
        predicted = predict(entries, partition, Rules(len(appended), settings.ordering == "strict"))
        found = differences(predicted, observed, entries)
        assert not found, f"partition {partition}: {found[:5]}"
        seen += Counter(predicted.outcomes.values())
    expected = totals(seen.elements())
    assert {name: n for name, n in counts(settings).items() if name in expected} == expected
    return seen


def entry_of(settings: Settings, message: Message, reasons: Mapping[bytes | None, str]) -> Entry:
    offset, at, value = message.offset(), message.timestamp()[1], message.value()
    assert offset is not None
    headers = headers_of(message)
    if value in reasons:
        return Entry(offset, at, reason=reasons[value])
    event = orjson.loads(value or b"")
    if event["tenant_id"] == CONTROL_TENANT:
        assert authentic(settings.control_key, value or b"", headers)
        return Entry(offset, at, control=True)
    mark = header(headers, REROUTED_FROM)
    if mark == FORGED[1]:
        return Entry(offset, at, reason="forged_origin")
    return Entry(offset, at, event, copied=mark is not None)


def originals(appended: Mapping[int, Sequence[Message]]) -> dict[int, list[int]]:
    """Partition → offsets of what has a copy elsewhere, the same to the byte."""
    standing = {(partition, m.offset()): m for partition, messages in appended.items() for m in messages}
    found: dict[int, list[int]] = defaultdict(list)
    for message in standing.values():
        headers = headers_of(message)
        if header(headers, REROUTED_FROM) in (None, FORGED[1]):
            continue
        place = rerouted_from(headers)
        assert place is not None
        assert message.value() == standing[place].value()
        found[place[0]].append(place[1])
    return found


def waiting(state: Sequence[Message]) -> list[int]:
    """Offsets of what the stage's state holds back."""
    latest = {message.key(): message.value() for message in state}
    return [orjson.loads(value)["offset"] for key, value in latest.items() if value and key and key.startswith(b"w/")]
