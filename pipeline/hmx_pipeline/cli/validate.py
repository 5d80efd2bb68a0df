"""`hmx validate`: checks events before they are published."""

from collections.abc import Callable, Iterable
from typing import Final

import typer

from hmx_pipeline.audit.validation import Findings, Validation, Validator, by_count
from hmx_pipeline.cli.console import OUT, AsJson, fail, many, plain, print_json, table
from hmx_pipeline.cli.lines import Files, LineReader, Unreadable, bar

LINES: Final = 5
"""Line numbers and gaps shown; --json has more."""
REPORT_EVERY: Final = 256


def validate(
    files: Files,
    as_json: AsJson = False,
) -> None:
    """Checks events before they are published: which would be rejected, and why. Needs no Kafka.

    Duplicates of already published events are not detected. Lines are numbered across all files, blank lines included.

    Exit code: 0 none would be rejected, 1 some would. Example: hmx validate sessions.ndjson.gz
    """
    reader = LineReader(files)
    try:
        with bar("validating", reader) as show:
            found = validated(reader.lines(), show)
    except Unreadable as error:
        fail(f"{reader.file} can't be read: {error}")
    if as_json:
        print_json(found.as_json())
    else:
        _show(found)
    if found.rejections:
        raise typer.Exit(1)


def validated(lines: Iterable[bytes], on_progress: Callable[[int, int], None] | None = None) -> Validation:
    validator, size = Validator(), 0
    for number, line in enumerate(lines, 1):
        validator.line(number, line)
        size += len(line)
        if on_progress is not None and number % REPORT_EVERY == 0:
            on_progress(number, size)
    return validator.result()


def _show(found: Validation) -> None:
    if found.rejected:
        rows = [(reason, findings.count, _lines(findings)) for reason, findings in by_count(found.rejected)]
        OUT.print(table("Would be rejected", ("reason", "lines", "first"), rows))
        for reason, findings in by_count(found.rejected):
            first = findings.first[0]
            OUT.print(f"\n[bold]{reason}[/] line {first.line:,}, {plain(first.path)}: {plain(first.detail)}")
            if reason.advice != first.detail:
                OUT.print(f"  [dim]{plain(reason.advice)}[/]")
        OUT.print()
    if found.notes:
        rows = [(note, findings.count, _lines(findings)) for note, findings in by_count(found.notes)]
        OUT.print(table("[yellow]Warnings[/]: accepted, but not what HMX-E says", ("note", "lines", "first"), rows))
        OUT.print()
    if found.duplicates.count:
        OUT.print(f"{many(found.duplicates.count, 'duplicate')}, harmless: lines {_lines(found.duplicates)}")
    if found.redacted:
        OUT.print(f"{many(found.redacted, 'line holds', 'lines hold')} secrets; the pipeline removes them at intake")
    if found.gaps:
        gaps = [(g.tenant_id, g.session_id, g.missing, g.first) for g in found.gaps[:LINES]]
        OUT.print(table("Sessions with gaps in their sequence", ("tenant", "session", "missing", "first"), gaps))
        if len(found.gaps) > LINES:
            OUT.print(f"[dim]and {len(found.gaps) - LINES:,} more: --json lists them[/]")
    verdict = f"[bold red]{found.rejections:,} would be rejected[/]" if found.rejected else "[bold green]valid[/]"
    OUT.print(
        f"{verdict}: {many(found.lines, 'event')} of {many(found.sessions, 'session')}, {found.accepted:,} of them new"
    )


def _lines(findings: Findings) -> str:
    shown = ", ".join(f"{finding.line}" for finding in findings.first[:LINES])
    return shown if findings.count <= LINES else f"{shown}, …"
