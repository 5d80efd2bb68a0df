"""`hmx keys`: creates, lists and revokes API keys of the service; the file holds only their hashes."""

from pathlib import Path
from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, fail, print_json, table
from hmx_pipeline.service.api_keys import NAME, USUAL, Grant, Scope, add, parse
from hmx_pipeline.service.api_keys import revoke as taken_out
from hmx_pipeline.settings import Settings

SURE: Final = 8
"""Shortest id prefix that `revoke` accepts."""

group = typer.Typer(no_args_is_help=True, help="API keys of the service, in the file that HMX_API_KEYS names.")


@group.command()
def new(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key belongs to.")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="read, write or admin; repeatable. Default: read and write.")
    ] = None,
) -> None:
    """Creates an API key: prints it once, and adds its SHA-256 to the file. Services accept it from the next request.

    Exit code: 0 created, 1 the file cannot be written. Example: HMX_API_KEYS=keys.txt hmx keys new acme --scope read
    """
    file = _file()
    if not tenant.strip() or not tenant.isprintable() or tenant != tenant.strip():
        fail("a tenant name needs printable characters, and no space at either end")
    try:
        key = add(file, Grant(tenant, frozenset(scope) if scope else USUAL))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("the key; it cannot be shown again:")
    typer.echo(key)


@group.command("list")
def listed(as_json: AsJson = False) -> None:
    """Lists the ids, tenants and scopes of all keys. The keys themselves are not stored.

    Exit code: 0 printed, 1 the file cannot be read. Example: hmx keys list
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
    which: Annotated[str, typer.Argument(metavar="ID", help="The key's id from `hmx keys list`, or the key itself.")],
) -> None:
    """Revokes a key: the next request with it is refused, and its open streams end.

    Exit code: 0 revoked, 1 no such key, or several match. Example: hmx keys revoke 3f9a0c12d4be
    """
    file = _file()
    if len(which) < SURE:
        fail(f"give at least {SURE} characters of the id: `hmx keys list` shows it")
    try:
        taken_out(file, which)
    except LookupError as error:
        fail(str(error))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("revoked")


def _told(grant: Grant | None) -> tuple[str, str]:
    return (grant.tenant, " ".join(sorted(grant.scopes))) if grant is not None else ("?", "invalid line")


def _file() -> Path:
    settings = Settings.load()
    if not settings.api_keys:
        fail("HMX_API_KEYS is not set: set it to the key file, for this command and for the service")
    return Path(settings.api_keys)
