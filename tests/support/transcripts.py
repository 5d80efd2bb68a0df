"""Claude Code sessions, kept as HMX events, as the transcript that Claude Code would have written of them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import orjson

Json = dict[str, Any]
CWD = "/home/dev/work"


class Transcript:
    """Writes the lines of one session."""

    def __init__(self, session: str, cwd: str = CWD, **common: Any) -> None:
        self.session = session
        self.lines: list[Json] = []
        self._common = {"cwd": cwd, "version": "2.1.0", "gitBranch": "main", "userType": "external", **common}
        self._calls = self._prompts = 0

    def line(self, kind: str, at: str, **fields: Any) -> Json:
        uuid = f"{self.session}-{len(self.lines):06d}"
        parent = self.lines[-1].get("uuid") if self.lines else None
        written = {
            "parentUuid": parent, "isSidechain": False, **self._common, "sessionId": self.session, "type": kind,
            "uuid": uuid, "timestamp": at, **fields,
        }  # fmt: skip
        self.lines.append(written)
        return written

    def user(self, text: str, at: str, **fields: Any) -> None:
        self._prompts += 1
        prompt = {"promptId": f"{self.session}-prompt-{self._prompts}"}
        self.line("user", at, message={"role": "user", "content": text}, **prompt, **fields)

    def assistant(self, text: str, at: str, stop_reason: str | None = None, **fields: Any) -> None:
        self._assistant({"type": "text", "text": text}, at, stop_reason, **fields)

    def call(self, tool: str, arguments: Json, at: str, call_id: str = "") -> str:
        self._calls += 1
        name = call_id or f"toolu_{self.session}_{self._calls:06d}"
        self._assistant({"type": "tool_use", "id": name, "name": tool, "input": arguments}, at)
        return name

    def result(self, call_id: str, text: str, at: str, *, ok: bool = True, told: Any = None, **fields: Any) -> None:
        block: Json = {"type": "tool_result", "tool_use_id": call_id, "content": text}
        if not ok:
            block["is_error"] = True
            told = f"Error: {text}"
        prompt = {"promptId": f"{self.session}-prompt-{self._prompts}"}
        self.line("user", at, message={"role": "user", "content": [block]}, toolUseResult=told, **prompt, **fields)

    def ran(self, command: str, output: str, at: str, *, exit_code: int = 0, call_id: str = "") -> None:
        name = self.call("Bash", {"command": command, "description": "Run it"}, at, call_id)
        if exit_code:
            self.result(name, f"Exit code {exit_code}\n{output}", at, ok=False)
        else:
            self.result(name, output, at, told={"stdout": output, "stderr": "", "interrupted": False})

    def _assistant(self, block: Json, at: str, stop_reason: str | None = None, **fields: Any) -> None:
        message = {"role": "assistant", "content": [block], "stop_reason": stop_reason}
        self.line("assistant", at, message=message, **fields)

    def written(self) -> list[bytes]:
        return [orjson.dumps(line) for line in self.lines]

    def write(self, folder: Path) -> Path:
        file = folder / "-home-dev-work" / f"{self.session}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"".join(line + b"\n" for line in self.written()))
        return file


def transcripts_of(events: Iterable[Json]) -> Iterator[Transcript]:
    """One per session, in the order in which the sessions begin."""
    sessions: dict[str, Transcript] = {}
    for event in events:
        session = event["session_id"]
        _add(sessions.setdefault(session, Transcript(session)), event)
    for made in sessions.values():
        if made.lines[-1]["type"] == "assistant":
            made.lines[-1]["message"]["stop_reason"] = "end_turn"
        yield made


def _add(to: Transcript, event: Json) -> None:
    content, at, about = event["content"], event["timestamp"], event.get("metadata", {})
    match event["event_type"]:
        case "message" if content["role"] == "user":
            to.user(content["text"], at)
        case "message":
            to.assistant(content["text"], at)
        case "tool_call" if content["tool_name"]:
            to.call(content["tool_name"], content["arguments"], at, content["call_id"])
        case "tool_result":
            text = content["result"].get("text", "")
            to.result(content["call_id"], text, at, ok=content["success"], told=text)
        case "command_exec" | "test_run":
            output = content["output"].removeprefix(f"Exit code {content['exit_code']}\n")
            to.ran(content["command"], output, at, exit_code=content["exit_code"] or 0)
        case "file_edit":
            edited = {"old_string": content["old_text"], "new_string": content["new_text"]}
            call = to.call("Edit", {"file_path": f"{CWD}/{content['path']}", **edited}, at)
            to.result(call, "edited" if content["success"] else "String not found", at, ok=content["success"])
        case "feedback" if "rejected_tool" in about:
            tool, what = about["rejected_tool"] or "Bash", about["rejected_command"]
            call = to.call(tool, {"command": what} if tool == "Bash" else {"file_path": what}, at)
            to.result(call, content["comment"], at, ok=False)
        case "feedback":
            to.user(content["comment"], at)
