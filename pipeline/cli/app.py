"""The command line `hmx`: one module per group of commands, each with `register(app)`.

Exit codes: 0 done; 1 the answer is no, or it failed; 2 wrong usage (topics plan: changes are pending; replay: nothing
to compare); 130 interrupted. Results go to standard output, the rest to standard error.
"""

import sys
from importlib import import_module, metadata, util
from typing import Annotated, Final

import typer
from confluent_kafka import KafkaException

from pipeline.cli.console import fail
from pipeline.kafka.topics import TopicsError
from pipeline.settings import SettingsError

MODULES: Final = {
    "stack": ("up", "env", "down"),
    "status": ("status",),
    "run": ("worker", "materialise", "serve"),
    "validate": ("validate",),
    "publish": ("publish",),
    "wait": ("wait",),
    "watch": ("watch",),
    "query": ("artifacts", "pack"),
    "explain": ("explain",),
    "archive": ("archive",),
    "dlq": ("dlq",),
    "verify": ("verify",),
    "replay": ("replay",),
    "semantic": ("semantic",),
    "demo": ("demo",),
    "topics": ("topics",),
    "keys": ("keys",),
    "fingerprint": ("fingerprint",),
    "table": ("table",),
    "state": ("state",),
}
"""The commands of each module, in the order in which `hmx --help` lists them."""


def _version(asked: bool) -> None:
    """And whether the modules of `tool.hmx` in pyproject.toml are compiled: one stands for all."""
    if asked:
        spec = util.find_spec("pipeline.intake.decode")
        compiled = spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        typer.echo(f"{metadata.version('hmx-pipeline')} ({'compiled' if compiled else 'pure Python'})")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


def application(asked: str = "") -> typer.Typer:
    """The command line. Where `asked` names a command, only its module is imported: all take a second."""
    app = typer.Typer(
        name="hmx",
        help="The memory of AI agents as a stream: HMX events on Kafka become artifacts and context packs.",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    chosen = [name for name, commands in MODULES.items() if asked in commands]
    for name in chosen or MODULES:
        import_module(f"pipeline.cli.{name}").register(app)
    return app


def main() -> None:
    """Runs a command; failures that an operator can mend are one line, without a traceback."""
    try:
        application(sys.argv[1] if len(sys.argv) > 1 else "")()
    except (SettingsError, TopicsError, ConnectionError, TimeoutError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}")
    except KeyboardInterrupt:
        sys.exit(130)
