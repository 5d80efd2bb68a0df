"""HMX-E event model, as a producer sends it, with the single-field rules of §2, §5, §6 and §11.

Byte sizes, version support and reserved names need more than one field, so `intake` checks them.
"""

from typing import Annotated, Any, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.limits import EMBEDDING_DIMENSIONS, EVENT_TAGS, ID_BYTES, INTEGER_MAX
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.contracts.versions import parse_version


def _version(text: str) -> str:
    if parse_version(text) is None:
        raise ValueError("no version of the form HMX-1.0")
    return text


def _timestamp(text: str) -> str:
    if parse_instant(text) is None:
        raise ValueError("no RFC 3339 date-time with a time zone")
    return text


def _integral(value: Any) -> Any:
    """Accept 8.0 as an integer, like JSON Schema."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


ID_TOO_LONG: Final = "id_too_long"
"""Error type of an id that is too long."""


def _short(text: str) -> str:
    if too_long(text):
        size = len(text.encode())
        raise PydanticCustomError(ID_TOO_LONG, "{size} bytes, at most {most}", {"size": size, "most": ID_BYTES})
    return text


Name = Annotated[str, Field(min_length=1)]
Link = Annotated[str, Field(json_schema_extra={"maxLength": ID_BYTES}), AfterValidator(_short)]
"""An id of something else. JSON Schema counts characters, of which 512 bytes never have more."""
Id = Annotated[Link, Field(min_length=1)]
HmxVersion = Annotated[str, Field(json_schema_extra={"pattern": r"^HMX-[0-9]+\.[0-9]+$"}), AfterValidator(_version)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"}), AfterValidator(_timestamp)]
Natural = Annotated[int, Field(ge=0, le=INTEGER_MAX), BeforeValidator(_integral)]
Unit = Annotated[float, Field(ge=0.0, le=1.0)]

EXTENSIONS: Final = "extensions"
"""Key for the fields of a later minor version, besides an accepted event's own fields (HMX-V)."""
SEQUENCE_MEANS: Final = "x-hmx-sequence"
ARRIVAL: Final = "arrival"
"""Key and value in an event's `metadata` if its sequence was assigned on arrival. Such a sequence gives the order of
arrival only, so its gaps are ignored (Y07)."""
EMBEDDING_MODEL: Final = "x-hmx-embedding-model"
"""Key in an event's `metadata` for the model of its embeddings. Embeddings of different models are not comparable."""


class Event(Model):
    """One HMX event (HMX-E §2)."""

    hmx_version: HmxVersion
    event_id: Id
    event_type: Id
    agent_id: Id
    tenant_id: Id
    session_id: Id
    timestamp: Timestamp
    sequence: Natural
    content: dict[str, Any]
    metadata: dict[str, Any]
    trace_id: Link | None = None
    correlation_id: Link | None = None
    parent_event_id: Link | None = None
    embeddings: Annotated[list[float], Field(min_length=1, max_length=EMBEDDING_DIMENSIONS)] | None = None
    salience: Unit | None = None
    source: str | None = None
    provenance_ref: str | None = None
    tags: Annotated[list[str], Field(max_length=EVENT_TAGS)] | None = None
    ttl_seconds: Natural | None = None
