"""The hooks that Claude Code would have called while it wrote a transcript."""

from collections.abc import Iterator
from typing import Any

from hmx_pipeline.doors.claude_code import refusal

Json = dict[str, Any]


def hooks_of(lines: list[Json]) -> Iterator[tuple[Json, Json]]:
    """Each with the line that it belongs to. No hook tells of the assistant's words between its calls, nor of an
    interruption between them."""
    calls: dict[str, Json] = {}
    said: tuple[Json, Json] | None = None
    prompt = ""
    yield _hook(lines[0], "SessionStart", source="startup"), lines[0]
    for line in lines:
        content = line["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            match block["type"]:
                case "text" if line["type"] == "assistant":
                    said = (_hook(line, "Stop", last_assistant_message=block["text"], prompt_id=prompt), line)
                case "text":
                    if said is not None:
                        yield said
                    said, prompt = None, line["promptId"]
                    if not block["text"].startswith("[Request interrupted by user"):
                        yield _hook(line, "UserPromptSubmit", prompt=block["text"], prompt_id=prompt), line
                case "tool_use":
                    said = None
                    calls[block["id"]] = block
                    yield _hook(line, "PreToolUse", **_about(block)), line
                case "tool_result":
                    prompt = line["promptId"]
                    yield _outcome(line, block, calls[block["tool_use_id"]]), line
    if said is not None:
        yield said
    yield _hook(lines[-1], "SessionEnd", reason="prompt_input_exit"), lines[-1]


def _outcome(line: Json, block: Json, call: Json) -> Json:
    if not block.get("is_error"):
        return _hook(line, "PostToolUse", **_about(call), tool_response=line["toolUseResult"])
    words = refusal(block["content"])
    if words is not None:
        return _hook(line, "PermissionDenied", **_about(call), reason=words)
    return _hook(line, "PostToolUseFailure", **_about(call), error=block["content"], is_interrupt=False)


def _about(call: Json) -> Json:
    return {"tool_name": call["name"], "tool_input": call["input"], "tool_use_id": call["id"]}


def _hook(line: Json, name: str, **fields: Any) -> Json:
    common = {"session_id": line["sessionId"], "cwd": line["cwd"], "transcript_path": "t.jsonl"}
    return {**common, "permission_mode": "default", "hook_event_name": name, **fields}
