"""The command line `hmx`: one module per group of commands.

Enters: the words of the command line, or those that a shell asks to complete. Leaves: an exit code; and one line
instead of a traceback for an error that an operator can mend. Exit codes: 0 done; 1 the answer is no, or it failed; 2
wrong usage (topics plan: changes are pending; replay: nothing to compare); 130 interrupted. Results go to standard
output, the rest to standard error.
"""

import os
import sys
from importlib import import_module
from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import fail
from hmx_pipeline.cli.typed_values import without_models

VERSION: Final = "0.2.0"
_COMPLETING: Final = "_HMX_COMPLETE"
"""Set by a shell that asks how a line may go on."""
MODULES: Final = {
    "stack": {
        "up": "Starts Kafka, Redis and the whole pipeline on this machine, and restarts processes that exit.",
        "env": "Prints the addresses of this folder's Kafka and service as shell exports.",
        "open": "Opens the page in a browser, or prints its address where there is none.",
        "down": "Stops the stack of this folder with all its processes. Its data stays.",
    },
    "status": {
        "status": "Shows processes, every partition's position and lag in both stages, counters, and the lag of Redis.",
    },
    "doctor": {
        "doctor": "Checks the settings, files, certificates, Kafka, its topics and rights, Redis, clocks and ports."
    },
    "run": {
        "worker": "Runs both stages: events → episodes and evidence → artifacts and knowledge.",
        "materialise": "Writes episodes, evidence, artifacts and knowledge into Redis, with their topic positions.",
        "serve": "Serves context packs, artifacts and events over HTTP, with OpenAPI at /docs/api.",
    },
    "acls": {"acls": "Prints the Kafka rights that each process needs. Connects to no server."},
    "validate": {
        "validate": "Checks events before they are published: which would be rejected, and why. Needs no Kafka."
    },
    "publish": {"publish": "Appends events to Kafka as they are, one record per line, including invalid lines."},
    "transcripts": {
        "import": "Imports a coding agent's transcripts: prompts, commands, edits, tests and refusals become events.",
        "export": "Writes an imported Eventloom log again, byte for byte, from the topics.",
        "mine": "Imports this machine's transcripts into a stack of their own, and shows up to ten things learnt.",
    },
    "wait": {
        "wait": "Waits until all events published so far are in Redis or the dead letters, and shows their outcomes.",
    },
    "watch": {"watch": "Follows released episodes and compiled artifacts as they arrive; Ctrl-C ends it."},
    "memory": {
        "artifacts": "Lists artifacts, or shows one in full.",
        "pack": "Assembles the context pack for a question.",
    },
    "explain": {"explain": "Shows what an artifact rests on, which conditions were checked and how it got its status."},
    "archive": {"archive": "Retires an active artifact: packs stop showing it, and its pattern produces no new one."},
    "erase": {"erase": "Erases a subject, a session or a tenant from memory, up to now, and prints a signed receipt."},
    "backup": {
        "backup": "Writes all topics into a folder, while no worker runs.",
        "restore": "Fills an empty Kafka from a backup, each record at the offset that it had.",
    },
    "verify": {"verify": "Checks from the topics, offset by offset, that every event has exactly one outcome."},
    "replay": {
        "replay": "Rebuilds everything from the log into shadow topics; compares records byte by byte, then artifacts.",
    },
    "semantic": {
        "semantic": "Downloads the embedding model (25 MB) unless it is present, and prints its path for HMX_SEMANTIC.",
    },
    "demo": {"demo": "Runs sample sessions through the whole pipeline and shows what it learns from them."},
    "knowledge": {"knowledge": "Lists, confirms, corrects and retracts what memory knows."},
    "receipt": {"receipt": "Verifies receipts of erasures, offline."},
    "dlq": {"dlq": "Shows rejected records by reason: how many, an example, and what to do about them."},
    "source": {"source": "Feeds the events topic from another queue."},
    "topics": {"topics": "Compares topics/*.yaml with the cluster, and applies the difference; grows."},
    "schemas": {"schemas": "Registers the JSON Schemas of topics with a schema registry."},
    "keys": {"keys": "Creates, lists and revokes the service's API keys (file: HMX_API_KEYS)."},
    "tenant": {"tenant": "Sets and shows what a tenant's subjects share, whom it trusts, what it keeps."},
    "retention": {"retention": "Shows what leaves a tenant's memory by age, class and count."},
    "fingerprint": {"fingerprint": "Exports and imports what a tenant or an agent has learnt."},
    "table": {"table": "Shows the state of the stages, read from their state topics."},
    "state": {"state": "Repairs stage state that cannot be read."},
}
"""The commands of each module and what `hmx --help` says of them, in its order; a module with a `group` is one."""


def _version(asked: bool) -> None:
    """And whether the modules of `tool.hmx` in pyproject.toml are compiled: one stands for all."""
    if asked:
        from importlib.util import find_spec

        spec = find_spec("hmx_pipeline.intake.decode")
        compiled = spec is not None and spec.origin is not None and not spec.origin.endswith(".py")
        typer.echo(f"{VERSION} ({'compiled' if compiled else 'pure Python'})")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", callback=_version, is_eager=True)
    ] = False,
) -> None: ...


def application(asked: str | None = None) -> typer.Typer:
    """The command line; only the module of the command `asked` is imported, because all take a second. Without a name
    all are."""
    without_models()
    app = typer.Typer(
        name="hmx",
        help="Streaming memory for AI agents: turns HMX events on Kafka into artifacts and context packs.",
        rich_markup_mode="markdown",
        pretty_exceptions_enable=False,
    )
    app.callback()(_options)
    for name, commands in MODULES.items():
        module = import_module(f"hmx_pipeline.cli.{name}") if asked is None or asked in commands else None
        if (group := getattr(module, "group", None)) is not None:
            if name != "dlq":  # which says more of itself
                group.info.help = commands[name]
            app.add_typer(group, name=name)
            continue
        for command, said in commands.items():
            function = getattr(module, f"{command}_", getattr(module, command, _unasked))
            app.command(command, help=None if module else said)(function)
    return app


def _unasked() -> None:
    """Stands for the commands that were not asked for."""


def _asked() -> str:
    """The first word that is no option; the second of the line that a shell asks to complete."""
    line = os.environ.get("COMP_WORDS") or os.environ.get("_TYPER_COMPLETE_ARGS") or ""
    words = line.split()[1:] if _COMPLETING in os.environ else sys.argv[1:]
    return next((word for word in words if not word.startswith("-")), "")


def main() -> None:
    """Runs a command. Errors that an operator can fix are printed as one line, without a traceback."""
    try:
        if sys.argv[1:] or _COMPLETING in os.environ:
            application(_asked())()
        else:
            import_module("hmx_pipeline.cli.home").home()
    except KeyboardInterrupt:
        sys.exit(130)
    except Exception as error:
        if not (said := _fixable(error)):
            raise
        fail(said)


def _fixable(error: Exception) -> str:
    """What an operator can mend; empty if nothing. Kafka's clients are loaded if the error is theirs."""
    from hmx_pipeline.settings import SettingsError

    if isinstance(error, SettingsError | ConnectionError | TimeoutError):
        return str(error)
    if "confluent_kafka" not in sys.modules:
        return ""
    from confluent_kafka import KafkaException

    from hmx_pipeline.contracts.rejections import NewerRecordError
    from hmx_pipeline.kafka.client_login import denied
    from hmx_pipeline.kafka.topic_files import TopicsError

    if isinstance(error, NewerRecordError):
        return f"a newer release has written the log: {error}. Run this command in that release"
    if isinstance(error, TopicsError):
        return str(error)
    return denied(error.args[0]) or f"Kafka: {error.args[0].str()}" if isinstance(error, KafkaException) else ""
