"""An accepted event on its way through the sessions stage: its own fields as values, what it carries as it was written.

Made for every event, so no model: `Event` is what the specification says, this is how its bytes are read once that is
known. `content`, `metadata`, `embeddings`, `salience` and `extensions` stay the bytes that the producer wrote, because
a number that is parsed and written again may come out otherwise.
"""

from typing import Annotated, Final

import msgspec

from pipeline.contracts.limits import EVENT_TAGS

Name = Annotated[str, msgspec.Meta(min_length=1)]
Absent = msgspec.UnsetType
ABSENT: Final = msgspec.UNSET


class Envelope(msgspec.Struct, frozen=True, gc=False, forbid_unknown_fields=True):
    """The fields of `Event`, in their order, and `extensions` (contracts.event)."""

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
"""JSON bytes of an event, well-formed as a whole, → its envelope. Raises msgspec.MsgspecError where a field has another
type, is null, unknown or absent; a key that occurs twice passes, and so does whatever a Raw field holds."""
