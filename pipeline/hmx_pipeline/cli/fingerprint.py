"""`hmx fingerprint`: exports and imports what a tenant or an agent has learnt (HMX-F).

Enters: a tenant or an agent, read from Redis; or a fingerprint's file. Leaves: a file or standard output; or, for an
import, events in the log, and the command returns once memory shows them.
"""

from pathlib import Path
from typing import Annotated, Final

import typer
from pydantic import ValidationError

from hmx_pipeline.cli.console import ERR, OUT, AsJson, Timeout, fail, first_wrong, plain, print_json, saying
from hmx_pipeline.cli.opened_memory import Tenant, opened, tenant_or_only
from hmx_pipeline.cli.wait import until_in_memory
from hmx_pipeline.contracts.fingerprint import Fingerprint, Tier
from hmx_pipeline.contracts.keys import CONTROL_TENANT
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.settings import Settings

group: Final = typer.Typer(no_args_is_help=True)


@group.command()
def export(
    tenant: Tenant = None,
    agent: Annotated[str | None, typer.Option(help="Only what rests on this agent's sessions.")] = None,
    tier: Annotated[
        Tier,
        typer.Option(
            help="full: everything; compact: active artifacts and digests, below 100 KB; minimal: summary and priors."
        ),
    ] = Tier.COMPACT,
    out: Annotated[Path | None, typer.Option(help="File to write; default: standard output.")] = None,
) -> None:
    """Exports what a tenant, or one of its agents, has learnt. The same memory gives the same bytes.

    Exit code: 0 exported, 1 there is no such tenant.

    Example: hmx fingerprint export --tenant acme --out acme.json
    """
    from hmx_pipeline.queries.fingerprint_query import make_fingerprint

    with opened() as store:
        chosen = tenant_or_only(store.tenants(), tenant)
        made = make_fingerprint(store, chosen, tier, agent)
    value = made.to_json() + b"\n"
    if out is None:
        typer.get_binary_stream("stdout").write(value)
        return
    out.write_bytes(value)
    ERR.print(f"{plain(str(out))}: {len(value):,} bytes, fingerprint_hash {made.fingerprint_hash}", soft_wrap=True)


@group.command("import")
def importing(
    file: Annotated[Path, typer.Argument(help="A fingerprint written by `export`.")],
    tenant: Annotated[str, typer.Option(help="The tenant that receives it; may be new.")],
    agent: Annotated[str, typer.Option(help="The agent of the tenant that receives it; default: all agents.")] = "",
    timeout: Timeout = 120.0,
    as_json: AsJson = False,
) -> None:
    """Gives a tenant, or one of its agents, what another has learnt: active artifacts and priors.

    Each item is an event in the log, so a rebuild repeats it. Imported artifacts are marked and have less confidence
    than what the tenant learns itself, which replaces them.

    Exit code: 0 imported, 1 the file is no fingerprint, or Kafka refused it.

    Example: hmx fingerprint import acme.json --tenant newcomer
    """
    from hmx_pipeline.fingerprints.import_plan import UnreadableError, imports
    from hmx_pipeline.kafka.control_producer import append_imports

    if not tenant or tenant == CONTROL_TENANT:
        fail(f"{on_one_line(tenant or 'the empty name')} cannot receive a fingerprint: choose another --tenant")
    settings, made = Settings.load(), read_fingerprint(file)
    try:
        given = imports(made, tenant, agent)
    except UnreadableError as error:
        fail(f"{file}: {error}")
    with saying("appending its artifacts and priors") as say:
        append_imports(settings, given)
        until_in_memory(settings, "the fingerprint", timeout, say)
    patterns = [one.pattern for one in given]
    if as_json:
        told = {"tenant_id": tenant, "agent_id": agent or None, "fingerprint_hash": made.fingerprint_hash}
        print_json({**told, "imported": patterns})
    else:
        whom = f"agent {agent} of tenant {tenant}" if agent else f"tenant {tenant}"
        OUT.print(f"imported for {plain(whom)}: {len(patterns):,} items of {made.fingerprint_id}", soft_wrap=True)


def read_fingerprint(file: Path) -> Fingerprint:
    """Reads a fingerprint file; exits with an error message if it is not valid."""
    try:
        return Fingerprint.model_validate_json(file.read_bytes())
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    except ValidationError as error:
        fail(f"{file} is not a fingerprint: {first_wrong(error)}")
