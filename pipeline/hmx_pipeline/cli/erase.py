"""`hmx erase`: takes out of memory what a subject, a session or a whole tenant has left there, and gives a receipt."""

from pathlib import Path
from typing import Annotated

import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, Timeout, fail, plain, print_json, saying
from hmx_pipeline.cli.opened_memory import opened
from hmx_pipeline.cli.wait import wait_for_all
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.receipt import NEVER
from hmx_pipeline.settings import Settings


def erase(
    tenant: Annotated[str, typer.Option(help="The tenant.")],
    subject: Annotated[
        str | None, typer.Option(help="Erase what memory knows of this subject, and its sessions.")
    ] = None,
    session: Annotated[str | None, typer.Option(help="Erase this session.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Erase the whole tenant.")] = False,
    erasure: Annotated[
        str | None, typer.Option("--id", help="Make the receipt of this erasure again, within a week; erases nothing.")
    ] = None,
    receipt: Annotated[Path | None, typer.Option(help="Write the receipt to this file.")] = None,
    timeout: Timeout = 120.0,
    as_json: AsJson = False,
) -> None:
    """Erases a subject, a session or a tenant from memory, up to now, and prints a signed receipt.

    The erasure is an event in the log, so refills, replays and rebuilds honour it. Events that come later stay. It
    cannot be undone.

    Exit code: 0 erased, 1 memory holds nothing of it, 2 wrong usage.

    Example: hmx erase --tenant acme --subject user-7 --receipt user-7.json
    """
    from hmx_pipeline.queries import erasure_query
    from hmx_pipeline.runtime.barriers import LackingError

    chosen = [scope for scope, given in zip(ErasedScope, (subject, session, everything), strict=True) if given]
    if len(chosen) != 1:
        fail("give exactly one of --subject, --session and --all", 2)
    settings, what = Settings.load(), (chosen[0], subject or session or "")
    settings.require_control_key()
    with opened() as store, saying("looking for it in memory") as say:

        def wait() -> None:
            wait_for_all(settings, timeout, say)

        try:
            if erasure is None:
                made = erasure_query.erase(settings, store, tenant, *what, wait)
            else:
                made = erasure_query.receipt_of(settings, store, tenant, erasure, *what, wait)
        except erasure_query.NothingToEraseError as error:
            fail(str(error))
        except LackingError as error:
            fail(f"nothing was erased, because memory may not hold all of it yet ({error}): run it again")
        except erasure_query.NotFollowedError as error:
            fail(
                f"the erasure is in the log, but not in memory after {timeout:.0f} s ({error}): for its receipt, give"
                f" --id {error.erasure_id} too"
            )
    if receipt is not None:
        receipt.write_bytes(made.to_json() + b"\n")
    if as_json:
        print_json(made.model_dump(mode="json"))
        return
    counts = ", ".join(f"{count:,} {kind}" for kind, count in made.gone.items())
    OUT.print(f"erased: {counts} [dim]{plain(made.erasure_id)}[/]", soft_wrap=True)
    endless = [topic for topic, at in made.last_copy.items() if at == NEVER]
    if endless:
        ERR.print(f"copies stay for ever in {', '.join(endless)}, which have no bound: see `hmx topics plan`")
    else:
        OUT.print(f"the last copy is deleted at {max(made.last_copy.values())}")
    if receipt is None:
        ERR.print("to keep the receipt, use --receipt FILE or --json")
