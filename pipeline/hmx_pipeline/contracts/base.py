"""The base class of published models: strict, closed, immutable."""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field

T = TypeVar("T")
Items = Annotated[list[T], Field(fail_fast=True)]
"""A list whose validation stops at the first invalid item, because collecting many errors would take seconds."""


class Model(BaseModel):
    """Strict types (`"1"` is no integer), no unknown fields, no assignment after validation."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    def to_json(self) -> bytes:
        """Return the published JSON. Optional fields that are None are left out, because the schemas allow no null."""
        return self.__pydantic_serializer__.to_json(self, exclude_none=True, by_alias=True)
