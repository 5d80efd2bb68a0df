"""The base of every published model: strict, closed, immutable."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]
"""A list that is validated up to its first wrong item: an error for each of many would take seconds."""


class Model(BaseModel):
    """Strict types (`"1"` is no integer), no unknown fields, no assignment after validation."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    def to_json(self) -> bytes:
        """The published bytes: optional fields that are None stay out (their schemas admit no null)."""
        return self.model_dump_json(exclude_none=True, by_alias=True).encode()
