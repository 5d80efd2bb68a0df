"""What a record says of where it comes from, for logs and metrics. Pure; what cannot be read is None."""

from typing import Final

import msgspec

from pipeline.contracts.keys import split_key
from pipeline.store.projection import Record
from pipeline.topology import EPISODES, EVIDENCE


class _Origin(msgspec.Struct):
    log_time: int


class _Own(msgspec.Struct):
    origin: _Origin


class _Metadata(msgspec.Struct):
    hmx: _Own


class _Episode(msgspec.Struct):
    metadata: _Metadata


_EPISODE: Final = msgspec.json.Decoder(_Episode)
_SESSION: Final = {EPISODES: 1, EVIDENCE: 2}
"""Which part of a key names the session."""


def appended_ms(record: Record) -> int | None:
    """When the event of an episode was appended to the log."""
    if record.topic != EPISODES or record.value is None:
        return None
    try:
        return _EPISODE.decode(record.value).metadata.hmx.origin.log_time
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def owner(record: Record) -> tuple[str | None, str | None]:
    """Tenant and session, as far as the key names them."""
    parts = split_key(record.key.decode(errors="replace"))
    at = _SESSION.get(record.topic)
    return parts[0] or None, parts[at] if at is not None and at < len(parts) else None
