"""What ran as a tool, and how it ended: from a tool's span, and from a result's own words.

Enters: a span of OpenTelemetry's, OpenInference's or OpenLLMetry's form, with LangChain's messages in it; and the calls
that models have asked for. Leaves: the call, its result and whether it succeeded.
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.doors.draft import bounded, cut
from hmx_pipeline.doors.otel_messages import ToolUse, arguments_of, as_json
from hmx_pipeline.doors.otlp import Json, OtelRecord

COMPARED: Final = 64
"""Arguments of a call that are compared with what its tool got."""
_TOOL: Final = ("gen_ai.tool.name", "tool.name", "traceloop.entity.name")
_GIVEN: Final = ("gen_ai.tool.call.arguments", "input.value", "traceloop.entity.input")
_RESULT: Final = ("gen_ai.tool.call.result", "output.value", "traceloop.entity.output")
_FAILURE: Final = re.compile(
    r"\W*+(?:(?:an? |the |tool |execution |command )*(?:error|exception|failed|failure)\b"
    r"|traceback \(most recent|[\w.]*(?:error|exception):)",
    re.IGNORECASE,
)


class ToolRun(NamedTuple):
    call: ToolUse
    result: Json
    ok: bool


def tool_run(record: OtelRecord, announced: list[ToolUse]) -> ToolRun:
    """Return what a tool's span tells; its call is taken from those that are announced."""
    given, call_id = record.attributes, str(record.attributes.get("gen_ai.tool.call.id") or "")
    ok, result = not record.failed and not given.get("error.type"), _told(given, _RESULT)
    match result:  # LangChain's message of a result, as it is, as data, or as OpenLLMetry writes it
        case (
            {"output": {"kwargs": {"content": inner, "tool_call_id": named, **rest}}}
            | {"data": {"content": inner, "tool_call_id": named, **rest}}
            | {"content": inner, "tool_call_id": named, **rest}
        ):
            ok, result, call_id = ok and rest.get("status") != "error", as_json(inner), call_id or str(named)
    if not ok:
        result = exception(record, "message") or record.status or result or str(given.get("error.type") or "")
    call = _asked(call_id, _told(given, _GIVEN), announced)
    call = call._replace(call_id=call.call_id or record.span_id, name=tool_name(record))
    return ToolRun(call, result_of(result), ok)


def _told(given: Json, names: tuple[str, ...]) -> Any:
    return as_json(next((given[one] for one in names if one in given), None))


def _asked(call_id: str, given: Any, announced: list[ToolUse]) -> ToolUse:
    """Return the call that a span is of. If it lacks the id or the arguments, a model's words have them."""
    match given:
        case {"input_str": _, "inputs": dict(inner)} | {"args": _, "kwargs": dict(inner)}:  # OpenLLMetry's forms
            given = inner
    whole = isinstance(given, dict)
    fitting = [call for call in announced if call.call_id == call_id]
    if not call_id:
        fitting = [
            one for one in announced if given in (None, one.arguments, *islice(one.arguments.values(), COMPARED))
        ]
    if len(fitting) != 1:
        return ToolUse(call_id, "", arguments_of(given))
    announced.remove(fitting[0])
    return fitting[0]._replace(arguments=given) if whole else fitting[0]


def tool_name(record: OtelRecord) -> str:
    named = first_text(record.attributes, _TOOL) or record.name.removeprefix("execute_tool ").removeprefix(
        "tools/call "
    )
    return cut(named or "tool", 256)


def result_of(given: Any) -> Json:
    found = as_json(given)
    if isinstance(found, dict):
        kept: Json = bounded(found)
        return kept
    return {"text": cut(found if isinstance(found, str) else "" if found is None else written(found))}


def says_failed(result: Json) -> bool:
    """Return whether a result for the model says that its call failed, as frameworks and most tools put it."""
    text, status = result.get("text"), result.get("status")
    return (
        any(result.get(name) for name in ("error", "isError", "is_error"))
        or any(result.get(name) is False for name in ("success", "ok"))
        or (isinstance(status, str) and status.lower() in ("error", "failed", "failure"))
        or (isinstance(text, str) and _FAILURE.match(text[:200]) is not None)
    )


def exception(record: OtelRecord, part: str) -> str:
    found = (event.attributes.get(f"exception.{part}") for event in record.events if event.name == "exception")
    return next((value for value in found if isinstance(value, str)), "")


def first_text(fields: Mapping[str, Any], names: tuple[str, ...]) -> str:
    return next((value for value in map(fields.get, names) if isinstance(value, str) and value), "")


def written(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=str).decode()
