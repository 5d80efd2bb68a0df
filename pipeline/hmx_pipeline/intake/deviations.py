"""Notes on accepted events that deviate from HMX-E §3 and §4: short sentences with field names, never values.

Input: an event's type and content. Output: at most 16 notes; none for a type that has no schema, unless the form of its
name is wrong.
"""

from types import GenericAlias
from typing import Any, Final, get_args, get_origin

import msgspec
from pydantic import ValidationError

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.compiled_structs import compiled
from hmx_pipeline.contracts.content import Content
from hmx_pipeline.contracts.event_types import EVENT_TYPES, namespaced
from hmx_pipeline.contracts.limits import MB, NOTES
from hmx_pipeline.intake.json_paths import path_of

FORM: Final = "event_type: custom types have the form x-{vendor}-{type}"


def notes(name: str, content: dict[str, Any]) -> tuple[str, ...]:
    """Return the notes: for custom types on the type's form, for standard types on the content (if it has a schema)."""
    shape = _SHAPES.get(name)
    if shape is None:
        return () if name in EVENT_TYPES else _of_form(name)
    try:
        msgspec.convert(content, shape)
    except msgspec.ValidationError:
        return _mismatches(name, content)
    return ()


def _shape(kind: Any) -> Any:
    """Convert a type for msgspec, which is faster and only says whether a value is valid."""
    if isinstance(kind, type) and issubclass(kind, Content):
        fields = [(name, _shape(field.annotation)) for name, field in kind.model_fields.items()]
        return compiled(msgspec.defstruct(kind.__name__, fields, gc=False))
    return kind if get_origin(kind) is not list else GenericAlias(list, _shape(get_args(kind)[0]))


_SHAPES: Final = {name: _shape(row.content) for name, row in EVENT_TYPES.items() if row.content is not None}
_LISTS: Final = {
    name: {field: get_args(kind)[0] for field, kind in shape.__annotations__.items() if get_origin(kind) is list}
    for name, shape in _SHAPES.items()
}


@remembered(MB // 4)
def _of_form(name: str) -> tuple[str, ...]:
    return () if namespaced(name) else (FORM,)


def _mismatches(name: str, content: dict[str, Any]) -> tuple[str, ...]:
    model = EVENT_TYPES[name].content
    assert model is not None
    lists = {field: _told(content.get(field), shape) for field, shape in _LISTS[name].items() if field in content}
    try:
        model.__pydantic_validator__.validate_python(content | lists)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)
    else:
        return ()
    return tuple(f"{_place(each['loc'])}: {_said(each['type'], each['msg'])}" for each in found[:NOTES])


def _told(items: Any, shape: Any) -> Any:
    """Cut a list after the last item that gets a note, because pydantic builds an error for every wrong one."""
    wrong = 0
    for number, item in enumerate(items if type(items) is list else ()):
        try:
            msgspec.convert(item, shape)
        except msgspec.ValidationError:
            wrong += 1
            if wrong == NOTES:
                return items[: number + 1]
    return items


def _place(loc: tuple[str | int, ...]) -> str:
    return path_of(("content", *loc)).removeprefix("$.")


def _said(kind: str, message: str) -> str:
    return "missing" if kind == "missing" else message.removeprefix("Input ")
