"""The envelope of an accepted event: its own fields parsed, the rest as the producer's bytes.

It is built for every event, so it is a msgspec struct and no pydantic model like `Event`. `content`, `metadata`,
`embeddings`, `salience` and `extensions` stay as bytes, because a number may change when it is parsed and written.
"""

from typing import Annotated, Final

import msgspec

from hmx_pipeline.contracts.limits import EVENT_TAGS

Name = Annotated[str, msgspec.Meta(min_length=1)]
Absent = msgspec.UnsetType
ABSENT: Final = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The fields of `Event` in their order, and `extensions` (contracts.event)."""

    hmx_version: str
    event_id: Name
    event_type: Name
    agent_id: Name
    tenant_id: Name
    session_id: Name
    timestamp: str
    sequence: int
    content: msgspec.Raw
    metadata: msgspec.Raw
    trace_id: str | Absent = ABSENT
    correlation_id: str | Absent = ABSENT
    parent_event_id: str | Absent = ABSENT
    embeddings: msgspec.Raw | Absent = ABSENT
    salience: msgspec.Raw | Absent = ABSENT
    source: str | Absent = ABSENT
    provenance_ref: str | Absent = ABSENT
    tags: Annotated[list[str], msgspec.Meta(max_length=EVENT_TAGS)] | Absent = ABSENT
    ttl_seconds: int | Absent = ABSENT
    extensions: msgspec.Raw | Absent = ABSENT


read_envelope: Final = msgspec.json.Decoder(Envelope).decode
"""Parse an event's bytes, which must be well-formed JSON. Raises msgspec.MsgspecError if a field has another type, is
null, unknown or missing. Repeated keys and the contents of Raw fields are not checked."""
