"""`hmx verify`: checks from the topics that every record has exactly one outcome (law 1)."""

from contextlib import nullcontext
from typing import Annotated

import typer

from hmx_pipeline.audit.audited_log import silent
from hmx_pipeline.audit.pipeline_conservation import Report, explain, places_of
from hmx_pipeline.audit.pipeline_conservation import verify as audit
from hmx_pipeline.audit.record_explanation import Explanation
from hmx_pipeline.cli.console import OUT, AsJson, as_typed, fail, many, plain, print_json, progress_bar, table
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.settings import Settings

SHOWN = 20
EXPLAINED = 5
"""Records of one id: for each the log is read once more."""
OFFSET_DIGITS = 19
_HEADS = {Outcome.RELEASED_LATE: "late", Outcome.LOST_TO_RETENTION: "lost"}


def verify(
    offset: Annotated[
        str | None, typer.Option(metavar="P:O", help="Explain one record, by partition and offset.")
    ] = None,
    event: Annotated[
        str | None, typer.Option(metavar="ID", help="Explain the records of this event_id; reads the whole log.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Checks from the topics, offset by offset, that every event has exactly one outcome.

    With --offset, explains one record of the events topic: its outcome, the cause and its outputs. With --event, every
    record that has this id.

    Exit code: 0 conserved, 1 not conserved, with every violation listed; with --event also if the log has no such id.

    Example: hmx wait && hmx verify

    Example: hmx verify --offset 3:1207
    """
    if event is not None and offset is not None:
        raise typer.BadParameter("--event and --offset both say which record: give one of them")
    place = place_of(offset) if offset is not None else None
    settings = Settings.load()
    with nullcontext(silent) if as_json else progress_bar() as say:
        if event is not None or place is not None:
            places = places_of(settings, event, say) if event is not None else [place] if place is not None else []
            explanations = [explain(settings, each, say) for each in places[:EXPLAINED]]
        else:
            report = audit(settings, say)
    if event is not None:
        _explain_all(event, explanations, places[EXPLAINED:], as_json)
        return
    if place is not None:
        _explain(explanations[0], as_json)
        return
    if as_json:
        print_json(report.as_json())
    else:
        _show(report)
    if not report.conserved:
        raise typer.Exit(1)


def place_of(text: str) -> tuple[int, int]:
    """Parses `3:1207` into partition and offset."""
    partition, _, offset = text.partition(":")
    if not (partition.isdecimal() and offset.isdecimal() and len(text) < 2 * OFFSET_DIGITS):
        raise typer.BadParameter(f"{text!r} is not of the form partition:offset, such as 3:1207")
    return int(partition), int(offset)


def _explain_all(event_id: str, found: list[Explanation], more: list[tuple[int, int]], as_json: bool) -> None:
    if not found:
        fail(f"the log has no event {event_id}: it was never published, or retention has deleted it")
    if as_json:
        places = [f"{partition}:{offset}" for partition, offset in more]
        print_json({"records": [each.as_json() for each in found], "more": places})
    for each in found if not as_json else ():
        _show_explanation(each)
        OUT.print()
    if more and not as_json:
        first = ":".join(map(str, more[0]))
        OUT.print(as_typed(f"{many(len(more), 'record')} more with this id: `hmx verify --offset {first}` and so on"))
    if not all(each.in_order for each in found):
        raise typer.Exit(1)


def _explain(found: Explanation, as_json: bool) -> None:
    if as_json:
        print_json(found.as_json())
    else:
        _show_explanation(found)
    if not found.in_order:
        raise typer.Exit(1)


def _show_explanation(found: Explanation) -> None:
    colour = "green" if found.in_order else "red"
    OUT.print(f"[bold {colour}]{found.outcome}[/] {found.partition}:{found.offset}")
    OUT.print(plain(found.said))
    advice = found.because.get("advice")
    if advice and advice not in found.said:
        OUT.print(f"[dim]advice: {plain(advice)}[/]")
    if "copy_of" in found.because:
        first = found.because["copy_of"]
        OUT.print(f"[dim]a copy of {first['partition']}:{first['offset']}, which was in the wrong partition[/]")
    for name, value in (found.event or {}).items():
        OUT.print(f"[dim]{name:<12}[/]{plain(' '.join(str(value).split()))}")
    rows = [(led.topic, f"{led.partition}:{led.offset}", led.kind) for led in found.outputs]
    if rows:
        OUT.print()
        OUT.print(table("Outputs", ("topic", "where", "kind"), rows))
    for violation in found.violations:
        OUT.print(f"[bold red]{violation.fault}[/] {plain(violation.detail)}")


def _show(report: Report) -> None:
    totals, pending = report.outcomes, sum(part.pending for part in report.partitions)
    there_are = [outcome for outcome in Outcome if totals[outcome]]  # all columns would exceed 80 characters
    columns = ["partition", *(_HEADS.get(outcome, outcome.value) for outcome in there_are), "pending"]
    rows: list[list[object]] = [
        [str(part.partition), *(part.outcomes[outcome] for outcome in there_are), part.pending]
        for part in report.partitions
    ]
    rows.append(["all", *(totals[outcome] for outcome in there_are), pending])
    OUT.print(table("Outcomes", columns, rows))
    if report.rejections:
        OUT.print()
        OUT.print(table("Rejections", ("reason", "records"), report.rejections.most_common()))
    OUT.print()
    OUT.print(table("Evidence", ("kind", "records"), report.evidence.most_common()))
    unverified = sum(part.unverified for part in report.partitions)
    if report.erased:
        OUT.print(f"{many(report.erased, 'event is', 'events are')} erased from memory; no answer is made from them")
    if unverified:
        OUT.print(
            f"{many(unverified, 'record')} can't be verified: retention may have deleted their outputs or originals"
        )
    if report.conserved:
        OUT.print(f"[bold green]conserved[/]: {many(totals.total(), 'record')}, each with exactly one outcome")
        return
    rows = [[v.fault, f"{v.topic} {v.partition}:{v.offset}", v.detail] for v in report.violations[:SHOWN]]
    OUT.print(table("Violations", ("what", "where", "detail"), rows))
    faults = ", ".join(f"{count:,} {fault}" for fault, count in report.faults.most_common())
    OUT.print(f"[bold red]not conserved[/]: {faults}")
