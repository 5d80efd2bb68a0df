"""The command line `hmx`: one module per group of commands, each with `register(app)`.

Exit codes: 0 done; 1 the answer is no, or it failed; 2 wrong usage (topics plan: changes are pending; replay: nothing
to compare); 130 interrupted. Results go to standard output, the rest to standard error.
"""

import sys
from importlib import metadata, util
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
    help="The memory of AI agents as a stream: HMX events on Kafka become artifacts and context packs.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    """And whether the modules of `tool.hmx` in pyproject.toml are compiled: one stands for all."""
    if asked:
        spec = util.find_spec("pipeline.intake.decode")
        compiled = spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        typer.echo(f"{metadata.version('hmx-pipeline')} ({'compiled' if compiled else 'pure Python'})")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and end.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


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
    """Runs a command; failures that an operator can mend are one line, without a traceback."""
    try:
        app()
    except (SettingsError, TopicsError, ConnectionError, TimeoutError) as error:
        fail(str(error))
    except KafkaException as error:
        fail(f"Kafka: {error.args[0].str()}")
    except KeyboardInterrupt:
        sys.exit(130)
