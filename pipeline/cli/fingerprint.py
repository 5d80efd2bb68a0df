"""`hmx fingerprint`: what was learnt, carried from one tenant or agent to another (HMX-F)."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from pydantic import ValidationError

from pipeline.cli.console import ERR, OUT, fail, plain, print_json, saying, table
from pipeline.cli.query import WIDTH, AsJson, Tenant, opened, tenant_or_only
from pipeline.cli.wait import wait_for_all
from pipeline.contracts.fingerprint import Fingerprint, Tier
from pipeline.contracts.keys import CONTROL_TENANT
from pipeline.contracts.plain import on_one_line
from pipeline.fingerprints.diff import Difference, differences
from pipeline.fingerprints.importing import UnreadableError, imports
from pipeline.intake.paths import path_of
from pipeline.kafka.barriers import LackingError
from pipeline.kafka.control import append_imports
from pipeline.settings import Settings

SHOWN: Final = 40

group: Final = typer.Typer(help="Fingerprints: what was learnt, to be carried elsewhere.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(group, name="fingerprint")


@group.command()
def export(
    tenant: Tenant = None,
    agent: Annotated[str | None, typer.Option(help="Only what this agent has taken part in learning.")] = None,
    tier: Annotated[
        Tier,
        typer.Option(
            help="full: everything; compact: active artifacts and digests, below 100 KB; minimal: summary and priors."
        ),
    ] = Tier.COMPACT,
    out: Annotated[Path | None, typer.Option(help="File to write; standard output where it is left out.")] = None,
) -> None:
    """Exports what a tenant, or one of its agents, has learnt. The same memory gives the same bytes.

    Exit code: 0 exported, 1 there is no such tenant.

    Example: hmx fingerprint export --tenant acme --out acme.json
    """
    from pipeline.service.fingerprint import FingerprintRequest, make_fingerprint

    with opened() as store:
        chosen = tenant_or_only(store, tenant)
        made = make_fingerprint(store, chosen, FingerprintRequest(tier=tier, agent_id=agent))
    value = made.to_json() + b"\n"
    if out is None:
        typer.get_binary_stream("stdout").write(value)
        return
    out.write_bytes(value)
    ERR.print(f"{plain(str(out))}: {len(value):,} bytes, sha256 {made.fingerprint_hash}", soft_wrap=True)


@group.command("import")
def importing(
    file: Annotated[Path, typer.Argument(help="A fingerprint, as `export` writes it.")],
    tenant: Annotated[str, typer.Option(help="Who is given it; may be new.")],
    agent: Annotated[str, typer.Option(help="Only for this agent of the tenant; for all of them if left out.")] = "",
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for it at most.")] = 120.0,
    as_json: AsJson = False,
) -> None:
    """Gives a tenant, or one of its agents, what somebody else has learnt: active artifacts and priors.

    Each is an event in the log, so a rebuild repeats it. Imported artifacts are marked and believed less than what the
    tenant learns itself, which replaces them.

    Exit code: 0 imported, 1 the file is no fingerprint, or Kafka did not take it.

    Example: hmx fingerprint import acme.json --tenant newcomer
    """
    if not tenant or tenant == CONTROL_TENANT:
        fail(f"{on_one_line(tenant or 'the empty name')} is no tenant that memory can be given to")
    settings, made = Settings.load(), read_fingerprint(file)
    try:
        given = imports(made, tenant, agent)
    except UnreadableError as error:
        fail(f"{file}: {error}")
    with saying("appending what it holds") as say:
        if lacking := append_imports(settings, given):
            fail(lacking)
        try:
            wait_for_all(settings, timeout, say)
        except LackingError as error:
            fail(f"it stands in the log; it is not in memory after {timeout:.0f} s: {error}")
    patterns = [one.pattern for one in given]
    if as_json:
        told = {"tenant_id": tenant, "agent_id": agent or None, "fingerprint_hash": made.fingerprint_hash}
        print_json({**told, "imported": patterns})
    else:
        whom = f"agent {agent} of tenant {tenant}" if agent else f"tenant {tenant}"
        OUT.print(f"imported for {plain(whom)}: {len(patterns):,} of fingerprint {made.fingerprint_id}", soft_wrap=True)


@group.command()
def diff(
    before: Annotated[Path, typer.Argument(help="A fingerprint, as `export` writes it.")],
    after: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: AsJson = False,
) -> None:
    """Says in what two fingerprints differ: artifacts, habits, graph, summary, priors.

    Exit code: 0 they say the same, 1 they differ.

    Example: hmx fingerprint diff last-week.json today.json
    """
    told = differences(read_fingerprint(before), read_fingerprint(after))
    if as_json:
        print_json([{**each._asdict(), "path": list(each.path)} for each in told])
    else:
        show_differences(told)
    if told:
        raise typer.Exit(1)


def read_fingerprint(file: Path) -> Fingerprint:
    """Ends with a line that says why where it is none."""
    try:
        return Fingerprint.model_validate_json(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        fail(f"{file} is no fingerprint: {on_one_line(path_of(first['loc']))}: {first['msg']}")


def show_differences(told: Sequence[Difference]) -> None:
    if not told:
        OUT.print("they say the same")
        return
    rows = [(each.part, " ".join(each.path), _said(each.before), _said(each.after)) for each in told[:SHOWN]]
    OUT.print(table(f"{len(told):,} differences", ("part", "what", "before", "after"), rows), width=WIDTH)
    if len(told) > SHOWN:
        OUT.print(f"[dim]and {len(told) - SHOWN:,} more; --json lists all[/]")


def _said(value: Any) -> str:
    return "-" if value is None else str(value)
