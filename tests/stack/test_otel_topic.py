"""Exports that a collector wrote to Kafka: `hmx source otel` sends each to the service, and they become events once."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import httpx
import orjson
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from hmx_pipeline.kafka.client_login import client_config
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.service.api_keys import Grant, Scope, add
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import GROUP
from tests.support.own_command import hmx
from tests.support.pipeline import create_topics, logged, new_settings
from tests.support.service import serving
from tests.support.spans import export, log

ASKED = {
    "gen_ai.operation.name": "chat",
    "gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Refund order A7"}]}]',
    "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "Refunded."}]}]',
}


@pytest.fixture(scope="module")
def settings(kafka: str, redis_url: str) -> Settings:
    made = new_settings(kafka, redis_url)
    create_topics(made, partitions=1)
    return made


def exported(session: str) -> bytes:
    """What the exporter puts into a message with the encoding `otlp_proto`: an export of the SDK's own encoder."""
    kept, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("shop").start_span("chat", attributes={**ASKED, "gen_ai.conversation.id": session}).end()
    return encode_spans(kept.get_finished_spans()).SerializeToString()


def topic_of(settings: Settings, name: str, messages: Sequence[bytes]) -> str:
    topic = settings.topic_prefix + name
    admin = AdminClient(client_config(settings.require_kafka()))
    admin.create_topics([NewTopic(topic, 2)])[topic].result()
    with closing(plain_producer(settings.require_kafka())) as producer:
        for number, message in enumerate(messages):
            producer.produce(topic, message, partition=number % 2)
        producer.flush()
    return topic


def sent(service: httpx.Client, settings: Settings, topic: str, *words: str, **more: Any) -> Any:
    asked = (topic, "--service", str(service.base_url), "--until-empty", "--json", *words)
    return hmx(replace(settings, **more), "source", "otel", *asked)


def test_each_export_becomes_events_once_and_what_is_none_is_refused_alone(
    service: httpx.Client, settings: Settings
) -> None:
    topic = topic_of(settings, "spans", [exported("k1"), b"\xff\xff", exported("k2"), exported("k3")])
    asked = (topic, "--tenant", "acme")
    first = sent(service, settings, *asked)
    assert first.exit_code == 0, first.output
    assert (first.exit_code, json.loads(first.stdout)) == (0, {"events": 3, "refused": 1})
    assert json.loads(sent(service, settings, *asked).stdout) == {"events": 0, "refused": 0}, "it goes on at its end"
    again = sent(service, settings, *asked, "--consumer-group", "another")
    assert json.loads(again.stdout) == {"events": 3, "refused": 1}
    for session in ("k1", "k2", "k3"):
        told = [event["content"]["text"] for event in logged(settings, session)]
        assert told == ["Refund order A7", "Refunded."]


def test_it_reads_in_a_group_of_its_own_beside_the_workers(service: httpx.Client, settings: Settings) -> None:
    topic = topic_of(settings, "beside", [exported("k5")])
    asked = (topic, "--tenant", "acme")
    refused = sent(service, settings, *asked, "--consumer-group", GROUP, topic_prefix="")
    assert (refused.exit_code, "the workers' own group" in refused.output) == (1, True)
    assert json.loads(sent(service, settings, *asked, topic_prefix="").stdout) == {"events": 1, "refused": 0}


def test_log_records_as_json_are_of_whom_the_key_is(settings: Settings, tmp_path: Any) -> None:
    about = {"session.id": "k4"}
    records = [log(1, "gen_ai.user.message", {"content": "Hi"}, about), log(1, "gen_ai.choice", {"message": {}}, about)]
    topic = topic_of(settings, "logs", [orjson.dumps(export(records, logs=True))])
    words = ("--signal", "logs", "--encoding", "otlp_json")
    file = tmp_path / "keys"
    key = add(file, Grant("acme", frozenset({Scope.WRITE}), subject="ada"))
    with serving(replace(settings, api_keys=str(file))) as service:
        refused = sent(service, settings, topic, *words, source_key="hx_live_wrong")
        assert (refused.exit_code, "HMX_SOURCE_KEY" in refused.output) == (1, True)
        assert json.loads(sent(service, settings, topic, *words, source_key=key).stdout) == {"events": 1, "refused": 0}
    (event,) = logged(settings, "ada/k4")
    assert (event["content"]["text"], event["metadata"]["subject_id"]) == ("Hi", "ada")
