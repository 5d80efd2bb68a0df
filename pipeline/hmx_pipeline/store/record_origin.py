"""Record origin for logs and metrics: append time, tenant and session. Pure; None if unreadable."""

from typing import Final

import msgspec

from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import EPISODES, EVIDENCE


class _OriginTime(msgspec.Struct):
    log_time: int


class _Own(msgspec.Struct):
    origin: _OriginTime


class _Metadata(msgspec.Struct):
    hmx: _Own


class _EpisodeOrigin(msgspec.Struct):
    metadata: _Metadata


_EPISODE: Final = msgspec.json.Decoder(_EpisodeOrigin)
_SESSION: Final = {EPISODES: 1, EVIDENCE: 2}
"""Index of the session in a record key."""


def appended_ms(record: TopicRecord) -> int | None:
    """Returns the append time of the event behind an episode (ms)."""
    if record.topic != EPISODES or record.value is None:
        return None
    try:
        return _EPISODE.decode(record.value).metadata.hmx.origin.log_time
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None


def owner(record: TopicRecord) -> tuple[str | None, str | None]:
    """Returns tenant and session, as far as the key names them."""
    parts = split_key(record.key.decode(errors="replace"))
    at = _SESSION.get(record.topic)
    return parts[0] or None, parts[at] if at is not None and at < len(parts) else None
