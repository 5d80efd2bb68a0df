"""An episode: one released event as an EpisodeTrace (HMX-E §10), what `hmx.episodes.v1` carries.

What a trace has no field for travels in `metadata` under one reserved key, so that event → episode → event is lossless.
"""

from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import asdict
from pydantic import ConfigDict, Field

from pipeline.contracts.event import EXTENSIONS, Event, Name, Natural, Timestamp, Unit
from pipeline.contracts.model import Model

RESERVED: Final = "hmx"
_DIRECT: Final = {  # HMX-E §10: event field → trace field
    "event_id": "id",
    "event_type": "eventType",
    "session_id": "sessionId",
    "timestamp": "timestamp",
    "content": "payload",
    "salience": "salienceScore",
    "source": "source",
    "provenance_ref": "provenanceRef",
}
_CARRIED: Final = (*(name for name in Event.model_fields if name not in _DIRECT and name != "metadata"), EXTENSIONS)


class Origin(msgspec.Struct, frozen=True):
    """Where in the events topic the event stood. Made for every event, so no model."""

    partition: int
    offset: int
    log_time: int
    """Append time, milliseconds."""


class Release(msgspec.Struct, frozen=True):
    """What ordering says of the event."""

    index: int
    """Position in the session's released order."""
    run: int
    """How often the session's counter has started over."""
    late: bool = False


class Episode(Model):
    """`payload` is the event's content; agent, tenant, sequence, origin and release stand in `metadata["hmx"]`."""

    model_config = ConfigDict(populate_by_name=True)

    id: Name
    event_type: Annotated[Name, Field(alias="eventType")]
    session_id: Annotated[Name, Field(alias="sessionId")]
    timestamp: Timestamp
    payload: dict[str, Any]
    salience_score: Annotated[Unit | None, Field(alias="salienceScore")] = None
    source: str | None = None
    provenance_ref: Annotated[str | None, Field(alias="provenanceRef")] = None
    metadata: dict[str, Any]

    @property
    def tenant_id(self) -> str:
        return str(self.metadata[RESERVED]["tenant_id"])

    @property
    def agent_id(self) -> str:
        return str(self.metadata[RESERVED]["agent_id"])

    @property
    def sequence(self) -> Natural:
        return int(self.metadata[RESERVED]["sequence"])

    @property
    def release(self) -> Release:
        return Release(**self.metadata[RESERVED]["release"])

    @property
    def origin(self) -> Origin:
        return Origin(**self.metadata[RESERVED]["origin"])


def episode_record(
    fields: dict[str, Any],
    origin: Origin,
    release: Release,
    notes: tuple[str, ...] = (),
    redacted: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The trace as plain JSON values of an accepted event's plain JSON values; content is not copied or altered."""
    record = {trace: fields[event] for event, trace in _DIRECT.items() if event in fields}
    carried = {name: fields[name] for name in _CARRIED if name in fields}
    carried["origin"] = asdict(origin)
    carried["release"] = asdict(release)
    if notes:
        carried["notes"] = notes
    if redacted:
        carried["redacted"] = redacted
    metadata = dict(fields["metadata"])
    if RESERVED in metadata:
        carried["shadowed"] = metadata[RESERVED]
    metadata[RESERVED] = carried
    record["metadata"] = metadata
    return record


def event_fields(record: dict[str, Any]) -> dict[str, Any]:
    """Back from `episode_record` to the event as it was sent, a later minor's fields among the others again."""
    carried = dict(record["metadata"][RESERVED])
    fields = {event: record[trace] for event, trace in _DIRECT.items() if trace in record}
    fields.update({name: carried[name] for name in _CARRIED if name in carried})
    metadata = {name: value for name, value in record["metadata"].items() if name != RESERVED}
    if "shadowed" in carried:
        metadata[RESERVED] = carried["shadowed"]
    fields["metadata"] = metadata
    return as_sent(fields)


def as_sent(fields: dict[str, Any]) -> dict[str, Any]:
    """An accepted event's values with a later minor's fields among the others, where its producer has them."""
    later: dict[str, Any] = fields.get(EXTENSIONS, {})
    return {**{name: value for name, value in fields.items() if name != EXTENSIONS}, **later} if later else fields
