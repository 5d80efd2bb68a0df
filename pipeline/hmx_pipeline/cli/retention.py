"""`hmx retention`: what a tenant's policies would take out of memory, and the policy by count applied.

Enters: a tenant, and policies to try; else those that are set. Leaves: counts of what would leave, by policy and kind
(`plan`); or an event in the log (`apply`).
"""

from typing import Annotated, Final

import typer

from hmx_pipeline.cli.console import OUT, AsJson, fail, plain, print_json, table
from hmx_pipeline.cli.opened_memory import opened
from hmx_pipeline.settings import Settings

group: Final = typer.Typer(no_args_is_help=True)
Name = Annotated[str, typer.Argument(metavar="NAME", help="The tenant.")]


@group.command()
def plan(
    name: Name,
    policy: Annotated[
        str | None,
        typer.Argument(metavar="POLICY", help="Policies to try, such as all:90d; default: those that are set."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Shows what would leave a tenant's memory by now, by policy and kind. It changes nothing.

    Exit code: 0 shown, 1 the tenant has no policy, 2 no such policy.

    Example: hmx retention plan acme all:90d,tool_result:7d
    """
    from hmx_pipeline.cli.tenant import retention_in
    from hmx_pipeline.queries import retention_query

    asked = retention_in(name, policy) if policy is not None else None
    with opened() as store:
        try:
            found = retention_query.plan(Settings.load(), store, name, asked)
        except LookupError as error:
            fail(str(error))
    if as_json:
        print_json(found.model_dump())
        return
    for kind, at in found.before.items():
        OUT.print(f"{plain(kind)}: what was before {at} leaves")
    if not found.leaves:
        OUT.print(f"nothing would leave by {plain(found.policy)}", soft_wrap=True)
        return
    rows = [(row.policy, row.kind, row.count) for row in found.leaves]
    OUT.print(table(f"Leaving by {plain(found.policy)}", ("policy", "kind", "count"), rows))


@group.command()
def apply(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="The tenant. Default: all that have a policy by count.")
    ] = None,
) -> None:
    """Lets the sessions leave that are more than the tenant keeps, by an event in the log. Run it as often as you like.

    Policies by age and class need no command: they take what has become too old at midnight, UTC.

    Exit code: 0 done, 1 the tenant has no policy by count, or it is not in the log. Example: hmx retention apply acme
    """
    from hmx_pipeline.contracts.timestamps import format_ms
    from hmx_pipeline.queries import retention_query

    settings = Settings.load()
    with opened() as store:
        for tenant in [name] if name is not None else retention_query.counted(settings):
            try:
                at = retention_query.apply(settings, store, tenant)
            except LookupError as error:
                fail(str(error))
            told = f"what was before {format_ms(at)} leaves" if at else "no session is too many"
            OUT.print(f"{plain(tenant)}: {told}", soft_wrap=True)
