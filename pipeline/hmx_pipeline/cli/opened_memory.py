"""Memory as commands open it: which tenant is asked about, and one record by its id or by the end of it.

Enters: settings; a tenant or None; an id or its end. Leaves: an open `Store`, a tenant, a record as JSON; else the
process ends with one line that says what to do.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from hmx_pipeline.cli.console import fail
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.settings import Settings

if TYPE_CHECKING:
    from hmx_pipeline.store.fetch import Store

SHORT: Final = 8
DROPS: Final = 10
WIDTH: Final = 80

Json = dict[str, Any]
Tenant = Annotated[str | None, typer.Option(help="The tenant; optional if memory holds only one.")]
Subject = Annotated[
    str | None, typer.Option(help="The person to answer; without one, only what the whole tenant shares is found.")
]


@contextmanager
def opened() -> Iterator["Store"]:
    """Opens memory in Redis, for what is decided by an event in the log; exits with one line if it can't be reached."""
    from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError
    from hmx_pipeline.store.fetch import Store

    try:
        yield Store.open(Settings.load())
    except StoreUnavailableError as error:
        fail(f"{error}. `hmx status` shows whether Redis runs.")
    except TamperedError as error:
        fail(f"{error} is damaged in Redis and is being restored: run the command again in a few seconds")


def tenant_or_only(known: Sequence[str], tenant: str | None) -> str:
    """Returns the requested tenant of those known, or the only one; otherwise exits with a list of tenants."""
    if not known:
        fail("memory is empty: publish events with `hmx publish FILE`, then `hmx wait`")
    if tenant is None and len(known) > 1:
        fail(f"memory holds several tenants, choose one with --tenant: {_listed(known)}")
    chosen = known[0] if tenant is None else tenant
    if chosen not in known:
        fail(f"memory holds no tenant {on_one_line(chosen)}; choose one with --tenant: {_listed(known)}")
    return chosen


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(on_one_line, names))


def find_artifact(
    tenant: str, asked: str, read: Callable[[str], Json | None], listed: Callable[[Status], Iterable[Json]]
) -> Json:
    """Finds an artifact in any status, by its id or by the end of it."""
    return find_by_end(
        asked,
        read,
        lambda: (each["artifact_id"] for status in Status for each in listed(status)),
        f"tenant {tenant} has no artifact {asked}; `hmx artifacts` lists them",
    )


def find_by_end(
    asked: str, read: Callable[[str], Json | None], names: Callable[[], Iterable[str]], nothing: str
) -> Json:
    """Reads what has this id, or the one id that ends so; exits with an error, `nothing` if there is none."""
    exact = read(asked)
    if exact is not None:
        return exact
    alike = sorted({name for name in names() if name.endswith(asked)})
    if len(alike) > 1:
        fail(f"several ids end with {asked}: {_listed(alike[:DROPS])}")
    found = read(alike[0]) if alike else None
    if found is None:
        fail(nothing)
    return found
