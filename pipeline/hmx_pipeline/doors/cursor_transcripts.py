"""Cursor's chats (`state.vscdb`, table `cursorDiskKV`) as HMX events.

Enters: rows `key<TAB>value`, of each chat first its own (`composerData:…`), then its messages (`bubbleId:…`); a row
without a tab says why a file could not be read further. Leaves: events whose ids and sequences follow from the rows, so
that what is imported twice is a duplicate; and a report of what was left out, and why. Messages that a chat does not
list are rewound or copies. Commands, edits and refusals go through Claude Code's mapping, so both teach the same.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import orjson

from hmx_pipeline.contracts.timestamps import format_ms, parse_instant
from hmx_pipeline.doors import claude_code
from hmx_pipeline.doors.claude_code import ClaudeCall, ClaudeOutcome
from hmx_pipeline.doors.draft import BETWEEN, DraftEvent, TranscriptImport, object_of, text_of

AGENT: Final = "cursor"
SUBAGENT: Final = "cursor-subagent"
CHAT: Final = b"composerData"
MESSAGE: Final = b"bubbleId"
_VERSION: Final = re.compile(r"_v\d+\Z")
_SHELLS: Final = ("run_terminal_cmd", "run_terminal_command")
_EDITS: Final = {
    "edit_file": "Edit", "search_replace": "Edit", "apply_patch": "Edit", "delete_file": "Edit", "write": "Write",
    "write_file": "Write", "create_file": "Write",
}  # fmt: skip
_PATHS: Final = ("file_path", "target_file", "path", "relativeWorkspacePath", "targetFile")
_WRITTEN: Final = ("contents", "content", "code_edit", "streamingContent")
_RUNNING: Final = ("loading", "running", "pending")
_REFUSED: Final = ("rejected", "skipped", "cancelled")

Json = dict[str, Any]


class _Composer(NamedTuple):
    name: str
    about: Json
    messages: dict[str, Json]


class CursorImport(TranscriptImport):
    AGENT = AGENT

    def events(self, lines: Iterable[tuple[str, bytes]]) -> Iterator[Json]:
        """Yield the events of rows, each given with the name of its file, file after file."""
        chat = _Composer("", {}, {})
        for file, row in lines:
            self.report.lines += 1
            key, tab, value = row.partition(b"\t")
            kind, _, rest = key.partition(b":")
            name, _, message = rest.decode(errors="replace").partition(":")
            entry = self._read(f"{file}: {key.decode(errors='replace')[:90]}" if tab else file, tab, value or row)
            if kind == CHAT and tab:
                yield from self._of_chat(chat)
                chat = _Composer(name if entry else "", entry or {}, {})
            elif entry is not None and kind == MESSAGE and name == chat.name:
                chat.messages[message] = entry
            elif entry is not None:
                self.report.left_out["messages without their chat"] += 1
        yield from self._of_chat(chat)

    def _read(self, where: str, tab: bytes, value: bytes) -> Json | None:
        try:
            entry = orjson.loads(value) if tab else None
        except orjson.JSONDecodeError as error:
            self.report.unread(where, f"no JSON ({error})")
            return None
        if isinstance(entry, dict):
            return entry
        if tab:
            self.report.left_out["empty rows"] += 1
        else:
            self.report.unread(where, value.decode(errors="replace"))
        return None

    def _of_chat(self, chat: _Composer) -> Iterator[Json]:
        found = self._listed(chat)
        cwd, whose = _folder(chat.about, found), (chat.name, SUBAGENT if _is_subagent(chat) else AGENT)
        said: tuple[list[DraftEvent], str] | None = None
        for name, message, at in self._new(chat, found):
            text, call = text_of(message.get("text")), message.get("toolFormerData")
            drafts: list[DraftEvent] = []
            if message.get("type") == 1:
                drafts = claude_code.prompted(text, f"prompt:{name}")
                self.report.left_out["messages that nobody said"] += not drafts
                if drafts and said is not None:
                    yield from (self._numbered(one, *whose, said[1], {}) for one in said[0])
                    said = None
            elif text.strip():
                self.report.left_out[BETWEEN] += said is not None
                said = claude_code.answered(text, f"answer:{name}"), at
            if message.get("type") != 1 and isinstance(call, dict):
                self.report.left_out[BETWEEN] += said is not None
                said, drafts = None, self._of_call(name, call, cwd)
            yield from (self._numbered(draft, *whose, at, {}) for draft in drafts)
        if said is not None:
            yield from (self._numbered(one, *whose, said[1], {}) for one in said[0])

    def _listed(self, chat: _Composer) -> dict[str, Json]:
        """Return the messages that a chat lists, by name and in order."""
        inline, listed = chat.about.get("conversation"), chat.about.get("fullConversationHeadersOnly")
        heads = listed if isinstance(listed, list) and listed else inline if isinstance(inline, list) else []
        named = [head for head in heads if isinstance(head, dict) and isinstance(head.get("bubbleId"), str)]
        found = {head["bubbleId"]: chat.messages.pop(head["bubbleId"], head) for head in named}
        self.report.left_out["messages that their chat does not list"] += len(chat.messages)
        return found

    def _new(self, chat: _Composer, messages: dict[str, Json]) -> Iterator[tuple[str, Json, str]]:
        """Yield those that have a time and were not imported before, with that time."""
        at = _instant(chat.about.get("createdAt"))
        for name, message in messages.items():
            at = _instant(message.get("createdAt")) or at  # old versions say only when the chat began
            if at is None:
                self.report.unread(f"message {name[:60]}", "no time")
            elif f"{chat.name}/{name}" in self._seen:
                self.report.left_out["messages copied from another file"] += 1
            else:
                self._seen.add(f"{chat.name}/{name}")
                yield name, message, at

    def _of_call(self, message: str, told: Json, cwd: str) -> list[DraftEvent]:
        raw, given, more = _json(told.get("rawArgs")), _json(told.get("params")), _json(told.get("additionalData"))
        arguments = {**object_of(given), **object_of(raw)}
        named, result = _VERSION.sub("", text_of(told.get("name")) or "tool"), _json(told.get("result"))
        path = next((arguments[name] for name in _PATHS if isinstance(arguments.get(name), str)), "")
        tool = "Bash" if named in _SHELLS else _EDITS.get(named, named) if path else named
        if tool in ("Edit", "Write"):
            written = next((arguments[name] for name in _WRITTEN if isinstance(arguments.get(name), str)), None)
            arguments = {"file_path": path, "content": written, **{
                name: arguments[name] for name in ("old_string", "new_string") if name in arguments
            }}  # fmt: skip
        else:
            arguments = object_of(raw) or object_of(given) if tool != "Bash" else arguments
        call = ClaudeCall(message, tool, arguments, cwd)
        status, of_more = told.get("status"), object_of(more).get("status")
        answer, why = object_of(result), _shown(_json(told.get("error")))
        declined = told.get("userDecision") == "rejected" and not answer
        if answer.get("rejected") is True or status in _REFUSED or of_more == "rejected" or declined:
            return [claude_code.refused(call, "")]
        if status in _RUNNING or (result is None and not status):
            self.report.left_out["calls without a result"] += 1
            return []
        codes = (answer.get("exitCodeV2"), answer.get("exitCode"))
        code = next((one for one in codes if isinstance(one, int) and not isinstance(one, bool)), 0)
        code = code or int("error" in (status, of_more))
        text = why if code and why else _shown(result)
        shown = f"Exit code {code}\n{text}" if tool == "Bash" and code else text
        drafts = claude_code.called(call, ClaudeOutcome(code == 0, shown))
        if named == "delete_file" and drafts[0].event_type == "file_edit":
            drafts[0].content["operation"] = "delete"
        return drafts


def _is_subagent(chat: _Composer) -> bool:
    return bool(chat.about.get("isSubagent") or chat.about.get("subagentInfo")) or chat.name.startswith("task-")


def _folder(about: Json, messages: Mapping[str, Json]) -> str:
    """Return the folder that a chat works in, from which the paths of its edits are told."""
    uri = object_of(object_of(about.get("workspaceIdentifier")).get("uri"))
    listed = [one.get("workspaceUris") for one in messages.values()]
    first = next((uris[0] for uris in listed if isinstance(uris, list) and uris), "")
    return text_of(uri.get("fsPath")) or text_of(uri.get("path")) or unquote(text_of(first).removeprefix("file://"))


def _instant(value: Any) -> str | None:
    match value:
        case str() if parse_instant(value) is not None:
            return value
        case int() | float() if not isinstance(value, bool) and 0 < value < 1e15:
            return format_ms(int(value))
    return None


def _json(value: Any) -> Any:
    """Return what a text of JSON holds, and anything else as it is."""
    try:
        return orjson.loads(value) if isinstance(value, str) and value[:1] in ("{", "[", '"') else value
    except orjson.JSONDecodeError:
        return value


def _shown(result: Any) -> str:
    """Return the words of a tool's result or error."""
    match result:
        case None:
            return ""
        case str():
            return result
        case (
            {"output": str(text)} | {"contents": str(text)} | {"stdout": str(text)} | {"result": str(text)}
            | {"modelVisibleErrorMessage": str(text)} | {"clientVisibleErrorMessage": str(text)}
        ):  # fmt: skip
            return text
        case {"content": [*parts]}:
            return "\n".join(one["text"] for one in parts if isinstance(one, dict) and isinstance(one.get("text"), str))
    try:
        return orjson.dumps(result).decode()
    except (orjson.JSONEncodeError, TypeError):
        return ""
