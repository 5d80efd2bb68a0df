"""Canonical JSON (RFC 8785) and content hashes (HMX-A §8).

Input: a JSON value. Output: its bytes, equal for equal values; or their SHA-256 in lowercase hex. Raises ValueError for
what JSON lacks, such as NaN.
"""

import hashlib
from functools import lru_cache
from typing import Any

import orjson
import rfc8785


def canonical_json(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a JSON value. Raises ValueError for NaN and infinities, integers beyond 64 bits,
    lone surrogates and values that JSON lacks, but never for values of an accepted event.

    Integers that no double represents are written exactly, which the RFC does not cover: rounding would change them.
    """
    try:
        return orjson.dumps(_prepared(value))
    except orjson.JSONEncodeError as error:  # a TypeError, which a model's validator must not raise
        raise ValueError(f"it has no canonical form: {error}") from error


def content_hash(content: dict[str, Any]) -> str:
    """Return the lowercase hex SHA-256 of the canonical form of an artifact's `content` (HMX-A §8)."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _prepared(value: Any) -> Any:
    """Sort keys by UTF-16 code units, and write floats like ECMAScript; orjson does the rest."""
    if type(value) is str:  # most are
        return value
    if isinstance(value, dict):
        order = None if "".join(value).isascii() else _code_units  # of ASCII it is the order of the characters
        return {key: _prepared(value[key]) for key in sorted(value, key=order)}
    if isinstance(value, (list, tuple)):
        return [_prepared(item) for item in value]
    return _number(value) if isinstance(value, float) else value


@lru_cache(1_024)  # few distinct values recur: weights, confidences
def _number(value: float) -> orjson.Fragment:
    return orjson.Fragment(rfc8785.dumps(value))


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
