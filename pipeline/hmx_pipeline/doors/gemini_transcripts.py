"""Gemini CLI's sessions (`~/.gemini/tmp/*/chats/**/*.json` and `.jsonl`) as HMX events.

Enters: the lines of files, one file after the other. Leaves: events whose ids and sequences follow from the lines, so
that what is imported twice is a duplicate; and a report of what was left out, and why. A line may tell a message anew:
the last one counts, so a file is read to its end first. What was rewound stays, since it was done. Commands, edits and
refusals go through Claude Code's mapping, so both teach the same.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any, Final

import orjson

from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.doors import claude_code
from hmx_pipeline.doors.claude_code import ClaudeCall, ClaudeOutcome
from hmx_pipeline.doors.draft import BETWEEN, DEPTH, DraftEvent, TranscriptImport

AGENT: Final = "gemini-cli"
SUBAGENT: Final = "gemini-cli-subagent"
_TOOLS: Final = {"run_shell_command": "Bash", "replace": "Edit", "write_file": "Write"}
_HEAD: Final = re.compile(r"(?:Command: .*\n)?(?:Directory: .*\n)?(?:Output|Stdout): ?")
_TAIL: Final = re.compile(r"\n(?:Stderr|Error|Exit Code|Signal|Background PIDs|Process Group PGID): .*", re.DOTALL)
_EXIT: Final = re.compile(r"^Exit Code: (-?\d{1,9})$", re.MULTILINE)
_MARKED: Final = re.compile(r"<untrusted_context>\n(.*)\n</untrusted_context>", re.DOTALL)
"""Output as the model is shown it."""
_OWN: Final = re.compile(r"\s*<session_context>")

Json = dict[str, Any]


class GeminiImport(TranscriptImport):
    AGENT = AGENT

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of lines, each given with the name of its file, file after file."""
        for name, group in groupby(lines, key=lambda one: one[0]):
            about, messages = self._read(name, [line for _, line in group])
            yield from self._of_messages(about, messages)

    def _read(self, name: str, lines: list[bytes]) -> tuple[Json, list[Json]]:
        """Return what a file says of its session, and its messages in order, each as it was told last."""
        self.report.lines += len(lines)
        if lines and lines[0].strip() == b"{":  # an older file is one object
            lines = [b"\n".join(lines)]
        about: Json = {}
        messages: dict[str, Json] = {}
        for number, line in enumerate(lines, 1):
            try:
                entry = orjson.loads(line) if line.strip() else {}
            except orjson.JSONDecodeError as error:
                self.report.unread(f"{name}:{number}", f"no JSON ({error})")
                continue
            match entry:
                case {"sessionId": str(), **rest}:
                    about |= {key: value for key, value in entry.items() if key != "messages"}
                    listed = rest.get("messages")
                    told = listed if isinstance(listed, list) else []
                case {"id": str(), "type": str()}:
                    told = [entry]
                case _:
                    self.report.left_out["lines of the client's own"] += bool(line.strip())
                    continue
            messages |= {one["id"]: one for one in told if isinstance(one, dict) and isinstance(one.get("id"), str)}
        if messages and not about.get("sessionId"):
            self.report.unread(name, "no sessionId")
            return {}, []
        return about, list(messages.values())

    def _of_messages(self, about: Json, messages: list[Json]) -> Iterator[Json]:
        said: tuple[list[DraftEvent], str] | None = None
        for message in messages:
            name, at = message["id"], message.get("timestamp")
            if not isinstance(at, str) or parse_instant(at) is None:
                self.report.unread(f"message {name[:60]}", "no timestamp")
                continue
            if f"{about['sessionId']}/{name}" in self._seen:
                self.report.left_out["messages copied from another file"] += 1
                continue
            self._seen.add(f"{about['sessionId']}/{name}")
            text = _words(message)
            calls = message.get("toolCalls") if message.get("type") == "gemini" else None
            match message.get("type"):
                case "user":
                    drafts = [] if _OWN.match(text) else claude_code.prompted(text, f"prompt:{name}")
                    self.report.left_out["messages that nobody said"] += not drafts
                    if drafts and said is not None:
                        yield from (self._event(about, draft, said[1]) for draft in said[0])
                        said = None
                    yield from (self._event(about, draft, at) for draft in drafts)
                case "gemini":
                    if said is not None and (text.strip() or calls):
                        self.report.left_out[BETWEEN] += 1
                        said = None
                    if text.strip():
                        said = claude_code.answered(text, f"answer:{name}"), at
                case _:
                    self.report.left_out["messages of the client's own"] += 1
            for call in calls if isinstance(calls, list) else ():
                if isinstance(call, dict):
                    self.report.left_out[BETWEEN] += said is not None
                    said = None
                    yield from self._of_call(about, name, call, at)
        if said is not None:
            yield from (self._event(about, draft, said[1]) for draft in said[0])

    def _of_call(self, about: Json, message: str, call: Json, at: str) -> Iterator[Json]:
        named, given = str(call.get("name") or "tool"), call.get("args")
        tool, arguments = _TOOLS.get(named, named), given if isinstance(given, dict) else {}
        listed = about.get("directories")
        cwd = str(arguments.get("dir_path") or (listed[0] if isinstance(listed, list) and listed else ""))
        made = ClaudeCall(f"{message}/{call.get('id') or ''}", tool, arguments, cwd)
        text, status, done = _text(call.get("result")), call.get("status"), call.get("timestamp")
        marked = _MARKED.fullmatch(text)
        text = marked[1] if marked else text
        if status == "cancelled":
            drafts = [claude_code.refused(made, "")]
        elif status not in ("success", "error"):
            self.report.left_out["calls without a result"] += 1
            return
        else:
            code = 0 if status == "success" else 1
            if tool == "Bash" and (found := _EXIT.search(text)):
                code = int(found[1])
            if tool == "Bash" and (head := _HEAD.match(text)):
                text = _TAIL.sub("", text[head.end() :], count=1)
            shown = f"Exit code {code}\n{text}" if tool == "Bash" and code else text
            drafts = claude_code.called(made, ClaudeOutcome(code == 0, shown))
        ended = done if isinstance(done, str) and parse_instant(done) is not None else at
        yield from (self._event(about, draft, ended) for draft in drafts)

    def _event(self, about: Json, draft: DraftEvent, at: str) -> Json:
        agent = SUBAGENT if about.get("kind") == "subagent" else AGENT
        return self._numbered(draft, about["sessionId"], agent, at, {})


def _words(message: Json) -> str:
    """Return what was said in a message, as it was typed. The user's messages may also hold results of tools."""
    content = message.get("displayContent") or message.get("content")
    parts = content if isinstance(content, list) else [content]
    return "\n".join(filter(None, (_text(one) for one in parts if not isinstance(one, dict) or "text" in one)))


def _text(content: Any, depth: int = 0) -> str:
    """Return the words of a text, a part, a list of parts, or of the response of a function; none if these lie too deep
    in each other."""
    match content:
        case _ if depth > DEPTH:
            return ""
        case str():
            return content
        case [*parts]:
            return "\n".join(text for part in parts if (text := _text(part, depth + 1)))
        case {"text": str(text)}:
            return text
        case {"functionResponse": {"response": {"output": inner} | {"error": inner}}}:
            return _text(inner, depth + 1)
        case {"functionResponse": {"response": dict(inner)}}:
            try:
                return orjson.dumps(inner).decode()
            except orjson.JSONEncodeError:
                return ""
    return ""
