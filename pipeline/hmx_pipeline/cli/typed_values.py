"""Conversion of command parameters to their types, without Typer's models: those cost more time than most commands.

Enters: the text of a parameter, and its type. Leaves: a str, int, float, path or choice, or a list of them. What it
cannot take is Typer's to refuse. Why: docs/decisions/0014-typed-without-models.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args, get_origin

import typer.core
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer.models import ParameterInfo

_PLAIN: Final = (str, int, float, Path)


@dataclass(frozen=True)
class TypedValue(RuntimeParam):
    refusing: Callable[[], RuntimeParam]

    def _coerce_value(self, value: Any, param: Any, ctx: Any) -> Any:
        try:
            return typed(value, self.annotation, self.parameter_info)
        except ValueError:
            return self.refusing()._coerce_value(value, param=param, ctx=ctx)


def typed(value: Any, annotation: Any, info: ParameterInfo) -> Any:
    """Raises ValueError."""
    if get_origin(annotation) is list:
        return [typed(each, get_args(annotation)[0], info) for each in value]
    if annotation not in _PLAIN and not (isinstance(annotation, type) and issubclass(annotation, Enum)):
        raise ValueError(annotation)
    found = annotation(value)
    if (info.min is None or found >= info.min) and (info.max is None or found <= info.max):  # NaN is neither
        return found
    raise ValueError(value)


def without_models() -> None:
    """Has Typer use this from now on."""

    def build(descriptor: TypeDescriptor) -> RuntimeParam:
        return TypedValue(descriptor.parameter_info, descriptor.annotation, lambda: build_runtime_param(descriptor))

    typer.core.build_runtime_param = build  # type: ignore[attr-defined]
