"""`hmx artifacts` and `hmx pack`: list and show artifacts, and assemble a context pack. Both ask the service.

Enters: what to list, or a question. Leaves: the service's JSON (`--json`), or text in 80 columns; exit code 1 if there
is no such tenant or artifact.
"""

import textwrap
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import orjson
import typer
from rich.text import Text

from hmx_pipeline.cli.console import OUT, AsJson, fail, many, plain, print_json, table
from hmx_pipeline.cli.opened_memory import DROPS, SHORT, WIDTH, Json, Subject, Tenant, find_artifact
from hmx_pipeline.cli.service_client import ServiceClient
from hmx_pipeline.contracts.options import (
    ENTRY_MARK,
    NOTHING,
    Filling,
    Past,
    Profile,
    Section,
    SourceType,
    Status,
    Strategy,
)
from hmx_pipeline.contracts.safe_text import on_one_line

BAR: Final = 40
_USUAL: Final = (Status.ACTIVE, Status.DRAFT)


def artifacts(
    artifact_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One artifact: its id or the end of it.")
    ] = None,
    tenant: Tenant = None,
    artifact_type: Annotated[str | None, typer.Option("--type", help="Only this type, e.g. failure_playbook.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only this status; default: active and draft.")] = None,
    as_json: AsJson = False,
) -> None:
    """Lists artifacts, or shows one in full.

    Exit code: 0 printed, 1 no such artifact or tenant.

    Example: hmx artifacts --type failure_playbook
    """
    service = ServiceClient.of(tenant)

    def all_of(wanted: Status) -> Iterator[Json]:
        for page in service.pages("artifacts", status=wanted, type=artifact_type):
            yield from page["artifacts"]

    if artifact_id is not None:
        found = find_artifact(service.tenant, artifact_id, partial(service.find, "artifacts"), all_of)
        print_json(found) if as_json else show_artifact(found)
        return
    listed = [artifact for wanted in ((status,) if status else _USUAL) for artifact in all_of(wanted)]
    if as_json:
        print_json({"tenant_id": service.tenant, "artifacts": listed})
    else:
        show_artifacts(listed, service.tenant)


def pack(
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What the agent wants to do or know.")],
    tenant: Tenant = None,
    budget: Annotated[int, typer.Option(min=1, help="Largest size of the pack, in tokens.")] = 4096,
    section: Annotated[list[Section] | None, typer.Option(help="Only this section; repeatable.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Only entries from events with this tag; repeatable.")] = None,
    agent: Annotated[str | None, typer.Option(help="The requesting agent.")] = None,
    session: Annotated[str | None, typer.Option(help="The requesting session, for next steps.")] = None,
    subject: Subject = None,
    strategy: Annotated[Strategy, typer.Option(help="How entries are selected.")] = Strategy.RANKED,
    fill: Annotated[
        Filling, typer.Option(help="Relevant entries only, or everything that fits the budget.")
    ] = Filling.RELEVANT,
    from_session: Annotated[str | None, typer.Option(help="Only entries from this session.")] = None,
    from_agent: Annotated[str | None, typer.Option(help="Only entries from this agent.")] = None,
    profile: Annotated[
        Profile, typer.Option(help="Order by the question, or also by what was useful.")
    ] = Profile.DEFAULT,
    include: Annotated[
        list[Past] | None, typer.Option(help="Also superseded or archived artifacts, or unvalidated skills and doubts.")
    ] = None,
    as_of: Annotated[str | None, typer.Option(help="Memory as of this time: 2026-03-14T00:00:00Z.")] = None,
    vector: Annotated[
        Path | None, typer.Option(help="A file with the query's embedding: a JSON array of numbers.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="The model of the embedding.")] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Explain each entry and each drop.")] = False,
    text: Annotated[bool, typer.Option("--text", help="Print Markdown of about 150 words.")] = False,
    as_json: AsJson = False,
) -> None:
    """Assembles the context pack for a question.

    Exit code: 0 printed, 1 no such tenant, 2 the request is not valid.

    Example: hmx pack "How do I deploy to staging?" --tenant acme --budget 1000
    """
    made = ServiceClient.of(tenant).post(
        "context-packs",
        {
            "query": query,
            "token_budget": budget,
            "agent_id": agent,
            "session_id": session,
            "subject_id": subject,
            "sections": section or None,
            "tags": tag or None,
            "strategy": strategy,
            "fill": fill,
            "profile": profile,
            "lineage": {"session_id": from_session, "agent_id": from_agent} if from_session or from_agent else None,
            "include": include or None,
            "as_of": as_of,
            "explain": explain,
            "as_text": text,
            "query_vector": None if vector is None else _numbers(vector),
            "query_model": model,
        },
    )
    if as_json:
        print_json(made)
    elif text:
        OUT.print("\n".join(map(plain, made["metadata"]["as_text"].split("\n"))), soft_wrap=True)
    else:
        show_pack(made)
        if not made["entries"] and not subject:
            OUT.print("[dim]What people say is private to them: --subject NAME asks for one of them too.[/]")


def _numbers(file: Path) -> Any:
    try:
        return orjson.loads(file.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        fail(f"--vector {file}: {error}", 2)


def show_artifacts(listed: Sequence[Json], tenant: str) -> None:
    """Prints one line per artifact in 80 columns, highest confidence first."""
    if not listed:
        OUT.print(f"no artifacts of tenant {plain(tenant)} to list")
        return
    ordered = sorted(listed, key=lambda a: (a["status"], a["artifact_type"], -a["confidence"], a["artifact_id"]))
    rows = [
        (
            artifact["artifact_type"],
            artifact["status"],
            f"{artifact['confidence']:.2f}",
            artifact.get("observed_count", len(artifact["source_events"])),
            artifact["title"],
            artifact["artifact_id"][-SHORT:],
        )
        for artifact in ordered
    ]
    title = f"{many(len(rows), 'artifact')} of tenant {plain(tenant)}"
    OUT.print(table(title, ("type", "status", "conf", "runs", "title", "id"), rows), width=WIDTH)


def show_artifact(artifact: Json) -> None:
    """Prints an artifact in full, with its sources as counts."""
    OUT.print(f"[bold]{plain(artifact['title'])}[/]", soft_wrap=True)
    OUT.print(f"[dim]{plain(artifact['artifact_type'])} {plain(artifact['artifact_id'])}[/]\n", soft_wrap=True)
    _say(artifact["summary"])
    OUT.print()
    rests = (
        f"{many(len(artifact['source_events']), 'event')}, {many(len(artifact['source_memory_ids']), 'contribution')}"
    )
    fields = {
        "status": f"{artifact['status']}, version {artifact['version']}",
        "confidence": f"{artifact['confidence']:.2f}",
        "observed": many(artifact.get("observed_count", 0), "run"),
        "success rate": f"{artifact['success_rate']:.0%}" if "success_rate" in artifact else None,
        "rests on": rests,
        "tags": ", ".join(artifact.get("tags", ())),
        "imported": artifact["metadata"].get("imported", {}).get("fingerprint_hash"),
        "created at": artifact["created_at"],
        "supersedes": artifact.get("supersedes"),
        "superseded by": artifact.get("superseded_by"),
    }
    for name, value in fields.items():
        if value:
            OUT.print(f"[dim]{name:<15}[/]{plain(value)}", soft_wrap=True)
    _show_content(artifact["content"])


def _show_content(content: Json) -> None:
    """Prints the content of any type: one heading per field, objects in lists numbered."""
    for name, value in content.items():
        if value in (None, "", [], {}):
            continue
        OUT.print(f"\n[bold cyan]{plain(_words(name))}[/]")
        items = value if isinstance(value, list) else [value]
        for number, item in enumerate(items, 1):
            mark = f"{number}. " if isinstance(item, dict) and len(items) > 1 else "- " if len(items) > 1 else ""
            _say(_line(item), "  " + mark)


def _line(value: Any) -> str:
    """Returns a value as one line: an object's description, then its other fields."""
    if isinstance(value, list):
        return ", ".join(_line(item) for item in value)
    if not isinstance(value, dict):
        return str(value)
    first = str(value.get("description", ""))
    rest = [
        f"{_words(name)} {_line(item)}"
        for name, item in value.items()
        if name not in ("description", "order") and item not in (None, "", [], {}, False)
    ]
    return f"{first} ({'; '.join(rest)})" if first and rest else first or "; ".join(rest)


def show_pack(made: Json) -> None:
    """Prints entries by section, the token budget, drops with reasons, and the source of everything."""
    budget, about, metadata = made["token_budget"], made["assembly_metadata"], made["metadata"]
    used, total = budget["used"], budget["total_budget"]
    _say(made["query_context"], style="bold")
    filled = round(BAR * used / total)
    OUT.print(f"[green]{'█' * filled}[/][dim]{'░' * (BAR - filled)}[/] {used:,} of {total:,} tokens")
    counts = (
        f"{about['included_count']} of {about['candidate_count']} candidates in {about['assembly_duration_ms']:.0f} ms"
    )
    asked = about["query_classification"]
    when = f" about {asked['time_ref']}" if "time_ref" in asked else ""
    OUT.print(f"[dim]{asked['intent']} question{when}, {counts}[/]", soft_wrap=True)
    why = metadata.get("explained", {"entries": (), "drops": ()})
    reasons = {one["rank"]: one for one in (*why["entries"], *why["drops"])}
    if cut := metadata.get("memory_cut"):
        lost = ", ".join(f"{many(count, 'record')} of {topic}" for topic, count in cut.items())
        OUT.print(f"[yellow]memory lacks {plain(lost)}: retention deleted them before it was filled[/]")
    if not metadata.get("memory_complete", True):
        percent = metadata["memory_filling"]["percent"]
        OUT.print(f"[yellow]memory is {percent:g} % filled, so this pack may be incomplete[/]")
    for section in Section:
        _show_section(made, section, reasons)
    if not made["entries"]:
        OUT.print(f"\n{NOTHING}")
    rules = made.get("decision_constraints", ())
    if rules:
        OUT.print("\n[bold cyan]rules[/]")
    for rule in rules:
        _say(rule["constraint"], " should  " if rule["override_allowed"] else "   must  ")
    if "workflow_hints" in made:
        _show_hints(made["workflow_hints"], metadata.get("precedents", {}))
    if dropped := made.get("dropped_entries"):
        OUT.print()
        _show_drops(dropped, budget["dropped_count"], reasons)
    OUT.print(f"\n[dim]pack {made['pack_id']}[/]")


def _show_section(made: Json, section: Section, reasons: Mapping[int, Json]) -> None:
    entries = [entry for entry in made["entries"] if entry["section"] == section]
    if not entries:
        return
    given = made["token_budget"]["section_budgets"][section]
    OUT.print(f"\n[bold cyan]{section}[/] [dim]{given['used']:,} of {given['budget']:,} tokens[/]")
    for entry in entries:
        _say(entry["content"].removeprefix(ENTRY_MARK).lstrip(), f"{entry['rank']:>3}  ")
        support = ""
        if entry["source_type"] == SourceType.ARTIFACT:
            rests = entry["provenance"]
            support = f", conf {rests['confidence']:.2f}, {many(rests['evidence_count'], 'run')}"
        source = f"{entry['source_type']} {plain(entry['source_id'])}"
        OUT.print(f"     [dim]{entry['relevance_score']:.2f} {source}{support}[/]", soft_wrap=True)
        if entry["rank"] in reasons:
            OUT.print(f"     [dim]{plain(_why(reasons[entry['rank']]))}[/]", soft_wrap=True)


def _show_hints(hints: Json, precedents: Mapping[str, Json]) -> None:
    current, steps = hints.get("current_step"), hints["suggested_next_steps"]
    if steps:
        where = f" [dim]step {current} of {hints['total_steps']}[/]" if hints.get("total_steps") else ""
        OUT.print(f"\n[bold cyan]next[/]{where}")
    number = current or 1
    for step in steps:
        if step["artifact_id"] == hints.get("active_task_schema"):
            _say(step["description"], f"{number:>3}  ")
            number += 1
        elif step["artifact_id"] in precedents:
            session = precedents[step["artifact_id"]]["session_id"]
            _say(f"{step['description']} (as session {session} did, {step['confidence']:.0%})", "  -  ")
        else:
            _say(f"{step['description']} (helped before)", "  -  ")
    for blocker in hints["blockers"]:
        _say(f"blocked by {blocker}", "     ", style="red")


def _why(reason: Json) -> str:
    """Returns the matched words of an entry and the parts of its score."""
    parts = ", ".join(f"{name} {value:.2f}" for name, value in reason.get("score", {}).items())
    return f"matches {' '.join(reason['matched']) or 'no word'}; {parts}"


def _show_drops(dropped: Sequence[Json], count: int, why: Mapping[int, Json]) -> None:
    reasons = Counter(drop["drop_reason"] for drop in dropped)
    said = ", ".join(f"{n:,} {reason}" for reason, n in reasons.most_common())
    listed = f" (of the best {len(dropped):,})" if count > len(dropped) else ""
    rows = [
        (d["rank"], d["section"], f"{d['relevance_score']:.2f}", d["drop_reason"], d["source_id"])
        for d in dropped[:DROPS]
    ]
    columns = ("rank", "section", "score", "reason", "source")
    OUT.print(table(f"{count:,} dropped: {said}{listed}", columns, rows), width=WIDTH)
    for drop in dropped[:DROPS]:
        if drop["rank"] in why:
            told = why[drop["rank"]]
            enough = f"; a budget of {told['budget']:,} tokens includes it" if "budget" in told else ""
            OUT.print(f"{drop['rank']:>5}  [dim]{plain(told['because'] + enough)}[/]", soft_wrap=True)
    if count > len(rows):
        OUT.print(f"[dim]and {count - len(rows):,} more: --json lists {len(dropped):,}[/]")


def _say(text: str, mark: str = "", style: str | None = None) -> None:
    """Prints text wrapped at WIDTH; later lines are indented under the first."""
    hanging = " " * len(mark)
    for number, line in enumerate(map(on_one_line, text.splitlines())):
        first = mark if number == 0 else hanging
        wrapped = textwrap.fill(
            line, WIDTH, initial_indent=first, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False
        )
        OUT.print(Text(wrapped, style or ""), soft_wrap=True)


def _words(name: str) -> str:
    return name.replace("_", " ")
