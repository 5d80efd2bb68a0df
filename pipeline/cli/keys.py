"""`hmx keys`: makes, lists and revokes the keys that open the service. Kept is only what a key is recognised by."""

from pathlib import Path
from typing import Annotated, Final

import typer

from pipeline.cli.console import ERR, OUT, fail, print_json, table
from pipeline.service.keys import NAME, USUAL, Grant, Scope, add, parse
from pipeline.service.keys import revoke as taken_out
from pipeline.settings import Settings

SURE: Final = 8
"""Characters of an id that `revoke` wants at least."""

group = typer.Typer(no_args_is_help=True, help="Keys of the service's routes, in the file that HMX_API_KEYS names.")


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="keys")


@group.command()
def new(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key stands for.")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="read, write or admin; may be given again. Read and write if left out.")
    ] = None,
) -> None:
    """Prints a new key once, and adds its SHA-256 to the file; services take it from the next request on.

    Exit code: 0 made, 1 the file can't be written. Example: HMX_API_KEYS=keys.txt hmx keys new acme --scope read
    """
    file = _file()
    if not tenant.strip() or not tenant.isprintable() or tenant != tenant.strip():
        fail("a tenant with a key has a name of printable characters, without space around it")
    try:
        key = add(file, Grant(tenant, frozenset(scope) if scope else USUAL))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("the key, which nobody can show again:")
    typer.echo(key)


@group.command("list")
def listed(as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False) -> None:
    """Lists whose keys there are and what they may do; of a key itself nothing is known but its id.

    Exit code: 0 printed, 1 the file can't be read. Example: hmx keys list
    """
    file = _file()
    try:
        found = list(parse(file.read_text().splitlines()))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    rows = [(recognised[:NAME], *_told(grant)) for recognised, grant in found]
    if as_json:
        names = ("id", "tenant", "scopes")
        print_json([dict(zip(names, (one, tenant, scopes.split()), strict=True)) for one, tenant, scopes in rows])
    else:
        OUT.print(table(f"{len(rows)} keys", ("id", "tenant", "scopes"), rows))


@group.command()
def revoke(
    which: Annotated[str, typer.Argument(metavar="ID", help="The key's id as `hmx keys list` has it, or the key.")],
) -> None:
    """Takes a key out of the file; it opens nothing from the next request on, and streams under way end.

    Exit code: 0 revoked, 1 there is no such key, or more than one. Example: hmx keys revoke 3f9a0c12d4be
    """
    file = _file()
    if len(which) < SURE:
        fail(f"give at least {SURE} characters of the id")
    try:
        taken_out(file, which)
    except LookupError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("revoked")


def _told(grant: Grant | None) -> tuple[str, str]:
    return (grant.tenant, " ".join(sorted(grant.scopes))) if grant is not None else ("?", "line not understood")


def _file() -> Path:
    settings = Settings.load()
    if not settings.api_keys:
        fail("set HMX_API_KEYS to the file that holds the keys, for this command and for the service")
    return Path(settings.api_keys)
