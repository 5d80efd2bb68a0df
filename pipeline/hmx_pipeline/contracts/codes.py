"""Base class of enums whose codes have a meaning text."""

from enum import StrEnum
from typing import Self


class ExplainedCode(StrEnum):
    """A stable code with its meaning."""

    meaning: str

    def __new__(cls, code: str, meaning: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.meaning = meaning
        return member
