"""`hmx watch`: follows episodes and artifacts, one line each."""

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Annotated, Any, Final

import orjson
import typer
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition
from rich.text import Text

from hmx_pipeline.cli.console import ERR, OUT, plain
from hmx_pipeline.contracts.episode import RESERVED, event_fields
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.safe_text import in_json
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.steps import step_of
from hmx_pipeline.kafka.clients import Cluster, consumer_config
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import ARTIFACTS, EPISODES

TEXT: Final = 240
"""Characters shown of an episode's text."""
REMEMBERED: Final = 10_000
"""Artifacts whose last status is remembered."""
POLL_S: Final = 0.2

Line = dict[str, Any]


def watch(
    tenant: Annotated[str | None, typer.Option(help="Only this tenant.")] = None,
    from_start: Annotated[bool, typer.Option("--from-start", help="Start with existing records.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print NDJSON.")] = False,
) -> None:
    """Follows released episodes and compiled artifacts as they arrive; Ctrl-C ends it.

    Episodes: time, tenant, session, type, text. Artifacts: time, tenant, type, status, title.

    Exit code: 130 when interrupted. Example: hmx watch --tenant acme
    """
    settings = Settings.load()
    lines = Lines(tenant)
    for message in _messages(settings, from_start):
        topic = (message.topic() or "").removeprefix(settings.topic_prefix)
        line = lines.of(topic, message.timestamp()[1], message.key(), message.value())
        if line is not None:
            _print(line, as_json)


class Lines:
    """Turns records of both topics into lines; None for other tenants and unreadable records. Pure."""

    def __init__(self, tenant: str | None = None) -> None:
        self._tenant = tenant
        self._statuses: OrderedDict[bytes, str] = OrderedDict()

    def of(self, topic: str, at_ms: int, key: bytes | None, value: bytes | None) -> Line | None:
        tenant = split_key((key or b"").decode(errors="replace"))[0]
        if self._tenant is not None and tenant != self._tenant:
            return None
        line: Line = {"time": format_ms(at_ms), "tenant_id": tenant}
        try:
            said = _episode(value) if topic == EPISODES else self._artifact(key or b"", value)
        except (ValueError, LookupError, TypeError, AttributeError):
            return None
        return {**line, **said}

    def _artifact(self, key: bytes, value: bytes | None) -> Line:
        before = self._statuses.pop(key, None)
        if value is None:
            return {"kind": "artifact", "artifact_id": split_key(key.decode())[1], "status": "erased", "before": before}
        artifact = orjson.loads(value)
        self._statuses[key] = artifact["status"]
        if len(self._statuses) > REMEMBERED:
            self._statuses.popitem(last=False)
        shown = ("artifact_id", "artifact_type", "status", "version", "confidence", "title")
        return {"kind": "artifact", **{name: artifact[name] for name in shown}, "before": before}


def _episode(value: bytes | None) -> Line:
    record = orjson.loads(value or b"")
    step = step_of(event_fields(record), 0, 0, TEXT)
    text = " ".join(f"{step.name} {step.text}".split())
    return {
        "kind": "episode",
        "session_id": record["sessionId"],
        "event_id": record["id"],
        "event_type": record["eventType"],
        "late": record["metadata"][RESERVED]["release"]["late"],
        "text": text,
    }


def _print(line: Line, as_json: bool) -> None:
    if as_json:
        sys.stdout.buffer.write(in_json(orjson.dumps(line)) + b"\n")
        sys.stdout.flush()
        return
    shown = Text.from_markup(sentence(line), emoji=False)
    if OUT.is_terminal:
        shown.truncate(OUT.width, overflow="ellipsis")
    OUT.print(shown, soft_wrap=True)


def sentence(line: Line) -> str:
    """Formats a line with colours; text from producers is escaped."""
    said = {name: plain(" ".join(value.split())) for name, value in line.items() if isinstance(value, str)}
    head = f"[dim]{line['time'][11:19]}[/] {said['tenant_id']}"
    if line["kind"] == "episode":
        late = " [yellow]late[/]" if line["late"] else ""
        return f"{head} {said['session_id']} [cyan]{said['event_type']}[/]{late} {said['text']}"
    change = f"{said['before']} → {said['status']}" if line["before"] not in (None, line["status"]) else said["status"]
    if "title" not in line:
        return f"{head} [bold]artifact[/] {change} {said['artifact_id']}"
    return f"{head} [bold]{said['artifact_type']}[/] [green]{change}[/] v{line['version']} {said['title']}"


def _messages(settings: Settings, from_start: bool) -> Iterator[Message]:
    """Yields committed records of both topics, endlessly."""
    places = _places(settings, from_start)
    consumer = Consumer(
        consumer_config(
            settings.require_kafka(),
            **{"auto.offset.reset": "earliest", "enable.partition.eof": False, "error_cb": _outage_sayer()},
        )
    )
    with closing(consumer):
        consumer.assign(places)
        while True:
            for message in consumer.consume(500, POLL_S):
                error = message.error()
                if error is not None:
                    raise KafkaException(error)
                yield message


def _places(settings: Settings, from_start: bool) -> list[TopicPartition]:
    partitions = existing_topics(settings, EPISODES, ARTIFACTS)
    with closing(Cluster(settings.require_kafka())) as cluster:
        return [
            TopicPartition(name, partition, marks.low if from_start else marks.high)
            for topic, count in partitions.items()
            for name in (settings.topic_prefix + topic,)
            for partition in range(count)
            for marks in (cluster.watermarks(name, partition),)
        ]


def _outage_sayer() -> Callable[[KafkaError], None]:
    """Reports once that Kafka does not answer; the client keeps trying."""
    said: list[bool] = []

    def on_error(error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN and not said:
            said.append(True)
            ERR.print("[yellow]Kafka does not answer: still trying[/]")

    return on_error
