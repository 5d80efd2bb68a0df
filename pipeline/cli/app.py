"""Entry point of the command line `hmx`: registers one module per command group, and maps errors to exit codes.

Exit codes: 0 success; 1 failure or a negative answer; 2 wrong usage (topics plan: changes pending; replay: nothing to
compare); 130 interrupted. Results go to standard output, everything else to standard error.
"""

import sys
from importlib import metadata
from typing import Annotated, Final

import typer
from confluent_kafka import KafkaException

from pipeline.cli import (
    archive,
    demo,
    dlq,
    explain,
    fingerprint,
    keys,
    publish,
    query,
    replay,
    run,
    semantic,
    stack,
    state,
    status,
    table,
    topics,
    validate,
    verify,
    wait,
    watch,
)
from pipeline.cli.console import fail
from pipeline.kafka.topics import TopicsError
from pipeline.settings import SettingsError

app: Final = typer.Typer(
    name="hmx",
    help="Streaming memory for AI agents: turns HMX events on Kafka into artifacts and context packs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


@app.callback()
def _version(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)] = False,
) -> None:
    if version:
        typer.echo(metadata.version("hmx-pipeline"))
        raise typer.Exit


for module in (
    stack, status, run, validate, publish, wait, watch, query, explain, archive, dlq, verify, replay, semantic, demo,
):  # fmt: skip
    module.register(app)
app.add_typer(topics.app, name="topics")
app.add_typer(keys.app, name="keys")
app.add_typer(fingerprint.app, name="fingerprint")
app.add_typer(table.app, name="table")
app.add_typer(state.app, name="state")


def main() -> None:
    """Runs a command. Errors that an operator can fix are printed as one line, without a traceback."""
    try:
        app()
    except (SettingsError, TopicsError, ConnectionError, TimeoutError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}")
    except KeyboardInterrupt:
        sys.exit(130)
