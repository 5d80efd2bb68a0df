"""`hmx up`, `hmx down`, `hmx status`: the local stack, and how far the pipeline is."""

import signal
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from typing import Annotated, Any, NoReturn

import typer

from pipeline.cli.console import ERR, OUT, fail, print_json, saying, table
from pipeline.kafka.topics import TopicsError
from pipeline.local import stack as local
from pipeline.local.process import StackError
from pipeline.settings import Settings

NO_STACK = "no stack is up here: start one with `hmx up`"


def register(app: typer.Typer) -> None:
    app.command()(up)
    app.command()(down)
    app.command()(status)


def up(
    nodes: Annotated[int, typer.Option(help="Kafka nodes: 1, or 3 that survive the loss of one.")] = 1,
    fresh: Annotated[bool, typer.Option("--fresh", help="Throw the data of the last time away.")] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Run until ^C instead of detaching.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what runs as JSON; not with --foreground.")] = False,
) -> None:
    """Starts Kafka, Redis and the whole pipeline on this machine, and starts again what exits.

    HMX_KAFKA_BOOTSTRAP and HMX_REDIS_URL name servers to use instead. Example: hmx up --nodes 3
    """
    settings = Settings.load()
    try:
        if foreground:
            _in_foreground(settings, nodes, fresh)
        else:
            with saying("starting") as say:
                running = local.up(settings.state, nodes=nodes, fresh=fresh, progress=say)
            if as_json:
                print_json(running)
            else:
                OUT.print(_components(running))
                OUT.print("`hmx status` shows how it does, `hmx down` stops it.")
    except StackError as error:
        fail(str(error))


def down() -> None:
    """Stops the stack of this folder and everything that it has started. Its data stays.

    Example: hmx down
    """
    if not local.down(Settings.load().state):
        fail(NO_STACK)
    OUT.print("stopped")


def status(as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """Shows the processes of the local stack, what the stages have counted, and how far Redis is.

    Exit code: 0 everything runs, 1 no stack, or something is not ready. Example: hmx status --json
    """
    settings = Settings.load()
    running = local.status(settings.state)
    if running is None:
        fail(NO_STACK)
    stages = _explained(lambda: _stages(settings))
    lag = _explained(lambda: _redis_lag(settings))
    if as_json:
        print_json({**running, "stages": stages, "redis_lag": lag})
    else:
        OUT.print(_components(running))
        _show_stages(stages)
        OUT.print()
        OUT.print(
            f"[bold]Redis[/]  {lag}"
            if isinstance(lag, str)
            else f"[bold]Redis[/]  {sum(lag.values()):,} offsets behind"
        )
    if not running["ready"] or isinstance(stages, str) or isinstance(lag, str):
        raise typer.Exit(1)


def end_as_by_interrupt() -> None:
    """From now on SIGTERM and SIGHUP do what ^C does: whoever started something stops it."""

    def leave(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def _in_foreground(settings: Settings, nodes: int, fresh: bool) -> None:
    end_as_by_interrupt()
    stack = local.Stack(settings.state, nodes=nodes, pipeline=True, fresh=fresh, progress=ERR.print)
    with stack:
        running = local.status(settings.state)
        assert running is not None, "this process runs it"
        OUT.print(_components(running))
        OUT.print("^C stops it.")
        stack.watch()


def _components(running: dict[str, Any]) -> Any:
    addresses = {
        "kafka": running["kafka_bootstrap"],
        "redis": running["redis_url"],
        "service": running["service_url"] or "",
    }
    rows = [
        (name, it["state"], str(it["pid"] or ""), it["restarts"], addresses.get(name.partition("-")[0], ""))
        for name, it in running["components"].items()
    ]
    return table("Stack", ("component", "state", "pid", "restarts", "address"), rows)


def _explained(ask: Callable[[], dict[str, Any]]) -> dict[str, Any] | str:
    """The answer, or why there is none: a stack that is half down is what status is asked about."""
    from confluent_kafka import KafkaException

    from pipeline.store.blocks import StoreUnavailableError

    try:
        return ask()
    except (KafkaException, TopicsError, StoreUnavailableError, TimeoutError) as error:
        return f"no answer: {error}"


def _stages(settings: Settings) -> dict[str, Any]:
    """Counters and lag by stage, from the position records of its state topic."""
    from pipeline.kafka.clients import Cluster
    from pipeline.kafka.positions import stored_positions
    from pipeline.kafka.reach import existing_topics
    from pipeline.topology import STAGES

    existing_topics(settings, *(topic for stage in STAGES for topic in (stage.source, stage.state)))
    cluster, found = Cluster(settings.require_kafka()), {}
    with closing(cluster):
        for stage in STAGES:
            counts: Counter[str] = Counter()
            lag = 0
            for partition, position in enumerate(stored_positions(cluster, stage, settings.topic_prefix)):
                low, high = cluster.watermarks(settings.topic_prefix + stage.source, partition)
                lag += high - max(low, position.position if position is not None else low)
                counts.update(position.counts if position is not None else {})
            found[stage.name] = {"lag": lag, "counts": dict(sorted(counts.items()))}
    return found


def _redis_lag(settings: Settings) -> dict[str, Any]:
    """topic/partition → offsets that Redis has not read."""
    from pipeline.kafka.barriers import output_ends
    from pipeline.store.fetch import Store

    at = Store.open(settings).positions()
    return {where: end - at.get(where, 0) for where, end in output_ends(settings).items()}


def _show_stages(stages: dict[str, Any] | str) -> None:
    if isinstance(stages, str):
        OUT.print(f"\n[bold]Kafka[/]  {stages}")
        return
    for name, stage in stages.items():
        rows = [("(not yet read)", stage["lag"]), *stage["counts"].items()]
        OUT.print()
        OUT.print(table(f"Stage {name}", ("count", "records"), rows))
