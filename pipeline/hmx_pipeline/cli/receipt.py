"""`hmx receipt`: verifies receipts of erasures, and prints the public key that signs them; offline.

Enters: a receipt's file, and the key that must have signed it; or HMX_CONTROL_KEY. Leaves: exit code 0 if it is
genuine, else 1; or the public key of this installation.
"""

from pathlib import Path
from typing import Annotated

import typer

from hmx_pipeline.cli.console import OUT, fail
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.settings import Settings

group = typer.Typer(no_args_is_help=True)


@group.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The receipt.")],
    key: Annotated[str, typer.Option(help="The public key that must have signed it, from `hmx receipt key`.")] = "",
) -> None:
    """Verifies that a receipt is unaltered; needs neither Kafka nor Redis.

    Without --key it only shows that the receipt fits the key that it names itself.

    Exit code: 0 genuine, 1 altered, signed by another key, or no receipt. Example: hmx receipt verify user-7.json
    """
    from pydantic import ValidationError

    from hmx_pipeline.contracts.receipt import Receipt, is_genuine

    try:
        found = Receipt.model_validate_json(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except ValidationError:
        fail(f"{on_one_line(str(file))} is no receipt")
    if not is_genuine(found, key):
        fail("the receipt was altered, or another key has signed it")
    OUT.print(f"genuine, signed with {found.key}", soft_wrap=True)


@group.command("key")
def shown() -> None:
    """Prints the public key with which this installation signs receipts.

    Exit code: 0 printed. Example: hmx receipt key
    """
    from hmx_pipeline.contracts.receipt import key_of, public

    typer.echo(public(key_of(Settings.load().require_control_key())))
