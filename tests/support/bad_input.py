"""Every way in which a record can be no event, with the reason and the JSON path that it is refused with; and events
exactly at each limit, which pass. One table for intake, Kafka, HTTP and the fuzzer's seeds."""

from typing import Any, NamedTuple

import orjson

from hmx_pipeline.contracts.limits import (
    CONTENT_BYTES,
    EMBEDDING_DIMENSIONS,
    EVENT_BYTES,
    EVENT_TAGS,
    ID_BYTES,
    INTEGER_MAX,
    METADATA_BYTES,
    NESTING,
)
from tests.support.events import OPTIONAL, REQUIRED
from tests.support.records import event


class Bad(NamedTuple):
    reason: str
    path: str
    value: bytes | None


def without(field: str) -> bytes:
    return orjson.dumps({name: value for name, value in event("bad").items() if name != field})


def with_(**fields: Any) -> bytes:
    return orjson.dumps({**event("bad"), **fields})


def holding(content: bytes) -> bytes:
    """An event whose content is this text."""
    return with_(content="here").replace(b'"here"', content)


def nested(levels: int) -> bytes:
    """Objects in each other: the event itself is the first of so many."""
    return holding(b'{"a":' * (levels - 1) + b"1" + b"}" * (levels - 1))


def padded(size: int, session: str = "padded") -> bytes:
    """A valid event of exactly this many bytes; the padding is white space, which counts as received."""
    value = orjson.dumps(event(session))
    return value[:-1] + b" " * (size - len(value)) + b"}"


def filled(size: int) -> dict[str, str]:
    """An object of so many bytes in canonical form, most of them characters of two."""
    rest = size - len('{"x":""}')
    return {"x": "é" * (rest // 2) + "a" * (rest % 2)}


_MISTYPED: dict[str, Any] = dict.fromkeys((*REQUIRED, *OPTIONAL), 3) | dict.fromkeys(
    ("sequence", "salience", "embeddings", "tags", "ttl_seconds"), "1"
)
_IDS = ("event_id", "event_type", "agent_id", "tenant_id", "session_id")
LINKED = (
    "event_id", "agent_id", "tenant_id", "session_id", "trace_id", "correlation_id", "parent_event_id",
)  # fmt: skip
"""Every field that is an id."""
BOUNDED = (*LINKED, "event_type")
"""Every field with a name of at most 512 bytes."""
CALLS = ("tool_call", "tool_result", "x-acme-tool.call.completed")
"""A type of each row that pairs calls with results by an id."""


def id_of(size: int) -> str:
    """So many bytes of UTF-8 in characters of one, two and four bytes, and a quote."""
    rest = size - len('é😀"'.encode())
    return 'é😀"' + "x" * rest


_OBJECTS = ("content", "metadata")

BAD: dict[str, Bad] = {
    "null value": Bad("null_value", "$", None),
    "nothing": Bad("not_json", "$", b""),
    "not JSON": Bad("not_json", "$", b'{"event_id": '),
    "more than JSON": Bad("not_json", "$", with_() + b"x"),
    "not UTF-8": Bad("not_utf8", "$", b'{"event_id": "\xff\xfe"}'),
    "a byte order mark": Bad("byte_order_mark", "$", b"\xef\xbb\xbf" + with_()),
    "a number": Bad("not_an_object", "$", b"7"),
    "a text": Bad("not_an_object", "$", b'"event"'),
    "null": Bad("not_an_object", "$", b"null"),
    "NaN": Bad("not_a_number", "$", holding(b'{"n": NaN}')),
    "-Infinity": Bad("not_a_number", "$", holding(b'{"n": -Infinity}')),
    "a number beyond a double": Bad("number_out_of_range", "$.content.n", holding(b'{"n": 1e400}')),
    "an integer beyond 64 bits": Bad("number_out_of_range", "$.content.n", holding(b'{"n": %d}' % (INTEGER_MAX + 1))),
    "an integer of 5,000 digits": Bad("number_out_of_range", "$.content.n", holding(b'{"n": 1%s}' % (b"0" * 5_000))),
    "an infinite embedding": Bad(
        "number_out_of_range", "$.embeddings[1]", with_(embeddings=[0.5, 7]).replace(b"[0.5,7]", b"[0.5,1e400]")
    ),
    "a sequence of 2^64": Bad(
        "number_out_of_range", "$.sequence", with_(sequence=7).replace(b":7", b":%d" % (INTEGER_MAX + 1))
    ),
    "a key twice": Bad("duplicate_key", "$", holding(b'{"a": 1, "a": 1}')),
    "a field twice": Bad("duplicate_key", "$", with_()[:-1] + b',"event_id":"other"}'),
    "a key twice in two spellings": Bad("duplicate_key", "$", holding(b'{"a": 1, "\\u0061": 2}')),
    "a lone surrogate": Bad("lone_surrogate", "$", holding(b'{"text": "\\ud83e"}')),
    "nesting 10,000 deep": Bad("too_deep", "$", nested(10_000)),
    "nesting one too deep": Bad("too_deep", "$", nested(NESTING + 1)),
    "1 MB + 1 byte": Bad("too_large", "$", padded(EVENT_BYTES + 1)),
    "content of 512 KB + 1": Bad("content_too_large", "$.content", with_(content=filled(CONTENT_BYTES + 1))),
    "metadata of 64 KB + 1": Bad("metadata_too_large", "$.metadata", with_(metadata=filled(METADATA_BYTES + 1))),
    **{f"no {name}": Bad("missing_field", f"$.{name}", without(name)) for name in REQUIRED},
    **{
        f"{name} of another type": Bad("wrong_type", f"$.{name}", with_(**{name: value}))
        for name, value in _MISTYPED.items()
    },
    **{f"{name} null": Bad("wrong_type", f"$.{name}", with_(**{name: None})) for name in (*REQUIRED, *OPTIONAL)},
    **{f"{name} an array": Bad("wrong_type", f"$.{name}", with_(**{name: []})) for name in _OBJECTS},
    **{f"an empty {name}": Bad("empty_field", f"$.{name}", with_(**{name: ""})) for name in _IDS},
    **{
        f"{name} of {ID_BYTES + 1} bytes": Bad("id_too_long", f"$.{name}", with_(**{name: id_of(ID_BYTES + 1)}))
        for name in BOUNDED
    },
    "a session_id too long in escapes": Bad(
        "id_too_long", "$.session_id", with_(session_id="here").replace(b"here", rb"\u00e9" * (ID_BYTES // 2) + b"x")
    ),
    "a session_id under an escaped key": Bad(
        "id_too_long", "$.session_id", with_(session_id=id_of(ID_BYTES + 1)).replace(b"session_id", rb"session\u005fid")
    ),
    "a session_id of 450 KB": Bad("id_too_long", "$.session_id", with_(session_id="s" * 450 * 1024)),
    **{
        f"the call_id of a {name} too long": Bad(
            "id_too_long", "$.content.call_id", with_(event_type=name, content={"call_id": id_of(ID_BYTES + 1)})
        )
        for name in CALLS
    },
    "a subject's id too long": Bad(
        "id_too_long", "$.metadata.subject_id", with_(metadata={"subject_id": id_of(ID_BYTES + 1)})
    ),
    "an unknown field": Bad("unknown_field", "$.extra", with_(extra=1)),
    "a version and a newline": Bad("bad_version", "$.hmx_version", with_(hmx_version="HMX-1.0\n")),
    "a version in other digits": Bad("bad_version", "$.hmx_version", with_(hmx_version="HMX-١.٠")),
    "a version in small letters": Bad("bad_version", "$.hmx_version", with_(hmx_version="hmx-1.0")),
    "a version without a minor": Bad("bad_version", "$.hmx_version", with_(hmx_version="HMX-1")),
    "a later major": Bad("unsupported_version", "$.hmx_version", with_(hmx_version="HMX-2.0")),
    "an earlier major": Bad("unsupported_version", "$.hmx_version", with_(hmx_version="HMX-0.9")),
    "a timestamp without a zone": Bad("bad_timestamp", "$.timestamp", with_(timestamp="2026-03-14T03:00:00")),
    "30 February": Bad("bad_timestamp", "$.timestamp", with_(timestamp="2026-02-30T03:00:00Z")),
    "a timestamp in the basic form": Bad("bad_timestamp", "$.timestamp", with_(timestamp="20260314T030000Z")),
    "a leap second at noon": Bad("bad_timestamp", "$.timestamp", with_(timestamp="2026-03-14T11:59:60Z")),
    "sequence -1": Bad("bad_sequence", "$.sequence", with_(sequence=-1)),
    "sequence 1.5": Bad("bad_sequence", "$.sequence", with_(sequence=1.5)),
    "sequence true": Bad("wrong_type", "$.sequence", with_(sequence=True)),
    "salience 1.01": Bad("bad_salience", "$.salience", with_(salience=1.01)),
    "salience -0.01": Bad("bad_salience", "$.salience", with_(salience=-0.01)),
    "no embeddings": Bad("bad_embeddings", "$.embeddings", with_(embeddings=[])),
    "4,097 embeddings": Bad("bad_embeddings", "$.embeddings", with_(embeddings=[0.5] * (EMBEDDING_DIMENSIONS + 1))),
    "an embedding that is true": Bad("bad_embeddings", "$.embeddings[1]", with_(embeddings=[0.5, True])),
    "an embedding that is a text": Bad("bad_embeddings", "$.embeddings[0]", with_(embeddings=["x"])),
    "65 tags": Bad("bad_tags", "$.tags", with_(tags=["t"] * (EVENT_TAGS + 1))),
    "a tag that is a number": Bad("bad_tags", "$.tags[1]", with_(tags=["a", 1])),
    "a negative ttl": Bad("bad_ttl", "$.ttl_seconds", with_(ttl_seconds=-1)),
    "a ttl of 1.5": Bad("bad_ttl", "$.ttl_seconds", with_(ttl_seconds=1.5)),
    "our own tenant": Bad("reserved", "$.tenant_id", with_(tenant_id="_hmx")),
    "one of our own types": Bad("reserved", "$.event_type", with_(event_type="x-hmx-anything")),
    "a forged tick": Bad("reserved", "$.tenant_id", with_(tenant_id="_hmx", event_type="x-hmx-tick")),
    "a forged barrier": Bad("reserved", "$.tenant_id", with_(tenant_id="_hmx", event_type="x-hmx-barrier")),
}


def _limit(name: str, **fields: Any) -> bytes:
    return orjson.dumps({**event(name), **fields})


AT_LIMIT: dict[str, bytes] = {
    "1 MB": padded(EVENT_BYTES, "1 MB"),
    "content of 512 KB": _limit("content of 512 KB", content=filled(CONTENT_BYTES)),
    "metadata of 64 KB": _limit("metadata of 64 KB", metadata=filled(METADATA_BYTES)),
    "4,096 embeddings": _limit("4,096 embeddings", embeddings=[0.5] * EMBEDDING_DIMENSIONS),
    "64 tags": _limit("64 tags", tags=["t"] * EVENT_TAGS),
    "nesting": nested(NESTING).replace(b'"session_id":"bad"', b'"session_id":"nesting"'),
    **{
        f"{name} of {ID_BYTES} bytes": _limit(f"{name} of {ID_BYTES} bytes", **{name: id_of(ID_BYTES)})
        for name in BOUNDED
        if name not in ("tenant_id", "session_id")
    },
    f"call_id of {ID_BYTES} bytes": _limit(
        f"call_id of {ID_BYTES} bytes", event_type="tool_call", content={"call_id": id_of(ID_BYTES)}
    ),
    "integers of 64 bits": _limit(
        "integers of 64 bits", ttl_seconds=INTEGER_MAX, content={"n": [INTEGER_MAX, -(2**63), 2**53 + 1]}
    ),
    "sequence 2^64 - 1": _limit("sequence 2^64 - 1", sequence=INTEGER_MAX),
    "salience 0": _limit("salience 0", salience=0),
    "salience 1": _limit("salience 1", salience=1),
}
"""Each in a session of that name."""
