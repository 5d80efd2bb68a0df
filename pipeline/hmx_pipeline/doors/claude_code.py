"""Claude Code's prompts, tool calls and refusals as HMX events. Its transcripts and its hooks both go through here, so
both teach the same.

Enters: what was said, called or refused. Leaves: drafts; none where nothing was said. A tool call becomes events when
its outcome is known: so a call and its result stand together, however many ran side by side.
"""

import re
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.doors.draft import DraftEvent, bounded, cut, message_of
from hmx_pipeline.segments.commands import Simple, simple_commands

AGENT: Final = "claude-code"
SUBAGENT: Final = "claude-code-subagent"
"""One name for all sub-agents: each has an id of its own for every run, which would make each an agent seen once."""
VENDOR: Final = "x-claude_code-"

_EDITS: Final = {"Edit": "modify", "MultiEdit": "modify", "NotebookEdit": "modify", "Write": "create"}
_RUNNERS: Final = re.compile(
    r"(?:py|c|nose)test2?|py\.test|nosetests|jest|vitest|mocha|rspec|phpunit|tox|nox|gotestsum|playwright"
)
_CHECKS: Final = re.compile(r"(?:\S+[:_-])?(?:tests?|lint|typecheck)(?:[:_-]\S+)?|nextest")
"""What a task runner is told where it runs tests or checks."""
_LAUNCHERS: Final = re.compile(
    r"ant|bazel|bun|bundle|cargo|composer|deno|dotnet|go|gradlew?|just|make|mise|mix|mvnw?|npm|npx|nx|pdm|pnpm|poetry"
    r"|python3?|rake|ruby|sbt|swift|task|turbo|uv|yarn|zig"
)
_INJECTED: Final = re.compile(
    r"<(system-reminder|ide_opened_file|ide_selection|ide_diagnostics|user-prompt-submit-hook)>.*?(?:</\1>|\Z)",
    re.DOTALL,
)
"""What the client adds to a prompt, packs of this memory among it."""
_COMMAND: Final = re.compile(r"<command-name>\s*(.*?)\s*</command-name>", re.DOTALL)
_ARGUMENTS: Final = re.compile(r"<command-args>\s*(.*?)\s*</command-args>", re.DOTALL)
_OWN: Final = re.compile(
    r"\s*(?:<(?:local-command-|bash-(?:input|stdout|stderr)|task-notification|command-message)"
    r"|This session is being continued from a previous conversation that ran out of context)"
)
"""How texts begin that the client writes in the user's name: its own, and the summary of what it compacted."""
_INTERRUPTED: Final = re.compile(r"\s*\[Request interrupted by user(?: for tool use)?\]\s*")
_REFUSED: Final = re.compile(
    r"(?:The user doesn't want to (?:proceed with|take) this (?:tool use|action)|User rejected)"
)
_REFUSAL: Final = re.compile(r"the user said:\s*(.*)", re.DOTALL)
_EXIT: Final = re.compile(r"\s*(?:Error:\s*)?Exit code (-?\d+)\s*\n?")
_ERROR: Final = re.compile(r"\s*(?:Error:\s*)?<tool_use_error>(.*?)(?:</tool_use_error>)?\s*\Z", re.DOTALL)


class ClaudeCall(NamedTuple):
    tool_use_id: str
    tool: str
    arguments: Mapping[str, Any]
    cwd: str = ""

    def key(self, part: str) -> str:
        """Return the key of an event about this call; old hooks do not name their calls."""
        return f"{part}:{self.tool_use_id}" if self.tool_use_id else ""


class ClaudeOutcome(NamedTuple):
    ok: bool
    text: str = ""
    """What the model was shown; empty if only `told` is known."""
    told: Any = None
    """What the tool returned, as data."""
    duration_ms: float = 0.0


def turn_key(part: str, prompt_id: object, otherwise: str) -> str:
    """Return the key of a prompt or of its answer, by the id that new transcripts and hooks give the prompt."""
    return f"{part}:{prompt_id}" if isinstance(prompt_id, str) and prompt_id else otherwise


def prompted(text: str, key: str) -> list[DraftEvent]:
    """Return what the user said or typed as a command, without what the client added to it."""
    if _INTERRUPTED.fullmatch(text):
        return [interrupted(key)]
    said = _INJECTED.sub("", text)
    command = _COMMAND.search(said)
    if command is not None:
        arguments = _ARGUMENTS.search(said)
        said = f"{command[1]} {arguments[1] if arguments else ''}"
    elif _OWN.match(said):
        return []
    return [message_of("user", said, key)] if said.strip() else []


def answered(text: str, key: str) -> list[DraftEvent]:
    return [message_of("assistant", text, key)] if text.strip() else []


def failed(message: str, key: str) -> DraftEvent:
    """Return the failure of a turn: the model could not be asked."""
    content = {"error_type": "api_error", "message": cut(message.strip()), "stack": "", "recoverable": True}
    return DraftEvent("error", content, key)


def interrupted(key: str, comment: str = "interrupted by the user") -> DraftEvent:
    return DraftEvent("feedback", {"signal": "negative", "target_event_id": "", "comment": comment}, key)


def compacted(trigger: str, key: str) -> DraftEvent:
    """The summary is not kept: it says again, in a model's words, what the events before it say."""
    return DraftEvent(f"{VENDOR}compaction.completed", {"status": "completed", "mode": trigger}, key)


def refusal(text: str) -> str | None:
    """Return the user's words where a result says that the user refused the call; None if it says something else."""
    if _REFUSED.search(text) is None:
        return None
    words = _REFUSAL.search(text)
    return words[1].strip() if words else ""


def refused(call: ClaudeCall, words: str) -> DraftEvent:
    """Return the user's refusal. The call itself is no event: nothing was done."""
    signal = "correction" if words else "negative"
    content = {"signal": signal, "target_event_id": "", "comment": cut(words) or "the user refused the call"}
    about = {"rejected_tool": call.tool, "rejected_command": cut(what(call), 512)}
    return DraftEvent("feedback", content, call.key("refused"), about)


def called(call: ClaudeCall, outcome: ClaudeOutcome) -> list[DraftEvent]:
    """Return what was done: a command, a run of tests, an edit, or a call with its result."""
    text = _shown(outcome)
    if call.tool == "Bash" and isinstance(call.arguments.get("command"), str):
        return [_command(call, outcome, text)]
    if call.tool in _EDITS and _path(call):
        return [_edit(call, outcome, text)]
    name = {"tool_name": call.tool, "call_id": call.tool_use_id}
    return [
        DraftEvent("tool_call", {**name, "arguments": bounded(dict(call.arguments))}, call.key("call")),
        DraftEvent(
            "tool_result",
            {**name, "result": {"text": text}, "success": outcome.ok, "duration_ms": outcome.duration_ms},
            call.key("result"),
        ),
    ]


def is_test(command: str) -> bool:
    """Return whether a command line runs tests or checks."""
    return any(_tests(simple) for simple in simple_commands(command))


def _tests(simple: Simple) -> bool:
    told = [*simple.words[:3], *(value for key, value in simple.options if key == "-m" and value)]
    launched = _LAUNCHERS.fullmatch(PurePath(simple.program).name) is not None
    return _RUNNERS.fullmatch(PurePath(simple.program).name) is not None or (
        launched and any((_RUNNERS.fullmatch(word) or _CHECKS.fullmatch(word)) for word in told)
    )


def _command(call: ClaudeCall, outcome: ClaudeOutcome, text: str) -> DraftEvent:
    command, code = str(call.arguments["command"]), 0
    if not outcome.ok:
        found = _EXIT.match(text)
        code, text = (int(found[1]), text[found.end() :]) if found else (1, text)
    content = {"command": cut(command), "exit_code": code, "success": outcome.ok, "output": text}
    if isinstance(description := call.arguments.get("description"), str):
        content["description"] = cut(description, 512)
    return DraftEvent("test_run" if is_test(command) else "command_exec", content, call.key("call"))


def _edit(call: ClaudeCall, outcome: ClaudeOutcome, text: str) -> DraftEvent:
    given = call.arguments
    content: dict[str, Any] = {"path": _path(call), "operation": _EDITS[call.tool], "success": outcome.ok}
    for ours, theirs in (("old_text", ("old_string",)), ("new_text", ("new_string", "new_source", "content"))):
        said = next((given[name] for name in theirs if isinstance(given.get(name), str)), None)
        if said is not None:
            content[ours] = cut(said)
    if isinstance(given.get("edits"), list):
        content["edits"] = bounded(given["edits"])
    if not outcome.ok:
        content["error"] = text
    return DraftEvent("file_edit", content, call.key("call"))


def _path(call: ClaudeCall) -> str:
    """Return the path that an edit names, from the working directory if it lies there: checkouts lie elsewhere."""
    named = next((call.arguments.get(name) for name in ("file_path", "notebook_path") if call.arguments.get(name)), "")
    path = PurePath(str(named))
    inside = call.cwd and path.is_relative_to(call.cwd)
    return cut(str(path.relative_to(call.cwd) if inside else path), 1_024) if named else ""


def what(call: ClaudeCall) -> str:
    """Return what a call is about: its command, else its file."""
    return str(call.arguments.get("command") or _path(call) or "")


def _shown(outcome: ClaudeOutcome) -> str:
    """Return the text of a result. A failure's stands in the words for the model, a success's in the tool's data."""
    text = _text_of(outcome.told) if outcome.ok and outcome.told is not None else outcome.text or _text_of(outcome.told)
    error = None if outcome.ok else _ERROR.match(text)
    return cut(error[1] if error else text)


def _text_of(told: Any) -> str:
    """Return the text in a tool's data: an output, a file, content blocks, a list of names; else the data as JSON."""
    match told:
        case None:
            return ""
        case str():
            return told
        case {"stdout": str(out), **rest}:
            err = rest.get("stderr")
            return f"{out}\n{err}" if isinstance(err, str) and err.strip() else out
        case {"file": {"content": str(content)}} | {"content": str(content)} | {"result": str(content)}:
            return content
        case {"content": [*blocks]}:
            return _text_of(blocks)
        case {"filenames": [*names]} if names:
            return "\n".join(map(str, names))
        case [*blocks] if blocks and all(isinstance(one, dict) and "type" in one for one in blocks):
            return "\n".join(str(one["text"]) for one in blocks if isinstance(one.get("text"), str))
    return orjson.dumps(bounded(told)).decode()
