"""Event → `Step`: the bounded fields that mining sees, extracted from any payload dialect.

Input: the plain JSON values of an accepted event. What an event lacks, or has in an unexpected shape, is empty. The
event type table says where content holds what; content itself is never rewritten (HMX-E §4). Pack entries that an agent
repeats are removed from its texts.
"""

import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.episode import named_subject
from hmx_pipeline.contracts.event_rows import Places, Projection, Role
from hmx_pipeline.contracts.event_types import EVENT_TYPES, EventType, event_type
from hmx_pipeline.contracts.evidence import ASSERTED, EXTRACTED, UNPROVEN, Step
from hmx_pipeline.contracts.limits import (
    EVENT_BYTES,
    MB,
    STEP_ARGUMENT,
    STEP_ARGUMENTS,
    STEP_FOUND,
    STEP_FOUND_CHARACTERS,
    STEP_LISTED,
    STEP_TAGS,
    STEP_TEXT,
    STEP_VALUE,
    STEP_VALUES,
    TAG,
)
from hmx_pipeline.intake.event_projection import projected
from hmx_pipeline.intake.pack_echo import echoes, own_words

_SORTED: Final = orjson.OPT_SORT_KEYS
_digit: Final = re.compile(r"[0-9]").search
EXTRACTED_KEY: Final = "extractedMemories"
"""Metadata key under which Hippocortex clients send facts that their own model has extracted."""
_CALL: Final = Role.CALL
_MESSAGE: Final = Role.MESSAGE
_OBSERVATION, _FACT = "observation", "fact"
"""Type of an event, and the `kind` in its content by which an agent asks to remember it as a fact."""
_FOUND_LEVELS: Final = 3
_FOUND_BREADTH: Final = 8
_ENDED: Final = {
    **dict.fromkeys(("passed", "succeeded", "success", "ok", "completed"), True),
    **dict.fromkeys(("failed", "failure", "error", "timeout", "timed_out", "aborted", "cancelled"), False),
}
"""Words that report an outcome."""
Paths = tuple[str | list[str], ...]
"""Keys of the content, and paths of keys."""


class _StepReader(NamedTuple):
    """A row of the event type table, with its places split into keys."""

    role: Role
    fixed_name: str
    actor: Paths
    name: Paths
    text: Paths
    arguments: Paths
    ok: Paths
    exit_code: Paths
    call_id: Paths
    target: Paths
    about: Paths
    projection: Projection | None


@remembered(MB // 2)
def _reader(name: str) -> _StepReader:
    return _of_row(event_type(name))


def _of_row(row: EventType) -> _StepReader:
    return _StepReader(
        row.role,
        row.fixed_name,
        _split(row.actor),
        _split(row.name),
        _split(row.text),
        _split(row.arguments),
        _split(row.ok),
        _split(row.exit_code),
        _split(row.call_id),
        _split(row.target),
        _split(row.about),
        row.projection,
    )


def _split(places: Places) -> Paths:
    return tuple(place.split(".") if "." in place else place for place in places)


_READERS: Final = {name: _of_row(row) for name, row in EVENT_TYPES.items()}


def step_of(
    fields: dict[str, Any], at_ms: int, index: int, characters: int = STEP_TEXT, *, proven: bool = True
) -> Step:
    """Return the step at `index` of its session, dated `at_ms` (milliseconds), with at most `characters` of text.
    `proven`: False if nothing vouches for the agent that it names."""
    kind = _READERS.get(fields["event_type"]) or _reader(fields["event_type"])
    role, fixed_name, actor, name, text, arguments, ok, exit_code, call_id, target, about, projection = kind
    content = fields["content"]
    told = extracted(fields["metadata"]) if role is _MESSAGE and "metadata" in fields else None
    typed = projected(projection, fields) if projection is not None and "session_id" in fields else None
    said = told or (_first(content, text) if text else None)
    asserts = fields["event_type"] == _OBSERVATION and content.get("kind") == _FACT
    found, listed = _found(said) if type(said) is dict or type(said) is list else ((), ())
    asked = _parsed(_first(content, arguments)) if arguments else None
    return Step(
        fields["event_id"],
        at_ms,
        role,
        index,
        _string(content, actor) if actor else "",
        EXTRACTED if told else ASSERTED if asserts else fixed_name or (_text(_first(content, name)) if name else ""),
        _own(said, characters),
        _values(asked) if arguments else _about(fields, about) if about else (),
        _ok(content, ok, exit_code) if ok or exit_code else None,
        _string(content, call_id) if call_id else "",
        fields.get("parent_event_id", ""),
        fields.get("correlation_id", ""),
        _string(content, target) if target else "",
        usable_tags(fields["tags"])[:STEP_TAGS] if "tags" in fields else (),
        found,
        listed,
        typed,
        _arguments(asked) if role is _CALL else (),
        named_subject(fields["metadata"]) if "metadata" in fields else "",
        (fields.get("agent_id", "") if proven else UNPROVEN) if typed is not None else "",
        fields.get("salience"),
    )


def extracted(metadata: dict[str, Any]) -> str:
    """Return the facts, one a line, that a Hippocortex client's own model has extracted from its conversation, as many
    as have room."""
    listed, told = metadata.get(EXTRACTED_KEY), ""
    for one in listed[:STEP_TEXT] if type(listed) is list else ():
        line = " ".join(one[:STEP_TEXT].split()) if type(one) is str else ""
        if line and len(told) + len(line) < STEP_TEXT - 1:
            told = f"{told}\n{line}" if told else line
    return told


def usable_tags(tags: Any) -> tuple[str, ...]:
    """Return the distinct tags that packs can filter by, in order."""
    if type(tags) is not list:
        return ()
    return tuple(dict.fromkeys(tag for tag in tags if type(tag) is str and len(tag) <= TAG))


def _first(content: dict[str, Any], paths: Paths) -> Any:
    """Return the value at the first path that is present and not null, else None."""
    for path in paths:
        value = content.get(path) if type(path) is str else _within(content, path)
        if value is not None:
            return value
    return None


def _within(value: Any, path: Iterable[str]) -> Any:
    for part in path:
        value = value.get(part) if type(value) is dict else None
    return value


def _string(content: dict[str, Any], paths: Paths) -> str:
    value = _first(content, paths)
    return value[:STEP_TEXT] if type(value) is str else ""


def _text(value: Any, characters: int = STEP_TEXT) -> str:
    if value is None:
        return ""
    if type(value) is str:
        return value[:characters]
    return orjson.dumps(value, option=_SORTED).decode()[:characters]


def _own(said: Any, characters: int) -> str:
    """Return the text without pack entries."""
    text = said[:characters] if type(said) is str else _text(said, characters)
    return own_words(_text(said, EVENT_BYTES))[:characters] if echoes(text) else text


def _values(arguments: Any) -> tuple[str, ...]:
    """Return the first scalar arguments, by key order. Booleans identify nothing, so they are left out."""
    if arguments is None:
        return ()
    found: dict[str, None] = {}
    rest = [arguments]
    while rest and len(found) < STEP_VALUES:
        value = rest.pop()
        if type(value) is dict:
            rest += [value[key] for key in sorted(value, reverse=True)]
        elif type(value) is list:
            rest += reversed(value)
        elif type(value) is str:
            if value:
                found[value[:STEP_VALUE]] = None
        elif type(value) is int or type(value) is float:
            found[_text(value)] = None
    return tuple(found)


def _arguments(arguments: Any) -> tuple[tuple[str, str], ...]:
    """Return the first plain arguments, by path order; all items of a list share a path."""
    found: list[tuple[str, str]] = []
    rest: list[tuple[str, Any]] = [("", arguments)]
    while rest and len(found) < STEP_ARGUMENTS:
        path, value = rest.pop()
        if type(value) is dict:
            before = f"{path}." if path else ""
            rest += [(f"{before}{key}", value[key]) for key in sorted(value, reverse=True)]
        elif type(value) is list:
            rest += [(f"{path}[]", item) for item in reversed(value[:STEP_ARGUMENTS])]
        elif path and value is not None:
            found.append((path[:STEP_ARGUMENT], _text(value, STEP_ARGUMENT)))
    return tuple(found)


def _about(fields: dict[str, Any], paths: Paths) -> tuple[str, ...]:
    """Return the texts at these paths; empty if the first is."""
    named = [_string(fields, (path,)) for path in paths]
    return tuple(named) if named[0] else ()


def _found(said: dict[str, Any] | list[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return a result's facts, and the ids of its first list of ids, level by level from the outside and by key order.
    Values with digits vary between results, and long texts are for people, so both are left out."""
    found: dict[str, None] = {}
    listed: tuple[str, ...] = ()
    level: list[Any] = [said]
    for _ in range(_FOUND_LEVELS):
        below: list[Any] = []
        for value in level[:_FOUND_BREADTH]:
            if type(value) is dict:
                for key in sorted(value) if len(found) < STEP_FOUND else ():
                    _find(key, value[key], found, below)
            else:
                below.extend(inner for inner in value[:_FOUND_BREADTH] if type(inner) is dict)
                listed = listed or tuple(v for v in value[:STEP_LISTED] if type(v) is str and _is_id(v))
        if len(found) >= STEP_FOUND:
            break
        level = below
    return tuple(found)[:STEP_FOUND], listed


def _is_id(value: str) -> bool:
    return 1 < len(value) <= STEP_VALUE and any(map(str.isdigit, value)) and not any(map(str.isspace, value))


def _find(key: str, value: Any, found: dict[str, None], below: list[Any]) -> None:
    kind = type(value)
    if kind is str:
        said = value
    elif kind is bool:
        said = "true" if value else "false"
    else:
        if kind is dict or kind is list:
            below.append(value)
        return
    if said and len(key) + len(said) < STEP_FOUND_CHARACTERS:
        pair = f"{key}={said}"
        if not (_digit(pair) if pair.isascii() else any(map(str.isdigit, pair))):
            found[pair] = None


def _parsed(arguments: Any) -> Any:
    """Parse arguments that a client sent as the text of a JSON object."""
    if type(arguments) is str and arguments.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return arguments
    return arguments


def _ok(content: dict[str, Any], flags: Paths, exit_code: Paths) -> bool | None:
    """Return the success that the event reports, else that of its exit code. `passed` may be a count of tests, which
    says nothing."""
    for path in flags:
        value = content.get(path) if type(path) is str else _within(content, path)
        if type(value) is bool:
            return value
        if type(value) is str and value.casefold() in _ENDED:
            return _ENDED[value.casefold()]
    code = _first(content, exit_code)
    return code == 0 if type(code) is int or type(code) is float else None
