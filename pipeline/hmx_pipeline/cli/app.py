"""The command line `hmx`: one module per group of commands.

Exit codes: 0 done; 1 the answer is no, or it failed; 2 wrong usage (topics plan: changes are pending; replay: nothing
to compare); 130 interrupted. Results go to standard output, the rest to standard error.
"""

import sys
from importlib import import_module, metadata, util
from keyword import iskeyword
from typing import Annotated, Final

import typer
from confluent_kafka import KafkaException

from hmx_pipeline.cli.console import fail
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.topic_files import TopicsError
from hmx_pipeline.settings import SettingsError

MODULES: Final = {
    "stack": ("up", "env", "down"),
    "status": ("status",),
    "run": ("worker", "materialise", "serve"),
    "acls": ("acls",),
    "validate": ("validate",),
    "publish": ("publish",),
    "source": ("source",),
    "transcripts": ("import", "mine"),
    "wait": ("wait",),
    "watch": ("watch",),
    "memory": ("artifacts", "pack"),
    "explain": ("explain",),
    "archive": ("archive",),
    "knowledge": ("knowledge",),
    "erase": ("erase",),
    "receipt": ("receipt",),
    "dlq": ("dlq",),
    "verify": ("verify",),
    "replay": ("replay",),
    "semantic": ("semantic",),
    "demo": ("demo",),
    "topics": ("topics",),
    "keys": ("keys",),
    "tenant": ("tenant",),
    "fingerprint": ("fingerprint",),
    "table": ("table",),
    "state": ("state",),
}
"""The commands of each module, in the order in which `hmx --help` lists them; a module with a `group` is one."""


def _version(asked: bool) -> None:
    """And whether the modules of `tool.hmx` in pyproject.toml are compiled: one stands for all."""
    if asked:
        spec = util.find_spec("hmx_pipeline.intake.decode")
        compiled = spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        typer.echo(f"{metadata.version('hmx-pipeline')} ({'compiled' if compiled else 'pure Python'})")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


def application(asked: str = "") -> typer.Typer:
    """The command line. Where `asked` names a command, only its module is imported: all take a second."""
    app = typer.Typer(
        name="hmx",
        help="Streaming memory for AI agents: turns HMX events on Kafka into artifacts and context packs.",
        add_completion=False,
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    chosen = [name for name, commands in MODULES.items() if asked in commands]
    for name in chosen or MODULES:
        module = import_module(f"hmx_pipeline.cli.{name}")
        if hasattr(module, "group"):
            app.add_typer(module.group, name=name)
            continue
        for command in MODULES[name]:
            app.command(command)(getattr(module, f"{command}_" if iskeyword(command) else command))
    return app


def main() -> None:
    """Runs a command. Errors that an operator can fix are printed as one line, without a traceback."""
    try:
        if not sys.argv[1:]:
            import_module("hmx_pipeline.cli.home").home()
        else:
            application(sys.argv[1])()
    except (SettingsError, TopicsError, ConnectionError, TimeoutError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(denied(error.args[0]) or f"Kafka: {error.args[0].str()}")
    except KeyboardInterrupt:
        sys.exit(130)
