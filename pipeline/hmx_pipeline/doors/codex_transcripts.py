"""Codex CLI's transcripts (`~/.codex/sessions/**/rollout-*.jsonl`) as HMX events.

Enters: the lines of files, one file after the other. Leaves: events whose ids and sequences follow from the lines, so
that what is imported twice is a duplicate; and a report of what was left out, and why. What Codex sends to the model is
read (`response_item`), which all its versions keep alike; of its own notes only ends, interruptions and compactions.
Commands, edits and refusals go through Claude Code's mapping, so both teach the same.
"""

import hashlib
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.timestamps import NS_PER_MS, parse_instant
from hmx_pipeline.doors import claude_code
from hmx_pipeline.doors.claude_code import ClaudeCall, ClaudeOutcome
from hmx_pipeline.doors.draft import BETWEEN, DraftEvent, TranscriptImport

AGENT: Final = "codex"
SUBAGENT: Final = "codex-subagent"
LONG_ID: Final = 20
"""Characters of an id that no two sessions share by chance; some model servers number their calls from 0."""
_SHELLS: Final = ("exec_command", "shell", "shell_command", "local_shell", "container.exec")
_OWN: Final = re.compile(r"\s*(?:<([a-zA-Z_-]+)[ >].*</\1>|# AGENTS\.md instructions\b.*)\s*", re.DOTALL)
"""What the client writes in the user's name: surroundings, instructions, skills, notices."""
_IDE: Final = re.compile(r"\s*# Context from my IDE setup:.*?\n## My request for Codex:\s*", re.DOTALL)
_HEAD: Final = re.compile(
    r"(?:Chunk ID:.*\n)?(?:Wall time:.*\n)?(?:Process exited with code|Exit code:) (-?\d+)\n(?:.*\n)*?Output:\n?"
)
_RUNNING: Final = re.compile(r"(?:.*\n){0,3}?Process running with session ID (\d+)\n(?:.*\n)*?Output:\n?")
_REJECTED: Final = re.compile(r"(?:exec command|patch) rejected by user|rejected by user\Z")
_FAILED: Final = re.compile(
    r"apply_patch verification failed|patch rejected|unsupported (?:custom tool )?call|failed to |unable to |err: "
    r"|\w+ failed: |aborted by user"
)
_PATCH: Final = re.compile(r"\*\*\* (Add|Update|Delete) File: (.+)")
_PATCHING: Final = re.compile(r"\s*(?:cd \S+ && )?apply_?patch\b")

Json = dict[str, Any]


class _Words(NamedTuple):
    """The assistant's last words: its answer, if the turn ends with them."""

    draft: list[DraftEvent]
    at: str


class _Call(NamedTuple):
    call: ClaudeCall
    at: str
    output: str = ""
    """What a command has printed that still runs."""


class CodexImport(TranscriptImport):
    AGENT = AGENT

    def __init__(self, tenant: str, subject: str = "") -> None:
        super().__init__(tenant, subject)
        self._meta: Json = {}
        self._waiting: dict[str, _Call] = {}
        self._running: dict[str, _Call] = {}
        self._said: _Words | None = None

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of lines, each given with the name of its file, file after file."""
        file, number = "", 0
        for name, line in lines:
            if name != file:
                self._end_file()
                file, number = name, 0
            number += 1
            if line.strip():
                self.report.lines += 1
                entry = self._read(f"{name}:{number}", line)
                yield from self._of_line(entry) if entry else ()
        self._end_file()

    def _end_file(self) -> None:
        self.report.left_out["calls without a result"] += len(self._waiting) + len(self._running)
        self._meta, self._said = {}, None
        self._waiting.clear()
        self._running.clear()

    def _read(self, where: str, line: bytes) -> Json | None:
        """Return a line that may hold something to learn; else say in the report why not."""
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            self.report.unread(where, f"no JSON ({error})")
            return None
        match entry:
            case {"type": str(), "payload": dict(), "timestamp": str(at)} if parse_instant(at) is not None:
                if self._meta or (entry["type"] == "session_meta" and isinstance(entry["payload"].get("id"), str)):
                    return dict(entry)
                self.report.unread(where, "no session_meta before it")
            case _:
                self.report.unread(where, "no object with type, payload and timestamp")
        return None

    def _of_line(self, entry: Json) -> Iterator[Json]:
        payload, at = entry["payload"], entry["timestamp"]
        drafts: list[DraftEvent] = []
        match entry["type"], payload.get("type"):
            case "session_meta", _:
                self._meta = self._meta or payload  # a fork goes on with its parent's
            case "response_item", _:
                drafts = self._of_item(payload, at)
                if drafts and payload.get("role") == "user":
                    yield from self._answer()
            case ("event_msg", "task_complete" | "turn_complete"):
                yield from self._answer()
            case "event_msg", "turn_aborted":
                self._said = None
                drafts = [claude_code.interrupted(f"aborted:{payload.get('turn_id') or at}")]
            case "compacted", _:
                compaction = {"status": "completed", "mode": "auto"}
                drafts = [DraftEvent("x-codex-compaction.completed", compaction, f"compacted:{at}")]
            case _:
                self.report.left_out["lines of the client's own"] += 1
        yield from (self._event(draft, at) for draft in self._new(payload, drafts))

    def _new(self, payload: Json, drafts: list[DraftEvent]) -> list[DraftEvent]:
        """Return the drafts that no line before has given: a fork begins with a copy of its parent."""
        name = payload.get("id")
        known = name if isinstance(name, str) and len(name) >= LONG_ID else ""
        keys = [f"{known or self._meta['id']}:{draft.key}" for draft in drafts]
        new = [draft for draft, key in zip(drafts, keys, strict=True) if key not in self._seen]
        self.report.left_out["lines copied from another transcript"] += bool(len(drafts) - len(new))
        self._seen.update(keys)
        return new

    def _answer(self) -> Iterator[Json]:
        said, self._said = self._said, None
        if said is not None:
            yield from (self._event(draft, said.at) for draft in said.draft)

    def _of_item(self, item: Json, at: str) -> list[DraftEvent]:
        match item:
            case {"type": "message", "role": "assistant"}:
                self._between()
                text = _text(item.get("content"))
                self._said = _Words(self._new(item, claude_code.answered(text, _key("answer", item, at, text))), at)
                return []
            case {"type": "message", "role": "user"}:
                return self._of_user(item, at)
            case {"type": "function_call" | "custom_tool_call" | "local_shell_call", "call_id": str(name)}:
                self._between()
                self._waiting[name] = _Call(self._call(item, name), at)
                return []
            case {"type": "function_call_output" | "custom_tool_call_output", "call_id": str(name)}:
                return self._of_output(name, item.get("output"), at)
        self.report.left_out[f"items of the type {str(item.get('type'))[:40]}"] += 1
        return []

    def _of_user(self, item: Json, at: str) -> list[DraftEvent]:
        blocks = item.get("content")
        texts = [one for one in map(_text, blocks if isinstance(blocks, list) else [blocks]) if not _OWN.fullmatch(one)]
        said = _IDE.sub("", "\n".join(texts), count=1)
        drafts = claude_code.prompted(said, _key("prompt", item, at, said))
        if not drafts:
            self.report.left_out["texts that nobody said"] += 1
        return drafts

    def _between(self) -> None:
        if self._said is not None:
            self.report.left_out[BETWEEN] += 1
        self._said = None

    def _call(self, item: Json, name: str) -> ClaudeCall:
        given: Any = item.get("arguments", item.get("input", item.get("action")))
        if isinstance(given, str) and item["type"] == "function_call":
            with suppress(orjson.JSONDecodeError):  # then it stays as the model wrote it
                given = orjson.loads(given)
        arguments = given if isinstance(given, dict) else {"input": given}
        cwd = str(arguments.get("workdir") or self._meta.get("cwd") or "")
        tool = str(item.get("name") or "local_shell")
        if tool in _SHELLS:
            command = _command(arguments.get("cmd") or arguments.get("command") or arguments.get("input"))
            tool, arguments = "apply_patch" if _PATCHING.match(command) else "Bash", {"command": command}
        elif isinstance(space := item.get("namespace"), str) and space:
            tool = f"{space.removesuffix('__')}__{tool}"
        return ClaudeCall(name, tool, arguments, cwd)

    def _of_output(self, name: str, output: Any, at: str) -> list[DraftEvent]:
        waiting = self._waiting.pop(name, None)
        if waiting is None:
            self.report.left_out["results without a call"] += 1
            return []
        text = _text(output)
        if waiting.call.tool == "write_stdin":  # says more of a command that runs
            session = str(waiting.call.arguments.get("session_id"))
            waiting = self._running.pop(session, waiting)
        if running := _RUNNING.match(text):
            self._running[running[1]] = waiting._replace(output=waiting.output + text[running.end() :])
            return []
        if _REJECTED.search(text):
            return [claude_code.refused(waiting.call, "")]
        code, text = _ended(text, output)
        ok = code == 0 if code is not None else waiting.call.tool != "Bash" and not _FAILED.match(text)
        text = waiting.output + text
        if waiting.call.tool == "apply_patch":
            return _edits(waiting.call, ok, text)
        if waiting.call.tool == "Bash" and not ok:
            text = f"Exit code {1 if code is None else code}\n{text}"
        took = (parse_instant(at) or 0) - (parse_instant(waiting.at) or 0)
        return claude_code.called(waiting.call, ClaudeOutcome(ok, text, None, max(0, took) / NS_PER_MS))

    def _event(self, draft: DraftEvent, at: str) -> Json:
        git = self._meta.get("git")
        about = {"cwd": self._meta.get("cwd"), "branch": git.get("branch") if isinstance(git, Mapping) else None}
        source = self._meta.get("source")
        agent = SUBAGENT if isinstance(source, Mapping) and "subagent" in source else AGENT
        return self._numbered(draft, str(self._meta["id"]), agent, at, about)


def _key(part: str, item: Json, at: str, text: str) -> str:
    """Return the item's id; old versions give none, so the time and the words tell it."""
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
    return f"{part}:{item.get('id') or f'{at}/{digest}'}"


def _text(content: Any) -> str:
    """Return the words of a text, a block, a list of them, or a result that holds one of these."""
    match content:
        case {"output": inner} | {"content": inner}:
            content = inner
    blocks = content if isinstance(content, list) else [content]
    texts = (block.get("text") if isinstance(block, Mapping) else block for block in blocks)
    return "\n".join(text for text in texts if isinstance(text, str))


def _command(given: Any) -> str:
    """Return a command as it was written, without the shell that runs it."""
    if not isinstance(given, list):
        return str(given or "")
    words = [str(word) for word in given]
    return words[2] if len(words) == 3 and words[1] in ("-c", "-lc") else shlex.join(words)


def _ended(text: str, output: Any) -> tuple[int | None, str]:
    """Return the exit code, if the output says one, and the output without what Codex wrote before it."""
    if found := _HEAD.match(text):
        return int(found[1]), text[found.end() :]
    told = output
    if text.startswith("{"):
        try:
            told = orjson.loads(text)
        except orjson.JSONDecodeError:
            return None, text
    match told:
        case {"output": str(said), "metadata": {"exit_code": int(code)}}:
            return code, said
        case {"success": False} | {"isError": True}:
            return 1, _text(told) or text
    return None, text


def _edits(call: ClaudeCall, ok: bool, text: str) -> list[DraftEvent]:
    """Return an edit for each file of a patch, with the lines before and after."""
    patch = str(call.arguments.get("command") or call.arguments.get("input") or "")
    parts = _PATCH.split(patch.partition("*** End Patch")[0])[1:]
    drafts = []
    for number, (kind, path, body) in enumerate(zip(parts[::3], parts[1::3], parts[2::3], strict=True)):
        lines = [line for line in body.split("\n") if line[:1] in ("+", "-", " ")]
        old, new = ("\n".join(line[1:] for line in lines if line[0] in marks) for marks in (" -", " +"))
        part = call._replace(tool_use_id=f"{call.tool_use_id}/{number}" if number else call.tool_use_id)
        said = {"file_path": path.strip(), **({} if kind == "Delete" else {"new_string": new})}
        said |= {"old_string": old} if kind == "Update" else {}
        tool = "Write" if kind == "Add" else "Edit"
        drafts += claude_code.called(part._replace(tool=tool, arguments=said), ClaudeOutcome(ok, text))
        if kind == "Delete":
            drafts[-1].content["operation"] = "delete"
    return drafts
