"""Claude Code's transcripts (`~/.claude/projects/**/*.jsonl`) as HMX events.

Enters: the lines of files, one file after the other. Leaves: events whose ids and sequences follow from the lines, so
that what is imported twice is a duplicate; and a report of what was left out, and why. A line that cannot be read
loses itself alone. A sub-agent's lines are a session of their own, since sub-agents work side by side. Of the
assistant's words the last of a turn are kept, as hooks have them; those between its calls only announce the calls.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.timestamps import NS_PER_MS, parse_instant
from hmx_pipeline.doors import claude_code
from hmx_pipeline.doors.claude_code import AGENT, SUBAGENT, ClaudeCall, ClaudeOutcome
from hmx_pipeline.doors.draft import BETWEEN, DraftEvent, TranscriptImport, text_of

_SILENT: Final = re.compile(
    r"summary|file-history-snapshot|queue-operation|progress|attachment|custom-title|ai-title|last-prompt|tag|mode"
    r"|agent-name|agent-color|pr-link|permission-mode|worktree-state|saved-hook-context"
)
"""Types of lines that the client keeps for itself."""

Json = dict[str, Any]


class _OpenCall(NamedTuple):
    call: ClaudeCall
    at: str


class _LastWords(NamedTuple):
    """The assistant's last words: an answer if the user speaks next, or the turn ends with them."""

    entry: Json
    text: str
    prompt_id: object
    otherwise: str
    """Its key where the prompt has no id."""


class ClaudeCodeImport(TranscriptImport):
    AGENT = AGENT

    def __init__(self, tenant: str, subject: str = "") -> None:
        super().__init__(tenant, subject)
        self._waiting: dict[str, _OpenCall] = {}
        self._sidechains: dict[str, str] = {}
        self._said: dict[str, _LastWords] = {}
        self._prompts: dict[str, object] = {}
        self._turns: set[tuple[str, str]] = set()
        self._refused_before = False

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of lines, each given with the name of its file, file after file."""
        file, number = "", 0
        for name, line in lines:
            if name != file:
                yield from self._end_file()
                file, number = name, 0
            number += 1
            if not line.strip():
                continue
            self.report.lines += 1
            entry = self._read(f"{name}:{number}", line)
            if entry is not None:
                session = self._session(entry)
                drafts = self._drafts(session, entry)
                if drafts:
                    yield from self._answer(session)
                if entry["type"] == "user":
                    self._prompts[session] = entry.get("promptId")
                yield from (self._event(session, entry, draft) for draft in drafts)
        yield from self._end_file()

    def _end_file(self) -> Iterator[Json]:
        for session, said in list(self._said.items()):
            if said.entry["message"].get("stop_reason") == "end_turn":
                yield from self._answer(session)
            else:
                self._between(session)
        self._prompts.clear()
        self.report.left_out["calls without a result"] += len(self._waiting)
        self._waiting.clear()
        self._sidechains.clear()
        self._refused_before = False

    def _read(self, where: str, line: bytes) -> Json | None:
        """Return a line that may hold something to learn; else say in the report why not."""
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            self.report.unread(where, f"no JSON ({error})")
            return None
        kind = entry.get("type") if isinstance(entry, dict) else None
        if not isinstance(kind, str):
            self.report.unread(where, "no object with a type")
        elif _SILENT.fullmatch(kind):
            self.report.left_out["lines of the client's own"] += 1
        elif kind not in ("user", "assistant", "system"):
            self.report.left_out[f"lines of the unknown type {kind[:40]}"] += 1
        elif not isinstance(entry.get("sessionId"), str) or not entry["sessionId"]:
            self.report.unread(where, "no sessionId")
        elif not isinstance(entry.get("timestamp"), str) or parse_instant(entry["timestamp"]) is None:
            self.report.unread(where, "no timestamp")
        elif not isinstance(entry.get("uuid"), str):
            self.report.unread(where, "no uuid")
        elif kind != "system" and not isinstance(entry.get("message"), dict):
            self.report.unread(where, "no message")
        elif entry["uuid"] in self._seen:
            self.report.left_out["lines copied from another transcript"] += 1
        else:
            self._seen.add(entry["uuid"])
            return dict(entry)
        return None

    def _session(self, entry: Json) -> str:
        """Return the session of a line. A sub-agent's is named after it, or in older files after its first line."""
        session = str(entry["sessionId"])
        if entry.get("isSidechain") is not True:
            return session
        parent, uuid = entry.get("parentUuid"), str(entry["uuid"])
        root = self._sidechains.setdefault(uuid, self._sidechains.get(str(parent), uuid))
        return f"{session}/{entry.get('agentId') or root}"

    def _drafts(self, session: str, entry: Json) -> list[DraftEvent]:
        if entry["type"] == "system":
            return self._of_system(entry)
        if entry.get("isMeta") is True or entry.get("isCompactSummary") is True:
            self.report.left_out["lines that the client wrote for the model"] += 1
            return []
        content = entry["message"].get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not isinstance(blocks, list):
            self.report.left_out["messages without content"] += 1
            return []
        return [
            draft
            for index, block in enumerate(blocks)
            if isinstance(block, dict)
            for draft in self._of_block(session, entry, block, f"{entry['uuid']}/{index}" if index else entry["uuid"])
        ]

    def _of_system(self, entry: Json) -> list[DraftEvent]:
        if entry.get("subtype") != "compact_boundary":
            self.report.left_out["lines of the client's own"] += 1
            return []
        about = entry.get("compactMetadata")
        trigger = about.get("trigger") if isinstance(about, dict) else None
        return [claude_code.compacted(str(trigger or "auto"), entry["uuid"])]

    def _of_block(self, session: str, entry: Json, block: Json, key: str) -> list[DraftEvent]:
        match block:
            case {"type": "text", "text": str(text)} if entry["type"] == "assistant":
                if entry.get("isApiErrorMessage") is True:
                    return [claude_code.failed(text, key)]
                self._between(session)
                if text.strip():
                    self._said[session] = _LastWords(entry, text, self._prompts.get(session), key)
                return []
            case {"type": "text", "text": str(text)}:
                drafts = self._of_text(session, entry, text, key)
                if not drafts:
                    self.report.left_out["texts that nobody said"] += 1
                return drafts
            case {"type": "tool_use", "id": str(name), "name": str(tool), "input": dict(arguments)}:
                call = ClaudeCall(name, tool, arguments, text_of(entry.get("cwd")))
                self._waiting[name] = _OpenCall(call, entry["timestamp"])
                self._between(session)
                return []
            case {"type": "tool_result", "tool_use_id": str(name)}:
                return self._of_result(entry, block, name)
        self.report.left_out[f"blocks of the type {text_of(block.get('type'))[:40] or 'unknown'}"] += 1
        return []

    def _between(self, session: str) -> None:
        if self._said.pop(session, None) is not None:
            self.report.left_out[BETWEEN] += 1

    def _answer(self, session: str) -> Iterator[Json]:
        """Yield the assistant's last words as the answer to the last prompt."""
        said = self._said.pop(session, None)
        if said is not None:
            key = self._turn_key(session, "answer", said.prompt_id, said.otherwise)
            yield from (self._event(session, said.entry, draft) for draft in claude_code.answered(said.text, key))

    def _of_text(self, session: str, entry: Json, text: str, key: str) -> list[DraftEvent]:
        after_refusal, self._refused_before = self._refused_before, False
        drafts = claude_code.prompted(text, key)
        if not drafts or (after_refusal and drafts[0].event_type == "feedback"):
            return []
        return [draft._replace(key=self._turn_key(session, "prompt", entry.get("promptId"), key)) for draft in drafts]

    def _turn_key(self, session: str, part: str, prompt_id: object, otherwise: str) -> str:
        """Return the key that hooks give too; what follows under the same prompt has one of its own."""
        key = claude_code.turn_key(part, prompt_id, otherwise)
        if (session, key) in self._turns:
            return otherwise
        self._turns.add((session, key))
        return key

    def _of_result(self, entry: Json, block: Json, name: str) -> list[DraftEvent]:
        waiting = self._waiting.pop(name, None)
        if waiting is None:
            self.report.left_out["results without a call"] += 1
            return []
        text = _result_text(block.get("content"))
        ok = block.get("is_error") is not True
        words = None if ok else claude_code.refusal(text)
        if words is not None:
            self._refused_before = not words  # the client then also writes that the user interrupted
            return [claude_code.refused(waiting.call, words)]
        began, ended = parse_instant(waiting.at) or 0, parse_instant(entry["timestamp"]) or 0
        outcome = ClaudeOutcome(ok, text, entry.get("toolUseResult"), max(0, ended - began) / NS_PER_MS)
        return claude_code.called(waiting.call, outcome)

    def _event(self, session: str, entry: Json, draft: DraftEvent) -> Json:
        agent = SUBAGENT if entry.get("isSidechain") is True else AGENT
        about = {"cwd": entry.get("cwd"), "branch": entry.get("gitBranch")}
        return self._numbered(draft, session, agent, entry["timestamp"], about)


def _result_text(content: object) -> str:
    blocks = content if isinstance(content, list) else [{"text": content}]
    texts = (one.get("text") for one in blocks if isinstance(one, Mapping))
    return "\n".join(text for text in texts if isinstance(text, str))
