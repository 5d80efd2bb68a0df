"""`hmx keys`: makes the keys that open the service's `/v1`. Kept is only what a key can be recognised by."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import ERR, fail
from pipeline.settings import Settings

app = typer.Typer(no_args_is_help=True, help="Keys of the service's routes for Hippocortex clients.")


@app.callback()
def keys() -> None:
    """A group, though it has one command."""


@app.command()
def new(tenant: Annotated[str, typer.Argument(help="The tenant that the key stands for.")]) -> None:
    """Prints a new key once, and adds its SHA-256 to the file that HMX_API_KEYS names; the service reads it at once.

    To revoke a key, take its line out. Example: HMX_API_KEYS=keys.txt hmx keys new acme
    """
    from pipeline.service.dialect.access import new_key

    settings = Settings.load()
    if not settings.api_keys:
        fail("set HMX_API_KEYS to the file that holds the keys, for this command and for the service")
    if not tenant.strip() or not tenant.isprintable() or tenant != tenant.strip():
        fail("a tenant with a key has a name of printable characters, without space around it")
    key, digest = new_key()
    file = Path(settings.api_keys)
    try:
        with file.open("a") as held:
            held.write(f"{digest} {tenant}\n")
        file.chmod(0o600)
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("the key, which nobody can show again:")
    typer.echo(key)
