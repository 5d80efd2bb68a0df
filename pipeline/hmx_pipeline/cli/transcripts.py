"""`hmx import`, `hmx mine`, `hmx export`: transcripts of coding agents become memory, Eventloom logs are written again.

Enters: files of transcripts; of an export, a session on the topics. Leaves: events on Kafka or as NDJSON, and a report
of what was left out; of an export, the log's bytes.
"""

import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import orjson
import typer

from hmx_pipeline.cli.console import ERR, OUT, AsJson, fail, many, plain, print_json, saying, table
from hmx_pipeline.cli.lines import LineReader, bar
from hmx_pipeline.cli.own_stack import own_stack
from hmx_pipeline.doors.aider_history import AiderImport
from hmx_pipeline.doors.claude_code_transcripts import ClaudeCodeImport
from hmx_pipeline.doors.codex_transcripts import CodexImport
from hmx_pipeline.doors.cursor_transcripts import CursorImport
from hmx_pipeline.doors.draft import ImportReport
from hmx_pipeline.doors.eventloom import EventloomImport, is_of_a_log, line_of
from hmx_pipeline.doors.gemini_transcripts import GeminiImport
from hmx_pipeline.settings import Settings

KEPT: Final = Path(".hmx/mine")
TENANT: Final = "mine"
WAIT_S: Final = 900.0
CURSOR: Final = (
    Path("~/Library/Application Support" if sys.platform == "darwin" else "~/.config") / "Cursor/User/globalStorage"
)


class Agent(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"
    AIDER = "aider"
    GEMINI_CLI = "gemini-cli"
    EVENTLOOM = "eventloom"


Import = ClaudeCodeImport | CodexImport | CursorImport | AiderImport | GeminiImport | EventloomImport


class _Transcripts(NamedTuple):
    folder: Path
    """Where an agent keeps them."""
    importing: Callable[[str, str], Import]
    files: str = "*.jsonl"
    within: str = ""
    """Name of a folder that all of them are in."""


_TRANSCRIPTS: Final = {
    Agent.CLAUDE_CODE: _Transcripts(Path("~/.claude/projects"), ClaudeCodeImport),
    Agent.CODEX: _Transcripts(Path("~/.codex/sessions"), CodexImport),
    Agent.CURSOR: _Transcripts(CURSOR, CursorImport, "state.vscdb"),
    Agent.AIDER: _Transcripts(Path(), AiderImport, ".aider.chat.history.md"),
    Agent.GEMINI_CLI: _Transcripts(Path("~/.gemini/tmp"), GeminiImport, "*.json*", "chats"),
    Agent.EVENTLOOM: _Transcripts(Path(".eventloom"), EventloomImport),
}
Paths = Annotated[
    list[Path] | None,
    typer.Argument(metavar="PATH", help="Transcripts, or folders of them; default: where AGENT keeps them."),
]


def import_(
    agent: Annotated[Agent, typer.Argument(metavar="AGENT", help="Whose transcripts.")],
    paths: Paths = None,
    tenant: Annotated[str, typer.Option(help="The tenant whose memory learns.")] = TENANT,
    subject: Annotated[str, typer.Option(help="The person whose sessions these are.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only count what would be imported.")] = False,
    output: Annotated[Path | None, typer.Option(help="Write NDJSON to this file instead of to Kafka.")] = None,
    as_json: AsJson = False,
) -> None:
    """Imports a coding agent's transcripts: prompts, commands, edits, tests and refusals become events.

    Importing a transcript again adds nothing: its events are recognised as duplicates. An unreadable line is reported
    and skipped. Exit code: 0 done, 1 some events were not sent.

    Lines of Eventloom logs that were altered are named and skipped; `hmx export eventloom` gives the same bytes again.

    Example: hmx import claude-code ~/.claude/projects --dry-run
    """
    from hmx_pipeline.kafka.publisher import publish

    reader, importing = LineReader(_files(agent, paths)), _TRANSCRIPTS[agent].importing(tenant, subject)
    sent = None
    with bar("importing", reader) as show:
        events = _events(reader, importing)
        if dry_run:
            for _ in events:
                pass
        elif output is not None:
            with output.open("wb") as file:
                file.writelines(event + b"\n" for event in events)
        else:
            sent = publish(events, Settings.load(), show)
    _say(importing.report, sent.events if sent else 0, as_json)
    for reason, count in {**(sent.failed if sent else {}), "too large": sent.too_large if sent else 0}.items():
        if count:
            ERR.print(f"[bold red]not sent[/]: {many(count, 'event')}: {plain(reason)}")
    if sent is not None and not sent.complete:
        raise typer.Exit(1)


def export(
    kind: Annotated[str, typer.Argument(metavar="FORMAT", help="eventloom.")],
    tenant: Annotated[str, typer.Option(help="The tenant.")],
    session: Annotated[str, typer.Option(help="The session: the name of the log that was imported.")],
    output: Annotated[Path | None, typer.Option(help="Write to this file.")] = None,
) -> None:
    """Writes an imported Eventloom log again, byte for byte, from the topics.

    A line that is not what its hash says, because a secret was taken out of it, is named; so is one after a gap.

    Exit code: 0 whole, 1 not whole, or nothing of it is there, 2 no such format.

    Example: hmx export eventloom --tenant mine --session agent-1
    """
    from hmx_pipeline.queries.exported_session import session_events

    if kind != Agent.EVENTLOOM:
        fail(f"{kind} is no format: say eventloom", 2)
    events = sorted(session_events(Settings.load(), tenant, session), key=lambda event: event["sequence"])
    lines = [line_of(event) for event in events if is_of_a_log(event)]
    if not lines:
        fail("the topics hold nothing of this log")
    written = b"".join(line + b"\n" for line in lines)
    if output is None:
        sys.stdout.buffer.write(written)
    else:
        output.write_bytes(written)
    again = EventloomImport(tenant)
    for _ in again.events((session, line) for line in lines):
        pass
    odd = again.report.unreadable + again.report.noted
    for line in odd:
        ERR.print(f"[yellow]not whole[/] {plain(line)}", soft_wrap=True)
    if odd:
        raise typer.Exit(1)


def mine(
    paths: Paths = None,
    agent: Annotated[Agent, typer.Option(help="Whose transcripts.")] = Agent.CLAUDE_CODE,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack running afterwards.")] = False,
) -> None:
    """Imports this machine's transcripts into a stack of their own, and shows up to ten things learnt.

    No data leaves the machine. Without --keep, the stack is stopped and its data deleted. Exit code: 0 done, 1 failed.

    Example: hmx mine
    """
    from hmx_pipeline.cli.lessons import show
    from hmx_pipeline.cli.wait import wait_for_all
    from hmx_pipeline.kafka.publisher import publish
    from hmx_pipeline.runtime.barriers import LackingError

    reader, importing = LineReader(_files(agent, paths)), _TRANSCRIPTS[agent].importing(TENANT, "")
    with own_stack(KEPT, keep) as settings:
        with bar("importing", reader) as advance:
            publish(_events(reader, importing), settings, advance)
        _say(importing.report, importing.report.events.total(), False)
        try:
            with saying("learning") as say:
                wait_for_all(settings, WAIT_S, say)
        except LackingError as error:
            fail(f"not finished after {WAIT_S:.0f} s: {error}")
        show(settings, TENANT)
    if keep:
        OUT.print(
            f"\nThe stack keeps running: `HMX_STATE={KEPT} hmx pack 'your question'`; `HMX_STATE={KEPT} hmx down`"
        )


def _files(agent: Agent, paths: list[Path] | None) -> list[Path]:
    """Returns the transcripts sorted by path, so that every import numbers their events alike."""
    kept = _TRANSCRIPTS[agent]
    chosen = [path.expanduser() for path in paths or [kept.folder]]
    for path in chosen:
        if not path.exists():
            fail(f"{path} does not exist: name the folder of the transcripts")
    found = {file for path in chosen for file in (path.rglob(kept.files) if path.is_dir() else [path])}
    found = {file for file in found if not kept.within or file in chosen or kept.within in file.absolute().parts}
    if not found:
        fail(f"no transcript ({kept.files}) in {', '.join(map(str, chosen))}")
    return sorted(found)


def _events(reader: LineReader, importing: Import) -> Iterator[bytes]:
    named = ((str(reader.file), line) for line in reader.lines())
    return map(orjson.dumps, importing.events(named))


def _say(report: ImportReport, sent: int, as_json: bool) -> None:
    if as_json:
        told = {
            "lines": report.lines,
            "sessions": len(report.sessions),
            "events": dict(report.events),
            "sent": sent,
            "left_out": +report.left_out,
            "unreadable": report.unreadable,
            "noted": report.noted,
        }
        print_json(told)
        return
    events, sessions = many(report.events.total(), "event"), many(len(report.sessions), "session")
    done = "sent" if sent else "none sent to Kafka"
    OUT.print(f"[bold]{events} of {sessions}, from {many(report.lines, 'line')}: {done}[/]")
    OUT.print(table("", ("event type", "events"), report.events.most_common()))
    if left_out := (+report.left_out).most_common():
        OUT.print(table("Left out", ("what", "count"), left_out))
    for line in report.unreadable:
        ERR.print(f"[yellow]skipped[/] {plain(line)}", soft_wrap=True)
    for line in report.noted:
        ERR.print(f"[yellow]note[/] {plain(line)}", soft_wrap=True)
