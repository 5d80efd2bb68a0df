"""What happened, asked of a real broker: one record explained, dead letters by reason, and both topics followed."""

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.support.events import encoded, event
from tests.support.own_command import hmx
from tests.support.pipeline import PARTITIONS, Pipeline, create_topics, environment, new_settings, running

TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
def pipeline(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    settings = new_settings(kafka, redis_url, window_ms=2_000)
    with running(settings, tmp_path_factory.mktemp("logs"), "worker") as started:
        yield started


def appended(settings: Settings, value: bytes | None, partition: int, key: bytes | None = None) -> int:
    """The offset at which a record now stands."""
    producer, offsets = plain_producer(settings.kafka_bootstrap), []
    producer.produce(
        settings.topic_prefix + EVENTS,
        value,
        key,
        partition,
        on_delivery=lambda _, message: offsets.append(message.offset()),
    )
    assert producer.flush(20) == 0
    producer.close()
    return int(offsets[0])


def misplaced(settings: Settings) -> tuple[dict[str, Any], int, int]:
    """An event, the partition it belongs to, and another."""
    item = event(session_id=uuid.uuid4().hex)
    home = partition_of(session_key(item["tenant_id"], item["session_id"]), PARTITIONS)
    return item, home, (home + 1) % PARTITIONS


@pytest.mark.requirement("Y14")
def test_a_record_in_the_wrong_partition_leads_to_its_copy_and_the_copy_to_its_episode(pipeline: Pipeline) -> None:
    item, home, away = misplaced(pipeline.settings)
    offset = appended(pipeline.settings, encoded(item), away, b"no such key")
    wait_for_stages(pipeline.settings, TIMEOUT_S)
    first = json.loads(hmx(pipeline.settings, "verify", "--offset", f"{away}:{offset}", "--json").stdout)
    assert (first["outcome"], first["because"]["copy"]["partition"]) == (Outcome.REROUTED, home)
    copy = f"{home}:{first['because']['copy']['offset']}"
    second = json.loads(hmx(pipeline.settings, "verify", "--offset", copy, "--json").stdout)
    assert (second["outcome"], second["event"]["session_id"]) == (Outcome.RELEASED, item["session_id"])
    assert second["because"]["copy_of"] == {"partition": away, "offset": offset}
    assert [led["topic"] for led in second["outputs"]][:1] == ["hmx.episodes.v1"]
    assert verify(pipeline.settings).conserved


def test_a_rejected_record_is_explained_and_listed_among_the_dead_letters(pipeline: Pipeline) -> None:
    offset = appended(pipeline.settings, b"secret no JSON", 0, b"\xff")
    wait_for_stages(pipeline.settings, TIMEOUT_S)
    shown = hmx(pipeline.settings, "verify", "--offset", f"0:{offset}")
    assert shown.exit_code == 0, shown.output
    assert "not_json" in shown.stdout
    listed = json.loads(hmx(pipeline.settings, "dlq", "--json").stdout)
    (found,) = [each for each in listed["reasons"] if each["reason"] == "not_json"]
    assert json.loads(hmx(pipeline.settings, "dlq", "--json", "--tenant", "acme").stdout)["dead_letters"] == 0
    assert "no dead letters name the tenant acme" in hmx(pipeline.settings, "dlq", "--tenant", "acme").stdout
    assert (found["example"]["origin"], found["advice"]) == (f"0:{offset}", Reason.NOT_JSON.advice)
    plain, values = hmx(pipeline.settings, "dlq"), hmx(pipeline.settings, "dlq", "--show-values", "--limit", "1000")
    assert (plain.exit_code, values.exit_code) == (0, 0)
    assert "secret" not in plain.stdout
    assert "secret no JSON" in values.stdout
    assert max(map(len, plain.stdout.splitlines())) <= 80


def test_what_there_is_not_is_said(pipeline: Pipeline) -> None:
    absent = hmx(pipeline.settings, "verify", "--offset", "0:999999999")
    assert (absent.exit_code, "the record does not exist" in absent.stdout) == (1, True)
    assert "has partitions 0 to" in str(hmx(pipeline.settings, "verify", "--offset", "99:0").exception)
    for wrong in ("x", "1", "1:", ":1", "-1:0", "1:2:3"):
        assert hmx(pipeline.settings, "verify", "--offset", wrong).exit_code == 2


def test_without_dead_letters_that_is_said(kafka: str) -> None:
    settings = new_settings(kafka)
    create_topics(settings)
    assert "no dead letters" in hmx(settings, "dlq").stdout
    assert json.loads(hmx(settings, "dlq", "--json").stdout) == {"dead_letters": 0, "reasons": []}


def test_what_is_released_is_followed_until_it_is_interrupted(pipeline: Pipeline) -> None:
    tenant = uuid.uuid4().hex
    publish([encoded(event(tenant_id=tenant, content={"role": "user", "text": "hello"}))], pipeline.settings)
    watching = subprocess.Popen(
        [sys.executable, "-m", "hmx_pipeline.cli", "watch", "--tenant", tenant, "--from-start", "--json"],
        env=environment(pipeline.settings) | {"PATH": os.environ["PATH"]},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    give_up = threading.Timer(TIMEOUT_S, watching.kill)
    give_up.start()
    try:
        assert watching.stdout is not None
        line = json.loads(watching.stdout.readline())
        assert (line["kind"], line["tenant_id"], line["text"]) == ("episode", tenant, "hello")
        watching.send_signal(signal.SIGINT)
        _, said = watching.communicate()
        assert (watching.returncode, said) == (130, b"")
    finally:
        give_up.cancel()
        watching.kill()
        watching.wait()
