"""`hmx replay` on a real broker: the same again from the same log, and what is otherwise is named."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import orjson
import pytest
from click.testing import Result
from confluent_kafka import TopicPartition

from hmx_pipeline.audit.replay import replay
from hmx_pipeline.audit.replay_streams import StreamDifference
from hmx_pipeline.compiler import confidence
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.kafka.clients import Cluster, plain_producer
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, EVENTS_DLQ
from tests.support.events import event
from tests.support.own_command import hmx
from tests.support.pipeline import create_topics, new_settings, running
from tests.support.sessions import interleaved, session
from tests.support.topics import headers_of, read

PARTITIONS = 2
CLOSED = "127.0.0.1:1"
Command = Callable[..., Result]


def lines(numbers: range) -> list[bytes]:
    """Sessions that something is learnt from, and one of everything that may become of a record."""
    sessions = [session(number, tenant) for number in numbers for tenant in ("acme", "globex", "initech")]
    mixed = [orjson.dumps(item) for item in interleaved(sessions, 3)]
    name = f"gap-{numbers.start}"
    behind_a_gap = [event(session_id=name, event_id=f"{name}-{n}", sequence=n) for n in (0, 2)]
    return [*mixed, mixed[0], b"no JSON", *(orjson.dumps(item) for item in behind_a_gap)]


@pytest.fixture(scope="module")
def pipeline(kafka: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """A worker at work; the tests add to the log and leave the outputs as they are, but for the last."""
    settings = new_settings(kafka, window_ms=500)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker", partitions=PARTITIONS):
        assert publish(lines(range(8)), settings).complete
        wait_for_stages(settings)
        yield settings


def replayed(settings: Settings, *arguments: str) -> Result:
    return hmx(settings, "replay", "--from-start", *arguments)


def topics_of(settings: Settings) -> list[str]:
    known = connect(settings.kafka_bootstrap).list_topics().topics
    return sorted(name for name in known if name.startswith(settings.topic_prefix))


def ends_of(settings: Settings, topic: str) -> list[int]:
    name = settings.topic_prefix + topic
    with closing(Cluster(settings.kafka_bootstrap)) as cluster:
        return [cluster.watermarks(name, partition).high for partition in range(PARTITIONS)]


def count(settings: Settings, topic: str) -> int:
    return sum(len(messages) for messages in read(settings, topic).values())


@pytest.mark.requirement("K-04")
def test_a_replay_makes_the_same_and_leaves_nothing_behind(pipeline: Settings) -> None:
    topics, log = topics_of(pipeline), ends_of(pipeline, EVENTS)
    done = replayed(pipeline, "--compare", "--json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert (found["identical"], found["compared"], found["notes"]) == (True, True, [])
    for topic in (EPISODES, EVENTS_DLQ, ARTIFACTS):
        same = sum(stream["same"] for stream in found["streams"] if stream["topic"] == topic)
        assert same == count(pipeline, topic) > 0
    assert found["artifacts"]["same"] > 0
    assert topics_of(pipeline) == topics
    assert ends_of(pipeline, EVENTS) == log


@pytest.mark.requirement("K-04")
def test_while_the_worker_goes_on_what_it_had_done_is_compared(pipeline: Settings) -> None:
    assert publish(lines(range(8, 30)), pipeline).complete
    found = replay(pipeline)
    assert found.identical, [stream.examples for stream in found.streams]
    wait_for_stages(pipeline)


def test_a_new_version_is_shown_artifact_by_artifact(pipeline: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confidence, "Z", 2.0)
    shown = replayed(pipeline, "--compare")
    assert shown.exit_code == 1
    assert "differs" in shown.stdout
    assert "changed" in shown.stdout
    assert "$.confidence: " in shown.stdout


def test_without_comparing_the_shadow_topics_stay(pipeline: Settings) -> None:
    before = topics_of(pipeline)
    done = replayed(pipeline, "--json")
    assert done.exit_code == 0, done.output
    kept = sorted(set(topics_of(pipeline)) - set(before))
    shadow = json.loads(done.stdout)["shadow"]
    assert {name.removeprefix(shadow) for name in kept} > {EPISODES, ARTIFACTS}
    admin = connect(pipeline.kafka_bootstrap)
    for future in admin.delete_topics(kept).values():
        future.result()


def test_what_cannot_be_compared_is_said_and_no_success(kafka: str) -> None:
    away = replayed(new_settings(CLOSED), "--compare")
    assert (away.exit_code, "hmx up" in " ".join(away.stderr.split())) == (2, True)
    unread = new_settings(kafka)
    create_topics(unread, 1)
    nothing = replayed(unread, "--compare")
    assert (nothing.exit_code, "nothing to compare" in nothing.stdout) == (2, True)


def test_what_is_planted_into_the_outputs_is_named(pipeline: Settings) -> None:
    episode = read(pipeline, EPISODES)[0][0]
    artifact = next(m for m in reversed(read(pipeline, ARTIFACTS)[0]) if orjson.loads(m.value())["status"] == "active")
    forged = orjson.loads(artifact.value()) | {"content": {"forged": 1}, "content_hash": content_hash({"forged": 1})}
    producer = plain_producer(pipeline.kafka_bootstrap)
    for topic, message, value in (
        (EPISODES, episode, episode.value()),
        (ARTIFACTS, artifact, orjson.dumps(forged)),
    ):
        name = pipeline.topic_prefix + topic
        producer.produce(name, value, message.key(), message.partition(), headers=list(headers_of(message)))
    assert producer.flush(20) == 0
    done = replayed(pipeline, "--compare", "--json")
    assert done.exit_code == 1, done.output
    found = json.loads(done.stdout)
    differences = {s["topic"]: s["differences"] for s in found["streams"] if s["differences"]}
    assert differences == {EPISODES: {StreamDifference.EXTRA: 1}, ARTIFACTS: {StreamDifference.EXTRA: 1}}
    (change,) = found["artifacts"]["changes"]
    assert (change["change"], change["title"]) == ("changed", forged["title"])
    assert any(difference["path"].startswith("$.content") for difference in change["differences"])


@pytest.mark.slow
def test_where_the_logs_beginning_is_gone_what_began_later_is_compared(kafka: str, tmp_path: Path) -> None:
    settings = new_settings(kafka, window_ms=500)
    with running(settings, tmp_path, "worker", partitions=1):
        assert publish(lines(range(6)), settings).complete
        wait_for_stages(settings)
        cut = read(settings, EVENTS)[0][40].offset()
        assert publish(lines(range(6, 20)), settings).complete
        wait_for_stages(settings)
    where = TopicPartition(settings.topic_prefix + EVENTS, 0, cut)
    admin = connect(kafka)
    for future in admin.delete_records([where]).values():
        future.result()
    found = replay(settings)
    assert found.identical, [stream.examples for stream in found.streams]
    assert "sessions that began earlier are not compared" in found.notes[0]
    (episodes,) = (stream for stream in found.streams if stream.topic == EPISODES)
    assert episodes.same > 100
    assert found.set_aside > 0
