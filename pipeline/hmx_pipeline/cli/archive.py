"""`hmx archive`: retires an active artifact for good, by an event in the log."""

from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from hmx_pipeline.cli.console import OUT, AsJson, Timeout, fail, plain, print_json, saying
from hmx_pipeline.cli.opened_memory import Tenant, find_artifact, opened, tenant_or_only
from hmx_pipeline.cli.wait import until_in_memory
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.settings import Settings

if TYPE_CHECKING:
    from hmx_pipeline.store.fetch import Store

REASON: Final = 200

Json = dict[str, Any]


def archive(
    artifact_id: Annotated[str, typer.Argument(metavar="ID", help="The active artifact: its id or the end of it.")],
    tenant: Tenant = None,
    reason: Annotated[str, typer.Option(help=f"Why, kept with the artifact; at most {REASON} characters.")] = "",
    timeout: Timeout = 120.0,
    as_json: AsJson = False,
) -> None:
    """Retires an active artifact: packs stop showing it, and its pattern produces no new one.

    The decision is an event in the log, so it survives new evidence, an emptied Redis and a rebuild. It cannot be
    undone.

    Exit code: 0 archived, 1 the artifact does not exist or is not active.

    Example: hmx archive 9d1f02ab --reason "replaced by the new rollout"
    """
    from hmx_pipeline.contracts.evidence import Archive
    from hmx_pipeline.kafka.control_producer import append_archive

    settings = Settings.load()
    with opened() as store:
        chosen = tenant_or_only(store.tenants(), tenant)
        found = find_artifact(
            chosen,
            artifact_id,
            lambda name: store.get_artifact(chosen, name),
            lambda status: store.all_artifacts(chosen, None, status),
        )
        if found["status"] == Status.ACTIVE:
            with saying("appending the decision") as say:
                append_archive(
                    settings,
                    Archive(
                        tenant_id=chosen,
                        pattern=found["metadata"]["pattern"],
                        artifact_id=found["artifact_id"],
                        reason=reason[:REASON],
                    ),
                )
                until_in_memory(settings, "the decision", timeout, say)
            found = _versions(store, chosen, found)[-1]  # a newer one may have appeared meanwhile
        if found["status"] != Status.ARCHIVED:
            _refuse(store, chosen, found)
    if as_json:
        print_json(found)
    else:
        OUT.print(f"archived: [bold]{plain(found['title'])}[/] [dim]{plain(found['artifact_id'])}[/]", soft_wrap=True)


def _refuse(store: "Store", tenant: str, artifact: Json) -> NoReturn:
    """Fails: only an active artifact can be archived (HMX-A §5)."""
    name = f"{on_one_line(artifact['artifact_id'])} is {artifact['status']}"
    newest = _versions(store, tenant, artifact)[-1]
    if newest["artifact_id"] != artifact["artifact_id"] and newest["status"] == Status.ACTIVE:
        fail(f"{name}; its active successor is {on_one_line(newest['artifact_id'])}")
    fail(f"{name}; only an active artifact can be archived: `hmx artifacts` lists them")


def _versions(store: "Store", tenant: str, artifact: Json) -> list[Json]:
    from hmx_pipeline.audit.version_history import chain

    current = store.get_artifact(tenant, artifact["artifact_id"]) or artifact
    return chain(current, lambda artifact_id: store.get_artifact(tenant, artifact_id))
