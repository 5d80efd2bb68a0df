"""Aider's history (`.aider.chat.history.md`) as HMX events.

Enters: the lines of files, one file after the other. Leaves: events whose ids and sequences follow from the lines, so
that what is imported twice is a duplicate; and a report of what was left out, and why. Aider writes a time only where a
session begins, in a zone that it does not name: it is taken for UTC, and holds for the whole session. Lines of the user
(`#### `) and of aider (`> `) end with two spaces, which tells them from the same signs in a model's answer.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.doors import claude_code
from hmx_pipeline.doors.claude_code import ClaudeCall, ClaudeOutcome
from hmx_pipeline.doors.draft import BETWEEN, DraftEvent, TranscriptImport, cut

AGENT: Final = "aider"
_BEGIN: Final = re.compile(r"# aider chat started at (\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)\s*")
_RUNS: Final = re.compile(r"(?:/run\s+|!\s*|/(git\s+))(.+)", re.DOTALL)
_TESTS: Final = re.compile(r"/test\s+(.+)", re.DOTALL)
_REFUSED: Final = re.compile(r"Run shell commands?\? .*: *[nNdDsS]")

Json = dict[str, Any]


class _Block(NamedTuple):
    who: str
    """user, tool or assistant."""
    text: str
    line: int
    """From the session's first line: names what the block tells."""


class AiderImport(TranscriptImport):
    AGENT = AGENT

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of lines, each given with the name of its file, file after file."""
        for name, group in groupby(lines, key=lambda one: one[0]):
            begun: str | None = None
            session: list[str] = []
            for _, raw in group:
                self.report.lines += 1
                line = raw.decode(errors="replace").removesuffix("\r")
                if begin := _BEGIN.fullmatch(line):
                    yield from self._of_session(begun, session)
                    begun, session = f"{begin[1]}T{begin[2]}Z", []
                    if parse_instant(begun) is None:
                        self.report.unread(name, f"no time: {line[:60]}")
                        begun = None
                session.append(line)
            yield from self._of_session(begun, session)
            if not any(map(_BEGIN.fullmatch, session)):
                self.report.unread(name, "no session begins in it")

    def _of_session(self, at: str | None, lines: list[str]) -> Iterator[Json]:
        if at is None:
            self.report.left_out["lines of no session"] += sum(map(bool, lines))
            return
        first = next((place for place, line in enumerate(lines) if line.startswith("#### ")), None)
        if first is None:
            self.report.left_out["sessions in which nobody said anything"] += 1
            return
        digest = hashlib.sha256("\n".join(lines[: first + 1]).encode(errors="replace")).hexdigest()[:12]
        session = f"aider-{at[:10]}-{digest}"
        for draft in self._drafts(lines):
            if f"{session}/{draft.key}" in self._seen:
                self.report.left_out["events copied from another file"] += 1
                continue
            self._seen.add(f"{session}/{draft.key}")
            yield self._numbered(draft, session, AGENT, at, {})

    def _drafts(self, lines: list[str]) -> Iterator[DraftEvent]:
        said: list[DraftEvent] = []
        testing: ClaudeCall | None = None
        edits: dict[str, tuple[str, str]] = {}
        before = ""
        for who, text, line in _blocks(lines):
            match who:
                case "user":
                    if testing is not None:  # what failed would have been added to the chat
                        yield from _tested(testing, ok=True)
                    yield from said
                    said, testing, edits = [], None, {}
                    if told := _TESTS.fullmatch(text):
                        testing = ClaudeCall(str(line), "Bash", {"command": told[1].strip()})
                    else:
                        yield from self._of_user(text, line)
                case "assistant":
                    self.report.left_out[BETWEEN] += bool(said)
                    words, found = _edits(text)
                    edits |= found
                    said = claude_code.answered(words, f"answer:{line}") or said
                case _ if testing is not None and text.startswith("Added ") and text.endswith(" to the chat."):
                    yield from _tested(testing, ok=False)
                    testing = None
                case _:
                    yield from self._of_tool(text, before, line, edits)
                    before = text
        self.report.left_out["calls without a result"] += testing is not None
        yield from said

    def _of_user(self, text: str, line: int) -> Iterator[DraftEvent]:
        if run := _RUNS.fullmatch(text):
            yield _ran(f"{run[1] or ''}{run[2]}".strip(), line)
        elif text.split(" ", maxsplit=1)[0] == "/undo":
            yield claude_code.interrupted(f"undo:{line}", "the user undid the last edit")
        elif not text.startswith("/"):
            yield from claude_code.prompted(text, f"prompt:{line}") if text != "<blank>" else ()
        else:  # of /ask and its like aider writes the question once more, by itself
            self.report.left_out["commands to the client"] += 1

    def _of_tool(self, text: str, before: str, line: int, edits: dict[str, tuple[str, str]]) -> Iterator[DraftEvent]:
        kind, _, what = text.partition(" ")
        if text.startswith("Applied edit to "):
            path = text.removeprefix("Applied edit to ")
            old, new = edits.pop(path, ("", ""))
            told = {"file_path": path, **({"old_string": old, "new_string": new} if old or new else {})}
            yield from claude_code.called(ClaudeCall(str(line), "Edit", told), ClaudeOutcome(True))
        elif text.startswith("Skipping edits to "):
            path = text.removeprefix("Skipping edits to ").partition(" that ")[0]
            yield claude_code.refused(ClaudeCall(str(line), "Edit", {"file_path": path}), "")
        elif kind == "Running" and what:
            yield _ran(what, line)
        elif _REFUSED.fullmatch(text):
            yield claude_code.refused(ClaudeCall(str(line), "Bash", {"command": before}), "")
        else:
            self.report.left_out["lines of the client's own"] += 1


def _tested(call: ClaudeCall, *, ok: bool) -> Iterator[DraftEvent]:
    return (draft._replace(event_type="test_run") for draft in claude_code.called(call, ClaudeOutcome(ok)))


def _ran(command: str, line: int) -> DraftEvent:
    """Return a command that ran. Aider does not write down how it ended."""
    kind = "test_run" if claude_code.is_test(command) else "command_exec"
    return DraftEvent(kind, {"command": cut(command)}, f"call:{line}")


def _blocks(lines: list[str]) -> Iterator[_Block]:
    """Yield what the user, aider and the model wrote, in order. A text of aider's may go on over unmarked lines, up to
    the one that ends with two spaces."""
    who, begun, going_on = "", 0, False
    texts: list[str] = []
    for place, line in enumerate(lines[1:], 1):
        ends, was = line.endswith("  "), who
        if going_on:
            who, text, going_on = "more", line.strip(), not ends
        elif line.startswith("#### ") and ends:
            who, text = "user", line[5:].strip()
        elif line.startswith("> ") and (ends or was in ("tool", "more")):
            who, text, going_on = "tool", line[2:].strip(), not ends
        elif not line and was in ("tool", "more", "user"):
            who, text = "", ""
        else:
            who, text = "assistant", line
        if who == "more" or (who == was and who != "tool"):
            texts.append(text)
            continue
        if texts and was and "".join(texts).strip():
            yield _Block("tool" if was == "more" else was, "\n".join(texts).strip(), begun)
        texts, begun = [text], place
    if who and "".join(texts).strip():
        yield _Block("tool" if who == "more" else who, "\n".join(texts).strip(), begun)


def _edits(answer: str) -> tuple[str, dict[str, tuple[str, str]]]:
    """Return an answer without its blocks of edits, and of each file that they name what stood there and what does."""
    words: list[str] = []
    found: dict[str, tuple[str, str]] = {}
    old: list[str] = []
    new: list[str] = []
    kept, path = words, ""
    for line in answer.split("\n"):
        if line.startswith("<<<<<<< SEARCH"):
            while words and (words[-1].startswith("```") or not words[-1].strip()):
                words.pop()
            path, old, new = words.pop().strip(" `*:#") if words else "", [], []
            kept = old
        elif line.startswith("=======") and kept is old:
            kept = new
        elif line.startswith(">>>>>>> REPLACE") and kept is new:
            found[path], kept = ("\n".join(old), "\n".join(new)), words
        elif not (line.startswith("```") and found and kept is words):
            kept.append(line)
    return "\n".join(words), found
