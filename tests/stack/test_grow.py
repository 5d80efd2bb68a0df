"""`hmx topics grow` on a real broker: a generation with more partitions has the same memory, nothing lost or doubled,
whatever interrupts the copy and whoever goes on sending."""

import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from click.testing import Result
from confluent_kafka import Producer

from hmx_pipeline.audit import grow as growth
from hmx_pipeline.audit.replay_artifacts import PatternName, current_artifacts
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.contracts.options import HOLDS
from hmx_pipeline.contracts.retention import DAY_MS
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.publisher import key_of, publish
from hmx_pipeline.kafka.topic_files import UnfitTopicError, check_events_topic, connect, read_cluster
from hmx_pipeline.queries.rejected_records import row_of
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS, KNOWLEDGE
from tests.stack.test_archive import delete_heads
from tests.stack.test_erase import CANARY, MINE, OTHERS, in_redis, session
from tests.support.memory import Memory
from tests.support.own_command import hmx
from tests.support.pipeline import Pipeline, create_topics, environment, new_settings, running
from tests.support.records import START_MS, event
from tests.support.sessions import interleaved
from tests.support.sessions import session as mined
from tests.support.topics import counts, read, values

KILLED = """
import os, signal
from confluent_kafka import Producer
from hmx_pipeline.audit import grow
grow.AT_ONCE = 20
commits = 0
class Dying(Producer):
    def commit_transaction(self, *given):
        global commits
        commits += 1
        if commits == {at}:
            {first}
            self.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().commit_transaction(*given)
grow.Producer = Dying
from hmx_pipeline.cli.app import main
main()
"""
LATER = session("later", "cy", "The queue is called blue.", "Never empty the queue.", at=90_000)
AFTER = session("after", "cy", "The archive is called green.", at=95_000)


def grown(settings: Settings) -> Settings:
    """Of the new generation, on ports of its own."""
    ports = {
        f"{name}_port": getattr(new_settings(""), f"{name}_port") for name in ("service", "worker", "materialiser")
    }
    return replace(settings, topic_prefix=f"{settings.topic_prefix}g2.", **ports)


def grow(settings: Settings, *options: str, partitions: int = 4) -> Result:
    to = grown(settings).topic_prefix
    return hmx(settings, "topics", "grow", "--partitions", partitions, "--to", to, *options)


def killed(settings: Settings, at: int, first: str) -> None:
    """A copy that dies at this commit, after doing something `first`."""
    words = ["topics", "grow", "--partitions", "4", "--to", grown(settings).topic_prefix, "--yes"]
    program = [sys.executable, "-c", KILLED.format(at=at, first=first), *words]
    died = subprocess.run(program, env=environment(settings), capture_output=True, timeout=120, check=False)
    assert died.returncode == -9, died.stderr


def released(settings: Settings, *, at: bool = True) -> dict[tuple[str, str], list[tuple[str, int, bool]]]:
    """Session → its released events in order: id, append time unless it is no matter, and whether it was late."""
    found = defaultdict(list)
    for episode in values(settings, EPISODES):
        own = episode["metadata"]["hmx"]
        one = (episode["id"], own["origin"]["log_time"] if at else 0, own["release"]["late"])
        found[own["tenant_id"], episode["sessionId"]].append(one)
    return found


def astray(settings: Settings, lines: Sequence[bytes]) -> None:
    """As a producer with a partitioner of its own sends them."""
    with closing(plain_producer(settings.kafka_bootstrap)) as producer:
        for line in lines:
            key = key_of(line) or b""
            wrong = 1 - partition_of(key.decode(), 2)
            producer.produce(settings.topic_prefix + EVENTS, line, key, wrong)
        assert producer.flush(20) == 0


def outcomes(settings: Settings) -> Counter[str]:
    """But for the control records and the rerouted: a record that was copied twice is a duplicate."""
    kinds = ("rejected", "duplicate", "released")
    return Counter({name: count for name, count in counts(settings).items() if name.startswith(kinds)})


def current(settings: Settings) -> dict[PatternName, bytes]:
    """Of each pattern its artifact: content, confidence, status, sources and counts."""
    messages = [message for found in read(settings, ARTIFACTS).values() for message in found]
    return {name: found.digest for name, found in current_artifacts(map(row_of, messages)).items()}


def known(settings: Settings) -> dict[bytes | str | None, bytes | str | None]:
    """All that holds, as bytes."""
    latest = {message.key(): message.value() for found in read(settings, KNOWLEDGE).values() for message in found}
    return {key: value for key, value in latest.items() if value and orjson.loads(value)["status"] in HOLDS}


@pytest.fixture
def pipeline(kafka: str, redis_url: str, tmp_path: Path) -> Iterator[Pipeline]:
    made = new_settings(kafka, redis_url, window_ms=500)
    with running(made, tmp_path, "worker", "materialiser", partitions=2) as started:
        yield started


def fill(settings: Settings) -> None:
    """Everything that may become of a record, and every kind of operator's record."""
    sessions = [mined(number, tenant) for number in range(8) for tenant in ("acme", "globex")]
    mixed = [orjson.dumps(item) for item in interleaved(sessions, 3)]
    gap = [orjson.dumps(event("gap", n, at=START_MS + n)) for n in (0, 2)]
    assert publish([*MINE, *OTHERS, *mixed, mixed[0], b"no JSON", *gap], settings).complete
    lift = session("astray", "dan", "The lift is called red.", "Never block the lift.", at=50_000)
    astray(settings, [*lift, b"x" * (3 * MB)])
    wait_for_all(settings)
    active = [each for each in values(settings, ARTIFACTS) if each["status"] == "active"]
    artifact = next(each["artifact_id"] for each in active if each["tenant_id"] == "globex")
    rule = next(each["record_id"] for each in values(settings, KNOWLEDGE) if "Friday" in str(each))
    for words in (
        ("knowledge", "confirm", rule, "--tenant", "acme"),
        ("archive", artifact, "--tenant", "globex"),
        ("erase", "--tenant", "acme", "--subject", "ada"),
        ("tenant", "set", "globex", "sharing=team"),
        ("tenant", "set", "globex", "retention=all:3650d"),
    ):
        done = hmx(settings, *words)
        assert done.exit_code == 0, (words, done.output)
    assert publish(MINE[:1], settings).complete  # of the erased past
    wait_for_all(settings)


@pytest.mark.requirement("Y23")
def test_a_grown_generation_has_the_same_memory(pipeline: Pipeline, tmp_path: Path) -> None:
    settings = pipeline.settings
    fill(settings)
    new = grown(settings)
    shown = grow(settings, "--json")
    assert shown.exit_code == 0, shown.output
    assert json.loads(shown.stdout)["offsets"] > 100
    assert read_cluster(connect(settings.kafka_bootstrap), [new.topic_prefix + EVENTS]).topics == {}, "a dry run"

    killed(settings, 2, "")
    killed(settings, 3, "super().commit_transaction(*given)")
    with pytest.raises(UnfitTopicError):
        check_events_topic(connect(settings.kafka_bootstrap), new.topic_prefix)  # no worker begins too early
    done = grow(settings, "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["left_out"].keys() >= {"rerouted", "x-hmx-barrier"}
    before, log = current(settings), released(settings)
    assert before
    told = known(settings)
    assert len(told) > 3
    with running(new, tmp_path, "worker", "materialiser", partitions=4):
        wait_for_all(new)
        assert released(new) == log
        assert current(new) == before
        assert outcomes(new) + Counter(["rejected", "rejected.too_large"]) == outcomes(settings)
        assert known(new) == told
        asked = Memory(new.redis_url, new.topic_prefix).pack("May I deploy?", subject_id="bob")
        assert "Friday" in asked.to_json().decode()
        assert not in_redis(new, CANARY), "an erasure holds for what is folded again"

        assert publish(LATER, settings).complete  # whoever has not been told of the new generation
        wait_for_all(settings)
        assert "whole" in grow(settings, "--yes").output
        assert publish([*AFTER, *LATER], new).complete  # what came meanwhile is known: duplicates
        wait_for_all(new)
        found = released(new, at=False)
        assert len(found.pop(("acme", "after"))) == len(AFTER)
        assert found == released(settings, at=False)
        for each in (settings, new):
            verified = hmx(each, "verify")
            assert verified.exit_code == 0, verified.output


def test_a_copy_that_dies_before_its_first_commit_is_taken_up(pipeline: Pipeline) -> None:
    """Its records stand in the log, aborted, and nobody has noted how far it came."""
    settings = pipeline.settings
    told = [orjson.dumps(one) for number in range(8) for one in mined(number, "acme")]
    assert publish(told, settings).complete
    wait_for_all(settings)
    killed(settings, 1, "")
    log = grown(settings).topic_prefix + EVENTS
    assert not read_cluster(connect(settings.kafka_bootstrap), [log]).topics[log].empty
    done = grow(settings, "--yes", "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["copied"] == len(told)
    assert sum(map(len, read(grown(settings), EVENTS).values())) == len(told)


def test_what_old_workers_have_not_processed_is_told_and_of_two_copies_the_later_one_goes_on(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(Producer):
        """Another copy begins and ends before this one's first transaction."""

        def commit_transaction(self, *given: float) -> None:
            monkeypatch.setattr(growth, "Producer", Producer)
            assert json.loads(grow(settings, "--yes", "--json").stdout)["copied"] == len(LATER)
            super().commit_transaction(*given)

    settings = pipeline.settings
    assert publish(OTHERS, settings).complete
    wait_for_all(settings)
    pipeline.stop("worker")
    assert publish(LATER, settings).complete
    done = grow(settings, "--yes")
    assert done.exit_code == 2, done.output
    assert "run this again" in done.output
    pipeline.start("worker")
    wait_for_all(settings)
    monkeypatch.setattr(growth, "Producer", Late)
    done = grow(settings, "--yes")
    assert done.exit_code == 1, done.output
    assert "another copy has started" in done.output
    assert sum(map(len, read(grown(settings), EVENTS).values())) == len(OTHERS) + len(LATER)
    assert json.loads(grow(settings, "--yes", "--json").stdout)["copied"] == 0


def test_what_retention_would_take_before_workers_read_it_stays(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, log = pipeline.settings, grown(pipeline.settings).topic_prefix + EVENTS
    assert publish(OTHERS, settings).complete
    wait_for_all(settings)
    monkeypatch.setattr(growth, "SOON_MS", 40 * DAY_MS)
    done = grow(settings, "--yes")
    assert done.exit_code == 0, done.output
    assert f"retention of {log} is off" in " ".join(done.output.split())
    config = read_cluster(connect(settings.kafka_bootstrap), [log]).topics[log].config
    assert (config["retention.ms"], config["message.timestamp.type"]) == ("-1", "LogAppendTime")


def test_what_would_lose_or_double_is_refused(pipeline: Pipeline) -> None:
    settings = pipeline.settings
    assert publish(OTHERS, settings).complete
    wait_for_all(settings)
    assert "grow to a multiple, such as 4" in " ".join(grow(settings, "--yes", partitions=3).output.split())
    new = grown(settings)
    create_topics(new, 4)
    assert publish(LATER, new).complete
    assert "holds records" in " ".join(grow(settings, "--yes").output.split()), "of another copy, or sent too early"
    delete_heads(settings)
    other = hmx(settings, "topics", "grow", "--partitions", 4, "--to", f"{new.topic_prefix}y.", "--yes")
    assert other.exit_code == 1
    assert "retention has deleted" in other.output
