"""What mining sees of an event: a small step, whatever dialect its content is written in.

Enters: the plain JSON values of an accepted event. Leaves: a `Step`, each of its texts bounded. Never fails: what an
event doesn't say, or says in an unexpected shape, is empty. The table of event types says where content holds
what; content itself is never rewritten (HMX-E §4).
"""

from functools import lru_cache
from typing import Any, Final

import orjson

from pipeline.contracts.event_types import EventType, Places, event_type
from pipeline.contracts.evidence import Step
from pipeline.contracts.limits import STEP_TAGS, STEP_TEXT, STEP_VALUE, STEP_VALUES, TAG

_SORTED: Final = orjson.OPT_SORT_KEYS


def step_of(fields: dict[str, Any], at_ms: int, index: int, characters: int = STEP_TEXT) -> Step:
    """The step at `index` of its session, dated `at_ms`, with so many characters of text."""
    row = event_type(fields["event_type"])
    content = fields["content"]
    return Step(
        event_id=fields["event_id"],
        at=at_ms,
        role=row.role,
        index=index,
        actor=_string(content, row.actor) if row.actor else "",
        name=row.fixed_name or (_text(_first(content, row.name)) if row.name else ""),
        text=_text(_first(content, row.text), characters) if row.text else "",
        values=_values(_first(content, row.arguments)) if row.arguments else (),
        ok=_ok(content, row) if row.ok or row.exit_code else None,
        call_id=_string(content, row.call_id) if row.call_id else "",
        parent=fields.get("parent_event_id", ""),
        correlation=fields.get("correlation_id", ""),
        target=_string(content, row.target) if row.target else "",
        tags=usable_tags(fields["tags"])[:STEP_TAGS] if "tags" in fields else (),
    )


def usable_tags(tags: Any) -> tuple[str, ...]:
    """Those that packs can be filtered by, each once, in their order."""
    if type(tags) is not list:
        return ()
    return tuple(dict.fromkeys(tag for tag in tags if type(tag) is str and len(tag) <= TAG))


def _first(content: dict[str, Any], places: Places) -> Any:
    """What stands at the first of `places` that isn't absent or null, else None."""
    for parts in _split(places):
        value: Any = content
        for part in parts:
            value = value.get(part) if type(value) is dict else None
        if value is not None:
            return value
    return None


@lru_cache
def _split(places: Places) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(place.split(".")) for place in places)


def _string(content: dict[str, Any], places: Places) -> str:
    value = _first(content, places)
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


def _ok(content: dict[str, Any], row: EventType) -> bool | None:
    """Success as the event says it, else as its exit code does. `passed` may be a count of tests: no answer."""
    for place in row.ok:
        value = _first(content, (place,))
        if type(value) is bool:
            return value
    code = _first(content, row.exit_code)
    return code == 0 if type(code) is int or type(code) is float else None
