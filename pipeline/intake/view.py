"""What mining sees of an event: a small step, whatever dialect its content is written in.

Enters: the plain JSON values of an accepted event. Leaves: a `Step`, each of its texts bounded. Never fails: what an
event doesn't say, or says in an unexpected shape, is empty. The table of event types says where content holds
what; content itself is never rewritten (HMX-E §4).
"""

from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from pipeline.contracts.event_types import Role, event_type
from pipeline.contracts.evidence import Step
from pipeline.contracts.limits import STEP_TAGS, STEP_TEXT, STEP_VALUE, STEP_VALUES, TAG

_SORTED: Final = orjson.OPT_SORT_KEYS
Paths = tuple[list[str], ...]


class _Reader(NamedTuple):
    """A row of the table with its places split: a place is a key of the content, or a path of keys."""

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


@lru_cache(maxsize=256)
def _reader(name: str) -> _Reader:
    row = event_type(name)
    places = (row.actor, row.name, row.text, row.arguments, row.ok, row.exit_code, row.call_id, row.target)
    return _Reader(row.role, row.fixed_name, *(tuple(place.split(".") for place in known) for known in places))


def step_of(fields: dict[str, Any], at_ms: int, index: int, characters: int = STEP_TEXT) -> Step:
    """The step at `index` of its session, dated `at_ms`, with so many characters of text."""
    role, fixed_name, actor, name, text, arguments, ok, exit_code, call_id, target = _reader(fields["event_type"])
    content = fields["content"]
    return Step(
        fields["event_id"],
        at_ms,
        role,
        index,
        _string(content, actor) if actor else "",
        fixed_name or (_text(_first(content, name)) if name else ""),
        _text(_first(content, text), characters) if text else "",
        _values(_first(content, arguments)) if arguments else (),
        _ok(content, ok, exit_code) if ok or exit_code else None,
        _string(content, call_id) if call_id else "",
        fields.get("parent_event_id", ""),
        fields.get("correlation_id", ""),
        _string(content, target) if target else "",
        usable_tags(fields["tags"])[:STEP_TAGS] if "tags" in fields else (),
    )


def usable_tags(tags: Any) -> tuple[str, ...]:
    """Those that packs can be filtered by, each once, in their order."""
    if type(tags) is not list:
        return ()
    return tuple(dict.fromkeys(tag for tag in tags if type(tag) is str and len(tag) <= TAG))


def _first(content: dict[str, Any], paths: Paths) -> Any:
    """What stands at the first of the paths that isn't absent or null, else None."""
    for path in paths:
        value = content.get(path[0])
        for part in path[1:]:
            value = value.get(part) if type(value) is dict else None
        if value is not None:
            return value
    return None


def _string(content: dict[str, Any], paths: Paths) -> str:
    value = _first(content, paths)
    return value[:STEP_TEXT] if type(value) is str else ""


def _text(value: Any, characters: int = STEP_TEXT) -> str:
    if value is None:
        return ""
    if type(value) is str:
        return value[:characters]
    return orjson.dumps(value, option=_SORTED).decode()[:characters]


def _values(arguments: Any) -> tuple[str, ...]:
    """The first scalars of the arguments, by the order of their keys; true and false name nothing and stay out."""
    if arguments is None:
        return ()
    found: dict[str, None] = {}
    rest = [_parsed(arguments)]
    while rest and len(found) < STEP_VALUES:
        value = rest.pop()
        if type(value) is dict:
            rest.extend(value[key] for key in sorted(value, reverse=True))
        elif type(value) is list:
            rest.extend(reversed(value))
        elif type(value) is str:
            if value:
                found[value[:STEP_VALUE]] = None
        elif type(value) is int or type(value) is float:
            found[_text(value)] = None
    return tuple(found)


def _parsed(arguments: Any) -> Any:
    """Some clients send arguments as the text of a JSON object."""
    if type(arguments) is str and arguments.lstrip()[:1] in ("{", "["):
        try:
            return orjson.loads(arguments)
        except orjson.JSONDecodeError:
            return arguments
    return arguments


def _ok(content: dict[str, Any], flags: Paths, exit_code: Paths) -> bool | None:
    """Success as the event says it, else as its exit code does. `passed` may be a count of tests: no answer."""
    for path in flags:
        value = _first(content, (path,))
        if type(value) is bool:
            return value
    code = _first(content, exit_code)
    return code == 0 if type(code) is int or type(code) is float else None
