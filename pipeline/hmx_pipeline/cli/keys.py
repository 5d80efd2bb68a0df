"""`hmx keys`: creates, lists and revokes API keys of the service; the file holds only their hashes.

Enters: a tenant with scopes, subject and agent; or a key's id. Leaves: the file of HMX_API_KEYS, changed; a new key on
standard output, once.
"""

from pathlib import Path
from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, fail, many, print_json, table
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.service.api_keys import NAME, USUAL, Grant, Scope, add, is_name, parse
from hmx_pipeline.service.api_keys import revoke as taken_out
from hmx_pipeline.settings import Settings

SURE: Final = 8
"""Shortest id prefix that `revoke` accepts."""

group = typer.Typer(no_args_is_help=True)


@group.command()
def new(
    tenant: Annotated[str, typer.Argument(help="The tenant that the key belongs to.")],
    scope: Annotated[
        list[Scope] | None, typer.Option(help="read, write or admin; repeatable. Default: read and write.")
    ] = None,
    subject: Annotated[
        str | None, typer.Option(help="The only person whose memory the key opens, beside what the tenant shares.")
    ] = None,
    agent: Annotated[
        str | None, typer.Option(help="The only agent whose events the key writes; only then is it proven.")
    ] = None,
) -> None:
    """Creates an API key: prints it once, and adds its SHA-256 to the file. Services accept it from the next request.

    Exit code: 0 created, 1 the file cannot be written. Example: HMX_API_KEYS=keys.txt hmx keys new acme --scope read
    """
    file = _file()
    for what, name in (("tenant", tenant), ("subject", subject), ("agent", agent)):
        if name is not None and not is_name(name):
            fail(f"the {what} needs printable characters, no space at either end, and at most {ID_BYTES} bytes")
    if subject is not None and Scope.ADMIN in (scope or ()):
        fail("the scope admin is an operator's: leave out --subject, or the scope")
    try:
        key = add(file, Grant(tenant, frozenset(scope) if scope else USUAL, subject, agent))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    ERR.print("the key; it cannot be shown again:")
    typer.echo(key)


@group.command("list")
def listed(as_json: AsJson = False) -> None:
    """Lists the ids, tenants, scopes, subjects and agents of all keys. The keys themselves are not stored.

    Exit code: 0 printed, 1 the file cannot be read. Example: hmx keys list
    """
    file = _file()
    try:
        found = list(parse(file.read_text().splitlines()))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    rows = [(recognised[:NAME], *_told(grant)) for recognised, grant in found]
    if as_json:
        print_json(
            [
                {"id": one, "tenant": tenant, "scopes": scopes.split()}
                | ({"subject": subject} if subject else {})
                | ({"agent": agent} if agent else {})
                for one, tenant, scopes, subject, agent in rows
            ]
        )
    else:
        OUT.print(table(many(len(rows), "key"), ("id", "tenant", "scopes", "subject", "agent"), rows))


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


def _told(grant: Grant | None) -> tuple[str, str, str, str]:
    if grant is None:
        return "?", "invalid line", "", ""
    return grant.tenant, " ".join(sorted(grant.scopes)), grant.subject or "", grant.agent or ""


def _file() -> Path:
    settings = Settings.load()
    if not settings.api_keys:
        fail(
            "HMX_API_KEYS is not set: it names the key file, for this command and for the service. It need not exist "
            "yet: `export HMX_API_KEYS=$PWD/keys.ndjson`"
        )
    return Path(settings.api_keys)
