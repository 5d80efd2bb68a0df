"""Event decoding and validation: a record's bytes become an accepted event or a rejection.

Output: `Accepted`, without secrets, or a `Rejection` with the JSON path of the cause, never its value. Never raises.
Content that does not match HMX-E §4, and types without a namespace (§3), are accepted with a note. The checks, of which
the first that fails is the reason:

  1. null, larger than 1 MB, byte order mark, UTF-8, JSON, one object, nesting
  2. numbers that would lose digits, keys that occur twice
  3. `hmx_version`: its form, then its major
  4. the fields in the order of HMX-E §2, then unknown fields (under HMX-1.0 only: a later minor may add some)
  5. ids in `content` and `metadata`: of the call that a result belongs to, of the subject
  6. size of content, size of metadata
  7. the work of looking for secrets, counted in steps

Most events are plain: small, with the fields and types of HMX-1.0 and nothing that needs a closer look. A fast path
recognises these and decides nothing else. All other events are checked as above.
"""

import json
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, Never

import msgspec
import orjson
import xxhash
from pydantic import ValidationError

from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.envelope import ABSENT, Envelope, read_envelope
from hmx_pipeline.contracts.episode import SUBJECT_ID
from hmx_pipeline.contracts.event import ARRIVAL, EXTENSIONS, ID_TOO_LONG, SEQUENCE_MEANS, Event
from hmx_pipeline.contracts.event_types import event_type
from hmx_pipeline.contracts.ids import too_long
from hmx_pipeline.contracts.keys import CONTROL_PREFIX, CONTROL_TENANT
from hmx_pipeline.contracts.limits import (
    CONTENT_BYTES,
    EVENT_BYTES,
    ID_BYTES,
    INTEGER_MAX,
    METADATA_BYTES,
    NESTING,
)
from hmx_pipeline.contracts.rejections import UNREADABLE, Reason, Rejection
from hmx_pipeline.contracts.timestamps import parse_instant
from hmx_pipeline.contracts.versions import HMX_VERSION, Version, parse_version
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.deviations import notes
from hmx_pipeline.intake.json_paths import path_of
from hmx_pipeline.intake.number_ranges import INTEGER_MIN, is_out_of_range, out_of_range_path
from hmx_pipeline.intake.redaction import TooCostlyError, redact
from hmx_pipeline.intake.scan import finder
from hmx_pipeline.intake.secret_rules import FIRST_LOOK, in_other_letters, suspicious
from hmx_pipeline.intake.secret_tokens import holds_token

_FIELDS: Final = {name: index for index, name in enumerate(Event.model_fields)}
_REQUIRED: Final = frozenset(name for name, field in Event.model_fields.items() if field.is_required())
_OWN_REASON: Final = {
    "timestamp": Reason.BAD_TIMESTAMP,
    "sequence": Reason.BAD_SEQUENCE,
    "embeddings": Reason.BAD_EMBEDDINGS,
    "salience": Reason.BAD_SALIENCE,
    "tags": Reason.BAD_TAGS,
    "ttl_seconds": Reason.BAD_TTL,
}
_CALL_ID: Final = "call_id"
"""Key of the id that pairs a call with its result, in every content type that has one."""
_IDS: Final = (
    "event_id", "event_type", "agent_id", "tenant_id", "session_id", "trace_id", "correlation_id", "parent_event_id",
)  # fmt: skip
"""Ids of an event, and its type, which has the same bound."""
_MINTED: Final = frozenset({"sequence", "timestamp"})
_ODD: Final = (r"\.0[,}\]]", r"e\+")
_odd_numbers: Final = finder(*_ODD)
"""Returns True if a dump may contain a float that equals an integer, or that was out of range."""
_LONGER: Final = (r"[:,\[][ \t\r\n]*-?[0-9.]+[eE]", r"[:,\[][ \t\r\n]*-?[0-9.]{17}")
"""Spellings of numbers that are dumped with more characters: 1e-3 as 0.001, 123456789012345678.0 as
1.2345678901234568e17."""
_wants_a_look: Final = finder(*FIRST_LOOK, *_ODD, *_LONGER)
_SHALLOW_BYTES: Final = 2 * NESTING
"""A value of at most this size is never nested too deeply, because each level takes two brackets."""
_NESTED: Final = frozenset((dict, list))
_PLAIN_BYTES: Final = METADATA_BYTES // 8
"""In events of at most this size no part can exceed its limit."""
_Read = tuple[bytes, dict[str, Any], Envelope, int, bytes, bytes]
"""Of an event on the fast path: value, fields, envelope, instant, dump, and the bytes that can hold a secret."""
_dump: Final = partial(orjson.dumps, option=orjson.OPT_SORT_KEYS)
_validate: Final = Event.__pydantic_validator__.validate_python


class _RejectedError(Exception):
    def __init__(self, reason: Reason, path: str = "$", detail: str = "") -> None:
        super().__init__(reason)
        self.rejection = Rejection(reason, path, detail)


def decode(value: bytes | None) -> Accepted | Rejection:
    """Decode a record's value; see the module."""
    return decode_each((value,))[0]


def decode_each(values: Sequence[bytes | None]) -> list[Accepted | Rejection]:
    """Decode the values of several records. All are looked at in a row, because the tables of a search for secrets are
    larger than the processor's first cache: between other work a look takes three times as long."""
    read = [_read(value) for value in values]
    texts = [one[-1] if one is not None else b"" for one in read]
    wanted = [_wants_a_look(text) for text in texts]
    tokens = [holds_token(text) for text in texts]
    return list(map(_outcome, values, read, wanted, tokens))


def _outcome(value: bytes | None, read: _Read | None, wanted: bool, token: bool) -> Accepted | Rejection:
    try:
        accepted = (_plain(*read, wanted=wanted, token=token) if read is not None else None) or _decode(value)
    except _RejectedError as rejected:
        return rejected.rejection
    return _minted(accepted) if accepted.fields["metadata"].get(SEQUENCE_MEANS) == ARRIVAL else accepted


def _minted(accepted: Accepted) -> Accepted:
    dump = _dump({name: value for name, value in accepted.fields.items() if name not in _MINTED})
    return msgspec.structs.replace(accepted, digest=_digest(dump, _odd_numbers(dump)), arrival=True)


def _read(value: bytes | None) -> _Read | None:
    """Begin the fast path: every check of `_decode` that needs no look at the texts holds, or None is returned."""
    if value is None or len(value) > _PLAIN_BYTES:
        return None
    try:
        fields = orjson.loads(value)
        event = read_envelope(value)
    except (orjson.JSONDecodeError, msgspec.MsgspecError):
        return None
    content, metadata = fields["content"], fields["metadata"]
    parts = b"".join((event.content, event.metadata))  # all that can be nested, as it was sent
    size, inner = len(value), len(parts)
    if (
        type(content) is not dict
        or type(metadata) is not dict
        or event.hmx_version != HMX_VERSION
        or not 0 <= event.sequence <= INTEGER_MAX
        or event.embeddings is not ABSENT
        or event.salience is not ABSENT
        or event.ttl_seconds is not ABSENT
        or event.extensions is not ABSENT
        or (inner > _SHALLOW_BYTES and _may_be_deep(content, metadata, parts))
        or (size - inner > ID_BYTES and _has_long_id(fields))
        or (instant := parse_instant(event.timestamp)) is None
    ):
        return None
    dump = _dump(fields)
    if len(dump) != size:
        return value, fields, event, instant, dump, dump
    if event.tags is not ABSENT or event.provenance_ref is not ABSENT:
        return value, fields, event, instant, dump, value
    # of most events all that can hold a secret are content, metadata and source
    return value, fields, event, instant, dump, parts if event.source is ABSENT else parts + orjson.dumps(event.source)


def _plain(
    value: bytes, fields: dict[str, Any], event: Envelope, instant: int, dump: bytes, looked_at: bytes,
    *, wanted: bool, token: bool,
) -> Accepted | None:  # fmt: skip
    """End the fast path. The other checks of `_decode` hold, too, or None is returned."""
    odd = False
    paths: tuple[str, ...] = ()
    if wanted or token or in_other_letters(looked_at):
        odd = _odd_numbers(dump)
        if _may_be_inexact(value, dump, odd):
            return None
        fields, paths = _redacted(fields, looked_at, token)
        if paths:
            value = orjson.dumps(fields)
            event, dump = read_envelope(value), _dump(fields)
            odd = _odd_numbers(dump)
    elif looked_at is dump and _may_be_inexact(value, dump, odd):
        return None
    content = fields["content"]
    long = paths or len(looked_at) > ID_BYTES
    if long and (_is_long(content.get(_CALL_ID)) or _is_long(fields["metadata"].get(SUBJECT_ID))):
        return None
    return Accepted(
        event, fields, value, instant, _digest(dump, odd), paths, notes(event.event_type, content),
        _is_control(event),
    )  # fmt: skip


def _may_be_deep(content: dict[str, Any], metadata: dict[str, Any], parts: bytes) -> bool:
    """Brackets are counted only where something is nested in what is nested."""
    nested = [inner for part in (content, metadata) for inner in part.values() if type(inner) in _NESTED]
    for inner in nested:
        if not _NESTED.isdisjoint(map(type, inner.values() if type(inner) is dict else inner)):
            return parts.count(b"{") + parts.count(b"[") >= NESTING
    return False


def _has_long_id(fields: dict[str, Any]) -> bool:
    return any(too_long(fields[name]) for name in _IDS if name in fields)


def _is_long(inner: Any) -> bool:
    return type(inner) is str and too_long(inner)


def _decode(value: bytes | None) -> Accepted:
    parsed = _parse(value)
    assert value is not None
    dump = _dump(parsed)
    odd = _odd_numbers(dump)
    _check_exact(value, dump, odd)
    version = _version(parsed)
    unknown = parsed.keys() - _FIELDS.keys()
    event = _validated({name: parsed[name] for name in parsed if name in _FIELDS} if unknown else parsed)
    if unknown and version.minor == 0:
        raise _unknown(_redacted(parsed, dump, holds_token(dump))[0])  # redacted first, because a name may be a secret
    _check_inner_ids(parsed)
    if len(value) > _PLAIN_BYTES:
        _check_sizes(parsed, len(value))
    fields, paths = _redacted(parsed, dump, holds_token(dump))
    if paths:
        _check_inner_ids(fields)  # a redaction mark may be longer than what it replaces
        dump = _dump(fields)
        odd = _odd_numbers(dump)
    if unknown:
        fields = _set_aside(fields)
    if type(fields["sequence"]) is float or type(fields.get("ttl_seconds")) is float:
        fields = _with_integers(fields, event)
    instant = parse_instant(event.timestamp)
    assert instant is not None, "the model has parsed it"
    noted = notes(event.event_type, fields["content"])
    clean = value if fields is parsed else orjson.dumps(fields)
    envelope = read_envelope(clean)
    return Accepted(envelope, fields, clean, instant, _digest(dump, odd), paths, noted, _is_control(envelope))


def _check_inner_ids(fields: dict[str, Any]) -> None:
    for part, name in (("content", _CALL_ID), ("metadata", SUBJECT_ID)):
        text = fields[part].get(name)
        own = part == "content" and not event_type(fields["event_type"]).call_id  # a field like any other
        if type(text) is str and too_long(text) and not own:
            detail = f"{len(text.encode())} bytes, at most {ID_BYTES}"
            raise _RejectedError(Reason.ID_TOO_LONG, path_of([part, name]), detail)


def _is_control(event: Envelope) -> bool:
    return event.tenant_id == CONTROL_TENANT or event.event_type.startswith(CONTROL_PREFIX)


def _parse(value: bytes | None) -> dict[str, Any]:
    if value is None:
        raise _RejectedError(Reason.NULL_VALUE)
    if value is UNREADABLE:
        raise _RejectedError(Reason.UNREADABLE_BATCH)
    if len(value) > EVENT_BYTES:
        raise _RejectedError(Reason.TOO_LARGE, detail=f"{len(value)} bytes, at most {EVENT_BYTES}")
    try:
        parsed = orjson.loads(value)
    except orjson.JSONDecodeError as error:
        raise _unparsable(value, error) from None
    if type(parsed) is not dict:
        raise _RejectedError(Reason.NOT_AN_OBJECT)
    if value.count(b"{") + value.count(b"[") > NESTING:
        _check_depth(parsed)
    return parsed


def _unparsable(value: bytes, error: orjson.JSONDecodeError) -> _RejectedError:
    if value.startswith(b"\xef\xbb\xbf"):
        return _RejectedError(Reason.BYTE_ORDER_MARK)
    try:
        text = value.decode()
    except UnicodeDecodeError as bad:
        return _RejectedError(Reason.NOT_UTF8, detail=f"byte {bad.start}")
    if "depth limit" in error.msg:
        return _RejectedError(Reason.TOO_DEEP, detail=f"at most {NESTING} levels")
    if "infinity" in error.msg:
        return _out_of_range(text, f"character {error.pos}")
    reason = Reason.NOT_JSON
    if "surrogate" in error.msg:
        reason = Reason.LONE_SURROGATE
    elif text.startswith(("NaN", "Infinity"), error.pos):
        reason = Reason.NOT_A_NUMBER
    return _RejectedError(reason, detail=f"character {error.pos}")


def _check_depth(parsed: dict[str, Any]) -> None:
    level: list[Any] = [parsed]
    for _ in range(NESTING):
        inner = (item for value in level for item in (value.values() if type(value) is dict else value))
        level = [item for item in inner if type(item) is dict or type(item) is list]
        if not level:
            return
    raise _RejectedError(Reason.TOO_DEEP, detail=f"at most {NESTING} levels")


def _check_exact(value: bytes, dump: bytes, odd: bool) -> None:
    """Reject repeated keys and integers beyond 64 bits, which parsing would lose. A slower parser checks what cannot be
    excluded."""
    if _may_be_inexact(value, dump, odd):
        try:
            json.loads(value, object_pairs_hook=_object_without_duplicates, parse_int=_exact_integer)
        except OverflowError:
            raise _out_of_range(value, "an integer beyond 64 bits") from None


def _may_be_inexact(value: bytes, dump: bytes, odd: bool) -> bool:
    """Return False if neither can be the case. A lost key loses its two quotes, which only an escaped quote can make up
    for in the dump. An integer beyond 64 bits became a float, which is dumped as `…e+19` or higher.

    If the dump is as long as the value and nothing in it needs a look, the test is not needed: a lost key makes it
    shorter, and so does every other spelling of a text or number, except the odd and the longer ones.
    """
    return (odd and b"e+" in dump) or b"\\u0022" in value or value.count(b'"') != dump.count(b'"')


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> None:
    if len(dict(pairs)) < len(pairs):
        raise _RejectedError(Reason.DUPLICATE_KEY)


def _exact_integer(digits: str) -> None:
    if is_out_of_range(digits):
        raise OverflowError


def _out_of_range(text: str | bytes, detail: str) -> _RejectedError:
    return _RejectedError(Reason.NUMBER_OUT_OF_RANGE, out_of_range_path(text), detail)


def _version(parsed: dict[str, Any]) -> Version:
    """Check the version first, because under another major the other fields may mean anything (HMX-V)."""
    path = "$.hmx_version"
    if "hmx_version" not in parsed:
        raise _RejectedError(Reason.MISSING_FIELD, path)
    text = parsed["hmx_version"]
    if type(text) is not str:
        raise _RejectedError(Reason.WRONG_TYPE, path, "a string is expected")
    version = parse_version(text)
    if version is None:
        raise _RejectedError(Reason.BAD_VERSION, path)
    if not version.supported:
        raise _RejectedError(Reason.UNSUPPORTED_VERSION, path)
    return version


def _validated(known: dict[str, Any]) -> Event:
    absent = [name for name, item in known.items() if item is None and name not in _REQUIRED]
    try:
        event = _validate(known)
    except ValidationError as error:
        _reject_first(error, absent)
    if absent:
        raise _null(min(absent, key=_FIELDS.__getitem__))
    assert isinstance(event, Event)
    return event


def _null(name: str) -> _RejectedError:
    return _RejectedError(Reason.WRONG_TYPE, path_of([name]), "null; leave an optional field out instead")


def _reject_first(error: ValidationError, absent: list[str]) -> Never:
    first = error.errors(include_url=False, include_context=False)[0]
    where, kind = first["loc"], first["type"]
    name = str(where[0])
    before = [other for other in absent if _FIELDS[other] < _FIELDS[name]]
    if before:
        raise _null(min(before, key=_FIELDS.__getitem__))
    raise _RejectedError(_reason(name, kind, len(where) > 1, first["input"]), path_of(where), first["msg"])


def _reason(name: str, kind: str, inside: bool, given: Any) -> Reason:
    if kind == "missing":
        return Reason.MISSING_FIELD
    if kind == ID_TOO_LONG:
        return Reason.ID_TOO_LONG
    number = isinstance(given, float) and name in ("sequence", "ttl_seconds")  # 1.5 is a number, but no integer
    if kind.endswith("_type") and not inside and not number:
        return Reason.WRONG_TYPE
    return _OWN_REASON.get(name, Reason.EMPTY_FIELD)


def _redacted(parsed: dict[str, Any], dump: bytes, token: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    if not (token or suspicious(dump)):
        return parsed, ()
    try:
        return redact(parsed, tokens=token or b"\\\\" in dump)  # a doubly escaped text may hide one
    except TooCostlyError:
        raise _RejectedError(Reason.TOO_COSTLY) from None


def _unknown(fields: dict[str, Any]) -> _RejectedError:
    """Reject a field that HMX-1.0 does not have (HMX-E §5)."""
    path = path_of([min(fields.keys() - _FIELDS.keys())])
    return _RejectedError(Reason.UNKNOWN_FIELD, path, f"{HMX_VERSION} does not have this field")


def _set_aside(fields: dict[str, Any]) -> dict[str, Any]:
    """Move the fields of a later minor version to `extensions` (HMX-V)."""
    known = {name: item for name, item in fields.items() if name in _FIELDS}
    return {**known, EXTENSIONS: {name: fields[name] for name in sorted(fields.keys() - _FIELDS.keys())}}


def _check_sizes(parsed: dict[str, Any], received: int) -> None:
    """Check sizes (HMX-E §11). The canonical form is at most eight times the received size, so few events
    are measured."""
    if received > CONTENT_BYTES // 8 and (size := len(canonical_json(parsed["content"]))) > CONTENT_BYTES:
        raise _RejectedError(Reason.CONTENT_TOO_LARGE, "$.content", f"{size} bytes, at most {CONTENT_BYTES}")
    if (size := len(canonical_json(parsed["metadata"]))) > METADATA_BYTES:
        raise _RejectedError(Reason.METADATA_TOO_LARGE, "$.metadata", f"{size} bytes, at most {METADATA_BYTES}")


def _with_integers(fields: dict[str, Any], event: Event) -> dict[str, Any]:
    """Convert floats such as 8.0 to integers (JSON Schema)."""
    whole: dict[str, Any] = {name: getattr(event, name) for name in ("sequence", "ttl_seconds") if name in fields}
    return {**fields, **whole}


def _digest(dump: bytes, odd: bool) -> bytes:
    if odd:
        dump = _dump(_integral(orjson.loads(dump)))
    return xxhash.xxh3_128_digest(dump)


def _integral(value: Any) -> Any:
    if type(value) is dict:
        return {key: _integral(item) for key, item in value.items()}
    if type(value) is list:
        return [_integral(item) for item in value]
    if type(value) is float and value.is_integer() and INTEGER_MIN <= value <= INTEGER_MAX:
        return int(value)
    return value
