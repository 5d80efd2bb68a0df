"""`hmx acls`: the rights that the processes need on a secured Kafka."""

from enum import StrEnum
from typing import Annotated

import typer

from hmx_pipeline.settings import Settings


class AclFormat(StrEnum):
    COMMANDS = "commands"
    STRIMZI = "strimzi"


def acls(
    process: Annotated[
        str | None, typer.Option(help="worker, materialiser, service, publisher or operator; else all of them.")
    ] = None,
    form: Annotated[
        AclFormat, typer.Option("--format", help="kafka-acls.sh commands, or KafkaUser resources.")
    ] = AclFormat.COMMANDS,
    user: Annotated[str | None, typer.Option(help="Who logs in; else hmx- and the process's name.")] = None,
) -> None:
    """Prints the Kafka rights that each process needs. Connects to no server.

    Names carry HMX_TOPIC_PREFIX. The commands take the address from $KAFKA and an administrator's properties file from
    $ADMIN. `operator` is whoever types `hmx topics apply`, `hmx verify`, `hmx replay` and the like.

    Example: hmx acls --process worker --format strimzi
    """
    from hmx_pipeline.kafka.acl_rights import PROCESSES, as_commands, as_strimzi, rights

    if process is not None and process not in PROCESSES:
        raise typer.BadParameter(f"one of {', '.join(PROCESSES)}", param_hint="--process")
    prefix, parts = Settings.load().topic_prefix, []
    for name in [process] if process else PROCESSES:
        principal, wanted = user or f"hmx-{name}", rights(name, prefix)
        if form is AclFormat.STRIMZI:
            parts.append(as_strimzi(principal, wanted))
        else:
            parts.append(f"# {name}\n{as_commands(f'User:{principal}', wanted)}\n")
    typer.echo(("---\n" if form is AclFormat.STRIMZI else "\n").join(parts), nl=False)
