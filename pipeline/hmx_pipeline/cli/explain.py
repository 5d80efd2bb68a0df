"""`hmx explain`: why an artifact has its status, why a statement is believed, and why an artifact is missing."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.text import Text

from hmx_pipeline.audit.artifact_reasons import Absence, ArtifactReasons, missing, words_of
from hmx_pipeline.audit.artifact_reasons import explain as explained
from hmx_pipeline.audit.coverage import lessons
from hmx_pipeline.audit.version_history import chain
from hmx_pipeline.cli.console import OUT, AsJson, fail, many, plain, print_json, table
from hmx_pipeline.cli.opened_memory import SHORT, WIDTH, Subject, Tenant, find_by_end, opened, tenant_or_only
from hmx_pipeline.compiler.evidence_kind import Need
from hmx_pipeline.compiler.knowledge.authority import why
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.safe_text import on_one_line
from hmx_pipeline.runtime.state_topics import state_records
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import PATTERNS

if TYPE_CHECKING:
    from hmx_pipeline.contracts.pack import ContextPack
    from hmx_pipeline.store.fetch import Store

QUERY: Final = 1_000
"""Longest question, in characters."""
SHOWN: Final = 12
"""Contributions and versions shown; `--json` has all."""

Json = dict[str, Any]


def explain(
    artifact_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID",
            help="An artifact in any status, or a knowledge record: its id or the end of it.",
        ),
    ] = None,
    lacking: Annotated[
        str | None, typer.Option("--missing", metavar="WORDS", help="A subject that memory should know about.")
    ] = None,
    tenant: Tenant = None,
    subject: Subject = None,
    as_json: AsJson = False,
) -> None:
    """Shows what an artifact rests on, which conditions were checked and how it got its status.

    For a knowledge record, tells why it is believed and what would outweigh it.

    With --missing, tells whether a procedure, fix, rule and fact about these words are known, and how each is learnt.
    Then it lists matching patterns and what they lack: successes, sessions or recoveries.

    Exit code: 0 explained, 1 no such artifact, or nothing known and no pattern matches, 2 give either ID or --missing.

    Example: hmx explain 9d1f02ab

    Example: hmx explain --missing "deploy to staging"
    """
    if (artifact_id is None) == (lacking is None):
        fail("give either an artifact ID or --missing WORDS: `hmx artifacts` lists the ids", 2)
    with opened() as store:
        chosen = tenant_or_only(store.tenants(), tenant)
        found_id = _either(store, chosen, artifact_id) if artifact_id is not None else {}
        known = found_id if "record_id" in found_id else None
        reasons = _reasons(store, chosen, found_id) if "artifact_id" in found_id else None
        pack = _asked(store, chosen, lacking, subject) if lacking else None
    if known is not None:
        _show_statement(known, as_json=as_json)
        return
    if reasons is not None:
        print_json(reasons.as_json()) if as_json else _show(reasons)
        return
    found = missing(lacking or "", state_records(Settings.load(), PATTERNS, chosen), chosen, subject or "")
    told = lessons(lacking or "", pack, found) if pack is not None else []
    if as_json:
        print_json({"lessons": [lesson._asdict() for lesson in told], "patterns": [each.as_json() for each in found]})
        return
    for lesson in told:
        OUT.print(plain(lesson.said), soft_wrap=True)
    if found:
        OUT.print()
        for absence in found:
            _show_absence(absence)
    elif not any(lesson.known for lesson in told):
        whose = "that this subject sees" if subject else "that all its subjects share"
        fail(f"tenant {on_one_line(chosen)} knows nothing of “{on_one_line(lacking or '')}” {whose}: try other words")


def _asked(store: "Store", tenant: str, words: str, subject: str | None) -> "ContextPack":
    from hmx_pipeline.queries.context_pack import make_pack
    from hmx_pipeline.retrieval.pack_request import PackRequest

    return make_pack(store, PackRequest(query=words[:QUERY], tenant_id=tenant, subject_id=subject))


def _either(store: "Store", tenant: str, asked: str) -> Json:
    """Finds an artifact or a knowledge record by its id or by the end of it."""

    def names() -> Iterator[str]:
        yield from store.knowledge_ids(tenant)
        yield from (each["artifact_id"] for status in Status for each in store.all_artifacts(tenant, None, status))

    return find_by_end(
        asked,
        lambda name: store.get_knowledge(tenant, name) or store.get_artifact(tenant, name),
        names,
        f"tenant {tenant} has no artifact or record {asked}: `hmx artifacts` and `hmx knowledge list` list them",
    )


def _reasons(store: "Store", tenant: str, artifact: Json) -> ArtifactReasons:
    versions = chain(artifact, lambda artifact_id: store.get_artifact(tenant, artifact_id))
    known = store.get_contributions(tenant, artifact["source_memory_ids"])
    return explained(artifact, versions, known, store.newest(tenant))


def _show(reasons: ArtifactReasons) -> None:
    artifact = reasons.artifact
    OUT.print(f"[bold]{plain(artifact['title'])}[/]", soft_wrap=True)
    OUT.print(f"[dim]{plain(artifact['artifact_type'])} {plain(artifact['artifact_id'])}[/]", soft_wrap=True)
    status = f"{artifact['status']}, chain {artifact['metadata']['chain']}, version {artifact['version']}"
    OUT.print(f"{status}: {plain(reasons.versions[_place(reasons)].cause)}", soft_wrap=True)
    if reasons.decayed:
        OUT.print("[yellow]packs leave it out: its evidence is over a year older than the newest event[/]")
    if reasons.needs:
        OUT.print()
        OUT.print(_needs("Conditions to become active, and current values", reasons.needs), width=WIDTH)
    _show_checked(artifact["metadata"].get("checked") or {})
    OUT.print()
    rows = [
        (each.at[:10], each.outcome, each.events, each.agent_id, each.session_id) for each in reasons.evidence[:SHOWN]
    ]
    title = f"Evidence: {many(len(reasons.evidence), 'contribution')}, newest first"
    OUT.print(table(title, ("date", "outcome", "events", "agent", "session"), rows), width=WIDTH)
    _say_more(len(reasons.evidence) - len(rows))
    if reasons.unresolved:
        OUT.print(f"[dim]{many(reasons.unresolved, 'contribution is', 'contributions are')} no longer in memory[/]")
    OUT.print()
    turns = reasons.versions[-SHOWN:]
    versions = [(t.version, t.status, t.at[:19], t.artifact_id[-SHORT:], t.cause) for t in turns]
    OUT.print(table("Versions of this chain", ("", "status", "since", "id", "because"), versions), width=WIDTH)
    _say_more(len(reasons.versions) - len(versions))


def _show_statement(known: Json, *, as_json: bool) -> None:
    record = KnowledgeRecord.model_validate(known)
    told = why(record)
    if as_json:
        print_json({"record": known, "believed": told})
        return
    OUT.print(f"[bold]{plain(record.text)}[/]", soft_wrap=True)
    OUT.print(f"[dim]{record.kind} {plain(record.record_id)}[/] {record.status}", soft_wrap=True)
    OUT.print(plain(told), soft_wrap=True)


def _place(reasons: ArtifactReasons) -> int:
    ids = [turn.artifact_id for turn in reasons.versions]
    return ids.index(reasons.artifact["artifact_id"])


def _say_more(count: int) -> None:
    if count > 0:
        OUT.print(f"[dim]and {count:,} more: --json lists all[/]")


def _needs(title: str, needs: Sequence[Need]) -> Any:
    rows = [
        (
            need.what,
            f"{round(need.has, 4):g}",
            f"{'≤' if need.at_most else '≥'} {round(need.wanted, 4):g}",
            Text.from_markup(_mark(need)),
        )
        for need in needs
    ]
    return table(title, ("", "has", "wanted", ""), rows)


def _mark(need: Need) -> str:
    return "[green]yes[/]" if need.met else "[red]no[/]"


def _show_checked(checked: Json) -> None:
    """Shows the numbers checked when the artifact got its status."""
    told = [f"{name.replace('_', ' ')} {value}" for name, value in checked.items() if isinstance(value, int | float)]
    if told:
        OUT.print(f"\n[dim]checked at that time: {plain(', '.join(told))}[/]", soft_wrap=True)


def _show_absence(absence: Absence) -> None:
    OUT.print(f"[bold]{plain(absence.title)}[/] [dim]{plain(absence.pattern.type)}[/]", soft_wrap=True)
    counts = {**absence.outcomes, "of unknown outcome": absence.outcomes["unknown"]}
    ends = ", ".join(f"{n} {name}" for name, n in sorted(counts.items()) if n and name != "unknown")
    OUT.print(f"  {many(absence.contributions, 'time')} in {many(absence.sessions, 'session')}: {ends}")
    if absence.active or all(need.met for need in absence.needs):
        OUT.print(f"  {plain(absence.said)}", soft_wrap=True)
    for need in () if absence.active else sorted(absence.needs, key=lambda need: need.met):
        OUT.print(f"  [dim]{_mark(need)} {plain(words_of(need))}[/]", soft_wrap=True)
    OUT.print()
