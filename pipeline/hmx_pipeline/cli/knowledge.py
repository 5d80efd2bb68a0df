"""`hmx knowledge`: lists what memory knows, and confirms, corrects or retracts it by an event in the log.

Enters: filters, which the service answers; or a record's id and a ruling. Leaves: records as a table or JSON; or an
event in the log, and the command returns once memory shows it.
"""

from typing import Annotated, Any

import typer

from hmx_pipeline.cli.console import OUT, AsJson, Timeout, fail, first_wrong, many, plain, print_json, saying, table
from hmx_pipeline.cli.opened_memory import SHORT, WIDTH, Tenant, find_by_end, opened, tenant_or_only
from hmx_pipeline.cli.service_client import PAGE, ServiceClient
from hmx_pipeline.contracts.options import Kind, Standing
from hmx_pipeline.settings import Settings

Json = dict[str, Any]
Record = Annotated[str, typer.Argument(metavar="ID", help="The record: its id or the end of it.")]
Reason = Annotated[str, typer.Option(help="Why, kept with the record; at most 200 characters.")]

group = typer.Typer(no_args_is_help=True)


@group.command("list")
def listed(
    tenant: Tenant = None,
    kind: Annotated[Kind | None, typer.Option(help="Only this kind.")] = None,
    status: Annotated[list[Standing] | None, typer.Option(help="Repeatable; default: what holds.")] = None,
    subject: Annotated[str | None, typer.Option(help="Only what is private to this subject.")] = None,
    session: Annotated[str | None, typer.Option(help="Only what this session alone said.")] = None,
    agent: Annotated[str | None, typer.Option(help="Only what sessions of this agent alone said.")] = None,
    text: Annotated[str, typer.Option(help="Only texts with all of these words.")] = "",
    since: Annotated[str | None, typer.Option(help="First stated at or after this time.")] = None,
    until: Annotated[str | None, typer.Option(help="First stated at or before this time.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most records to list.")] = PAGE,
    as_json: AsJson = False,
) -> None:
    """Lists facts, rules, entities, relations and conflicts.

    Exit code: 0 printed, 1 no such tenant, 2 a time is not valid.

    Example: hmx knowledge list --kind memory --text address
    """
    service = ServiceClient.of(tenant)
    asked = {"kind": kind, "status": status, "subject": subject, "session": session, "agent": agent, "text": text}
    found: list[Json] = []
    cursor: str | None = ""
    while cursor is not None and len(found) < limit:
        wanted = {**asked, "since": since, "until": until, "limit": min(PAGE, limit - len(found)), "cursor": cursor}
        page = service.get("knowledge", **wanted)
        found += page["records"]
        cursor = page.get("cursor")
    if as_json:
        print_json({"tenant_id": service.tenant, "records": found, "more": cursor is not None})
        return
    rows = [
        (r["kind"], r["status"], f"{r['confidence']:.2f}", r["text"], r.get("subject_id", ""), r["record_id"][-SHORT:])
        for r in found
    ]
    title = f"{many(len(rows), 'record')} of tenant {plain(service.tenant)}" + (
        ", and more" if cursor is not None else ""
    )
    OUT.print(table(title, ("kind", "status", "conf", "text", "subject", "id"), rows), width=WIDTH)


@group.command()
def confirm(
    record_id: Record, tenant: Tenant = None, reason: Reason = "", timeout: Timeout = 120.0, as_json: AsJson = False
) -> None:
    """Confirms a record: it holds with full confidence, whatever others say.

    Exit code: 0 confirmed, 1 no such record, or it cannot be confirmed. Example: hmx knowledge confirm 9d1f02ab
    """
    _rule("confirm", record_id, tenant, timeout, as_json, reason=reason)


@group.command()
def correct(
    record_id: Record,
    text: Annotated[str, typer.Argument(help="The whole statement that holds instead.")] = "",
    value: Annotated[str, typer.Option(help="Only the new value; without a text, the old text with this value.")] = "",
    tenant: Tenant = None,
    reason: Reason = "",
    timeout: Timeout = 120.0,
    as_json: AsJson = False,
) -> None:
    """Corrects a record: another statement holds instead of it, and of all others about the same.

    Exit code: 0 corrected, 1 no such record. Example: hmx knowledge correct 9d1f02ab --value "9 Elm Road"
    """
    _rule("correct", record_id, tenant, timeout, as_json, text=text, value=value, reason=reason)


@group.command()
def retract(
    record_id: Record, tenant: Tenant = None, reason: Reason = "", timeout: Timeout = 120.0, as_json: AsJson = False
) -> None:
    """Retracts a record: it stays out, whatever evidence comes, until it is confirmed.

    Exit code: 0 retracted, 1 no such record. Example: hmx knowledge retract 9d1f02ab --reason "never was true"
    """
    _rule("retract", record_id, tenant, timeout, as_json, reason=reason)


def _rule(verb: str, asked: str, tenant: str | None, timeout: float, as_json: bool, **said: str) -> None:
    from pydantic import ValidationError

    from hmx_pipeline.cli.wait import until_in_memory
    from hmx_pipeline.contracts.ruling import RulingVerb
    from hmx_pipeline.queries.knowledge_query import RulingError, RulingRequest, earlier, rule

    settings = Settings.load()
    with opened() as store:
        chosen = tenant_or_only(store.tenants(), tenant)
        record = find_by_end(
            asked,
            lambda name: store.get_knowledge(chosen, name),
            lambda: store.knowledge_ids(chosen),
            f"tenant {chosen} knows no {asked}; `hmx knowledge list` lists its records",
        )
        try:
            ruling = rule(settings, store, record, RulingVerb(verb), RulingRequest(**said))
        except RulingError as error:
            fail(str(error))
        except ValidationError as error:
            fail(first_wrong(error), 2)
        with saying("waiting for memory") as say:
            until_in_memory(settings, "the ruling", timeout, say)
        shown = ruling.stated.record_id if ruling.stated is not None else ruling.record_id
        found = store.get_knowledge(chosen, shown) or record
    before = earlier(record)
    if as_json:
        print_json({"verb": verb, "replaces": before, "record": found})
        return
    OUT.print(f"{found['status']}: [bold]{plain(found['text'])}[/] [dim]{plain(shown)}[/]", soft_wrap=True)
    if before is not None:
        OUT.print(f"[dim]this replaces an earlier ruling on the record: {plain(before)}[/]")
