"""`hmx up`, `hmx env`, `hmx open`, `hmx down`: start, address, show and stop the local stack.

Enters: the folder of the settings (HMX_STATE), and what to start. Leaves: running processes or stopped ones; their
addresses as a table, JSON or shell exports.
"""

import os
import signal
import sys
from shlex import quote
from typing import Annotated, Any, NoReturn

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, as_typed, fail, print_json, saying
from hmx_pipeline.cli.status import components, no_stack
from hmx_pipeline.local.process import StackError
from hmx_pipeline.local.state import status
from hmx_pipeline.settings import Settings


def up(
    nodes: Annotated[int, typer.Option(help="Kafka nodes: 1, or 3 to survive the loss of one.")] = 1,
    small: Annotated[
        bool, typer.Option("--small", help="For a laptop: 0.6 GB at first, and new topics have 2 partitions.")
    ] = False,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the data of the last run.")] = False,
    servers: Annotated[
        bool, typer.Option("--servers", help="Start Kafka and Redis alone, as `hmx restore` needs them.")
    ] = False,
    foreground: Annotated[bool, typer.Option("--foreground", help="Run until ^C instead of detaching.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print components as JSON; not with --foreground.")] = False,
) -> None:
    """Starts Kafka, Redis and the whole pipeline on this machine, and restarts processes that exit.

    Returns once every process has started (/startupz). What was published before may still be on its way: `hmx wait`.

    HMX_KAFKA_BOOTSTRAP and HMX_REDIS_URL select existing servers instead. Example: hmx up --nodes 3
    """
    from hmx_pipeline.local.stack import up as started

    settings = Settings.load()
    try:
        if foreground:
            _in_foreground(settings, nodes, small, fresh, not servers)
        else:
            with saying("starting") as say:
                running = started(
                    settings.state, nodes=nodes, pipeline=not servers, small=small, fresh=fresh, progress=say
                )
            if as_json:
                print_json(running)
            else:
                OUT.print(components(running, {}))
                if not servers:
                    OUT.print(as_typed(f"The page is at {running['service_url']}/ (`hmx open`)."), soft_wrap=True)
                OUT.print(as_typed("`hmx status` shows the stack's health, `hmx down` stops it."), soft_wrap=True)
    except StackError as error:
        fail(str(error))


def env() -> None:
    """Prints the addresses of this folder's Kafka and service as shell exports.

    Example: eval "$(hmx env)"
    """
    settings = Settings.load()
    running = status(settings.state)
    if running is None:
        fail(no_stack(settings))
    addresses = {"KAFKA": running["kafka_bootstrap"], "SERVICE": running["service_url"]}
    typer.echo("\n".join(f"export {name}={quote(address)}" for name, address in addresses.items() if address))


def open_(
    view: Annotated[str, typer.Argument(help="overview, live, ask, artifacts, knowledge, sessions, …")] = "overview",
    as_json: AsJson = False,
) -> None:
    """Opens the page in a browser, or prints its address where there is none.

    Example: hmx open live
    """
    settings = Settings.load()
    if not settings.service_url:
        fail(f"{no_stack(settings)}, or set HMX_SERVICE_URL")
    address = f"{settings.service_url.rstrip('/')}/#{view}"
    if as_json:
        print_json({"url": address})
        return
    import webbrowser

    # Without a display webbrowser would start a browser in the terminal.
    seen = sys.platform == "darwin" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    opened = bool(seen) and webbrowser.open(address)
    OUT.print(address if not opened else f"opened {address}", soft_wrap=True)


def down() -> None:
    """Stops the stack of this folder with all its processes. Its data stays.

    Example: hmx down
    """
    from hmx_pipeline.local.stack import down as stopped

    settings = Settings.load()
    if not stopped(settings.state):
        fail(no_stack(settings))
    OUT.print("stopped")


def end_as_by_interrupt() -> None:
    """Makes SIGTERM and SIGHUP act like Ctrl-C, so that child processes are stopped."""

    def leave(*_: Any) -> NoReturn:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, leave)


def _in_foreground(settings: Settings, nodes: int, small: bool, fresh: bool, pipeline: bool) -> None:
    end_as_by_interrupt()
    from hmx_pipeline.local.stack import Stack

    stack = Stack(settings.state, nodes=nodes, pipeline=pipeline, small=small, fresh=fresh, progress=ERR.print)
    with stack:
        running = status(settings.state)
        assert running is not None, "this process started it"
        OUT.print(components(running, {}))
        OUT.print("^C stops it.")
        stack.watch()
