"""What an accepted event does otherwise than HMX-E asks, though nobody rejects it for that (§3, §4).

Enters: an event's type and content. Leaves: a few short sentences that name fields and never values. Never fails.
"""

from functools import lru_cache
from typing import Any, Final

from pydantic import ValidationError

from pipeline.contracts.event_types import EVENT_TYPES, namespaced
from pipeline.contracts.limits import NOTES
from pipeline.intake.paths import path_of

_FORM: Final = ("event_type: custom types have the form x-{vendor}-{type}",)


def notes(name: str, content: dict[str, Any]) -> tuple[str, ...]:
    """Of custom types the form is looked at, of standard types the content (where it has a schema)."""
    row = EVENT_TYPES.get(name)
    if row is None:
        return _of_form(name)
    if row.content is None:
        return ()
    try:
        row.content.__pydantic_validator__.validate_python(content)
    except ValidationError as error:
        return _mismatches(error)
    return ()


@lru_cache(maxsize=256)
def _of_form(name: str) -> tuple[str, ...]:
    return () if namespaced(name) else _FORM


def _mismatches(error: ValidationError) -> tuple[str, ...]:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return tuple(f"{_place(each['loc'])}: {_said(each['type'], each['msg'])}" for each in found[:NOTES])


def _place(loc: tuple[str | int, ...]) -> str:
    return path_of(("content", *loc)).removeprefix("$.")


def _said(kind: str, message: str) -> str:
    return "missing" if kind == "missing" else message.removeprefix("Input ")
