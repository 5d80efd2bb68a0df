"""`hmx up`, `hmx env`, `hmx down`: the local stack."""

import signal
from shlex import quote
from typing import Annotated, Any, NoReturn

import typer

from pipeline.cli.console import ERR, OUT, fail, print_json, saying
from pipeline.cli.status import NO_STACK, components
from pipeline.local import stack as local
from pipeline.local.process import StackError
from pipeline.settings import Settings


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
                OUT.print(components(running, {}))
                OUT.print("`hmx status` shows how it does, `hmx down` stops it.")
    except StackError as error:
        fail(str(error))


def env() -> None:
    """Prints where Kafka and the service of this folder's stack are, for a shell to take in.

    Example: eval "$(hmx env)"
    """
    running = local.status(Settings.load().state)
    if running is None:
        fail(NO_STACK)
    addresses = {"KAFKA": running["kafka_bootstrap"], "SERVICE": running["service_url"]}
    typer.echo("\n".join(f"export {name}={quote(address)}" for name, address in addresses.items() if address))


def down() -> None:
    """Stops the stack of this folder and everything that it has started. Its data stays.

    Example: hmx down
    """
    if not local.down(Settings.load().state):
        fail(NO_STACK)
    OUT.print("stopped")


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
        OUT.print(components(running, {}))
        OUT.print("^C stops it.")
        stack.watch()
