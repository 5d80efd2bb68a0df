"""Record digests: 16-byte digests of expected and actual outputs.

Enters: records. Leaves: digests, or None for a record that cannot be read. Pure; never raises.
"""

from typing import Final

import msgspec
import orjson
import xxhash

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.envelope import Envelope
from hmx_pipeline.contracts.episode import RESERVED, as_sent, event_fields
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.keys import join_key, session_key
from hmx_pipeline.contracts.limits import RECORD_BYTES
from hmx_pipeline.contracts.rejections import UNREADABLE
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.stages.dead_letters import APPENDED, record_bytes
from hmx_pipeline.stages.fold import Record

SIZE: Final = 16
"""Bytes of a digest."""


def identity_of(event: Envelope) -> bytes:
    return xxhash.xxh3_128_digest(join_key(event.tenant_id, event.session_id, event.event_id).encode())


def _digest(*parts: object) -> bytes:
    return xxhash.xxh3_128_digest(msgspec.msgpack.encode(parts))


def dead_letter_digest(record: Record) -> bytes:
    """Digest of the dead letter that this record would produce."""
    log_time = b"%d" % record.timestamp
    if record.value is UNREADABLE:
        return refused_digest(record.timestamp)
    size = record_bytes(record)
    if size > RECORD_BYTES:
        return _digest(b"%d" % size, log_time)
    return _digest(record.key, record.value, [tuple(item) for item in record.headers], log_time)


def refused_digest(log_time: int) -> bytes:
    """Digest of a dead letter that omits the record's bytes."""
    return _digest(b"0", b"%d" % log_time)


def original_digest(letter: Record) -> bytes | None:
    """Digest of the original that this dead letter describes; None if the pipeline's headers are not its last ones."""
    if tuple(name for name, _ in letter.headers) == (*APPENDED, names.OMITTED):
        return _digest(header(letter.headers, names.OMITTED), header(letter.headers, names.LOG_TIME))
    own = len(letter.headers) - len(APPENDED)
    if tuple(name for name, _ in letter.headers[own:]) != APPENDED:
        return None
    log_time = header(letter.headers, names.LOG_TIME)
    return _digest(letter.key, letter.value, [tuple(item) for item in letter.headers[:own]], log_time)


def copied_digest(record: Record, session: str) -> bytes:
    """Digest of the copy that rerouting this record would produce."""
    return _digest(session.encode(), record.value, [tuple(item) for item in record.headers])


def copy_digest(copy: Record) -> bytes:
    """Digest of the original that this copy describes; the last header is the pipeline's."""
    return _digest(copy.key, copy.value, [tuple(item) for item in copy.headers[:-1]])


def expected_episode(record: Record, found: Accepted) -> bytes:
    key = session_key(found.event.tenant_id, found.event.session_id).encode()
    origin = {"partition": record.partition, "offset": record.offset, "log_time": record.timestamp}
    return _digest(key, orjson.dumps([as_sent(found.fields), origin], option=orjson.OPT_SORT_KEYS))


def episode_digest(episode: Record) -> tuple[bytes, bool] | None:
    """Digest of the event inside this episode, and whether it was late; None if the record is no episode."""
    try:
        record = orjson.loads(episode.value or b"")
        own = record["metadata"][RESERVED]
        fields = orjson.dumps([event_fields(record), own["origin"]], option=orjson.OPT_SORT_KEYS)
        return _digest(episode.key, fields), bool(own["release"]["late"])
    except (ValueError, LookupError, TypeError):
        return None
