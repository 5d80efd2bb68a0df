"""`hmx source`: feeds the events topic from Redis Streams, NATS JetStream or an OpenTelemetry collector's topic.

Enters: the address and name of a queue. Leaves: records on the events topic, or exports posted to the service (`otel`);
at the end, how many were taken and refused.
"""

import socket
from contextlib import closing
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, fail, many, print_json
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import GROUP

group = typer.Typer(no_args_is_help=True)
NATS: Final = "nats://127.0.0.1:4222"
Group = Annotated[str, typer.Option(help="Name under which the queue remembers what was taken.")]
Url = Annotated[str, typer.Option(help="Address of the queue; default: HMX_SOURCE_URL.")]
UntilEmpty = Annotated[bool, typer.Option("--until-empty", help="End when the queue gives nothing more.")]


@group.command("redis")
def redis_command(
    stream: Annotated[str, typer.Argument(metavar="STREAM", help="Key of the stream.")],
    url: Url = "",
    consumer_group: Group = "hmx",
    consumer: Annotated[str, typer.Option(help="Name of this process in the group; default: the host's name.")] = "",
    field: Annotated[str, typer.Option(help="Field of an entry that holds the event as JSON.")] = "event",
    delete: Annotated[bool, typer.Option("--delete", help="Delete entries that Kafka has from the stream.")] = False,
    until_empty: UntilEmpty = False,
    as_json: AsJson = False,
) -> None:
    """Appends the entries of a Redis stream to Kafka, and acknowledges each when Kafka has it.

    Start it again after a crash: nothing is lost, and repeated events are recognised by their ids. Exit code: 0 told to
    stop or empty, 1 failed.

    Example: hmx source redis agent-events --url redis://queue:6379
    """
    from hmx_pipeline.sources.redis_streams import RedisStream
    from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, connect
    from hmx_pipeline.store.servers import connected

    settings = Settings.load()
    url = url or settings.source_url
    client = connect(url, ca=settings.redis_ca) if url else connected(settings)[0]
    try:
        source = RedisStream(client, stream, consumer_group, consumer or socket.gethostname(), field, delete=delete)
    except StoreUnavailableError as error:
        fail(str(error))
    _feed(source, settings, until_empty, as_json)


@group.command("nats")
def nats_command(
    subject: Annotated[str, typer.Argument(metavar="SUBJECT", help="Subject of a JetStream stream; wildcards work.")],
    url: Url = "",
    consumer_group: Group = "hmx",
    until_empty: UntilEmpty = False,
    as_json: AsJson = False,
) -> None:
    """Appends the messages of a NATS JetStream stream to Kafka, and acknowledges each when Kafka has it.

    Needs the extra `nats`. Start it again after a crash: nothing is lost, and repeated events are recognised by their
    ids. Exit code: 0 told to stop or empty, 1 failed.

    Example: hmx source nats 'agents.>' --url nats://queue:4222
    """
    from hmx_pipeline.sources.feed import QueueAwayError

    try:
        from hmx_pipeline.sources.jetstream import JetStream
    except ModuleNotFoundError:
        fail("the NATS client is not installed: pip install 'hmx-pipeline[nats]'")
    settings = Settings.load()
    try:
        source = JetStream(url or settings.source_url or NATS, subject, consumer_group)
    except QueueAwayError as error:
        fail(f"NATS gives no messages of {subject}: {error}. Check --url, and that a stream has this subject")
    _feed(source, settings, until_empty, as_json)


class Signal(StrEnum):
    TRACES = "traces"
    LOGS = "logs"


class Encoding(StrEnum):
    PROTO = "otlp_proto"
    JSON = "otlp_json"


@group.command("otel")
def otel_command(
    topic: Annotated[str, typer.Argument(help="Topic of the collector's Kafka exporter.")] = "otlp_spans",
    signal: Annotated[Signal, typer.Option(help="What the topic holds.")] = Signal.TRACES,
    encoding: Annotated[Encoding, typer.Option(help="The exporter's encoding.")] = Encoding.PROTO,
    tenant: Annotated[str, typer.Option(help="The tenant, where the service has no keys.")] = "",
    service: Annotated[str, typer.Option(help="Address of the service; default: HMX_SERVICE_URL.")] = "",
    consumer_group: Group = "hmx-source",
    until_empty: UntilEmpty = False,
    as_json: AsJson = False,
) -> None:
    """Sends what a collector exported to Kafka to the service, whose events it becomes; the key is HMX_SOURCE_KEY.

    Start it again after a crash: nothing is lost, and repeated events are recognised by their ids. Exit code: 0 told to
    stop or empty, 1 failed.

    Example: hmx source otel otlp_spans --tenant acme
    """
    from hmx_pipeline.sources.otel_topic import ForbiddenError, forward

    settings = Settings.load()
    service = service or settings.service_url
    if not service.startswith(("http://", "https://")):
        fail("no service to send to: set HMX_SERVICE_URL, or give --service")
    if consumer_group == settings.topic_prefix + GROUP:
        fail(f"the workers' own group is {consumer_group}: give another --consumer-group")
    kind = {Encoding.PROTO: "application/x-protobuf", Encoding.JSON: "application/json"}[encoding]
    who = {"Authorization": f"Bearer {settings.source_key}"} if settings.source_key else {"X-HMX-Tenant": tenant}
    stop, health = _running(settings)
    url = f"{service.rstrip('/')}/v1/{signal}"
    try:
        done = forward(
            settings, topic, consumer_group, url, {"Content-Type": kind, **who}, stop, health, until_empty=until_empty
        )
    except ForbiddenError as error:
        fail(str(error))
    _told(done, "export", "that the service does not take", as_json)


def _feed(source: Any, settings: Settings, until_empty: bool, as_json: bool) -> None:
    from hmx_pipeline.sources.feed import QueueDamagedError, feed

    stop, health = _running(settings)
    try:
        with closing(source):
            done = feed(source, settings, stop, health, until_empty=until_empty)
    except QueueDamagedError as error:
        fail(f"{error}: check its name")
    _told(done, "event", "above the record limit (2 MB)", as_json)


def _running(settings: Settings) -> tuple[Any, Any]:
    """What tells a source to stop, and what tells others how it is."""
    from hmx_pipeline.observe.health_server import serve_health
    from hmx_pipeline.observe.logs import configure_logs
    from hmx_pipeline.observe.shutdown import stop_event
    from hmx_pipeline.sources.feed import FeedHealth

    configure_logs(settings.log_level, settings.log)
    stop, health = stop_event(), FeedHealth()
    if settings.source_port:
        serve_health(settings.host, settings.source_port, health)
    return stop, health


def _told(done: Any, unit: str, why: str, as_json: bool) -> None:
    if as_json:
        print_json(done._asdict())
    else:
        OUT.print(f"{many(done.events, unit)} {'appended' if unit == 'event' else 'sent'}")
    if done.refused:
        ERR.print(f"[bold red]refused[/]: {many(done.refused, 'message')} {why}, see the log")
