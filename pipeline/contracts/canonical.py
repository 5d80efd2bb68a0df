"""Canonical JSON (RFC 8785) and the hashes that rest on it (HMX-A §8)."""

import hashlib
from functools import lru_cache
from typing import Any

import orjson
import rfc8785


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value.

    Integers that no double holds are written as they are, where the RFC has no answer: rounded, they would be others.
    Never raises for values read from an accepted event. Raises ValueError for NaN and infinities, integers beyond 64
    bits, lone surrogates and what JSON doesn't have.
    """
    try:
        return orjson.dumps(_prepared(value))
    except orjson.JSONEncodeError as error:  # a TypeError, which a model's validator must not raise
        raise ValueError(f"it has no canonical form: {error}") from error


def content_hash(content: dict[str, Any]) -> str:
    """Lowercase hex SHA-256 of the canonical form of an artifact's `content` (HMX-A §8)."""
    return hashlib.sha256(canonical_json(content)).hexdigest()


def _prepared(value: Any) -> Any:
    """Keys sorted by their UTF-16 code units, floats as ECMAScript writes them; orjson does the rest."""
    if isinstance(value, dict):
        return {key: _prepared(value[key]) for key in sorted(value, key=_code_units)}
    if isinstance(value, list | tuple):
        return [_prepared(item) for item in value]
    if isinstance(value, float):
        return _number(value)
    return value


@lru_cache(1_024)  # the same few come again: weights, confidences
def _number(value: float) -> orjson.Fragment:
    return orjson.Fragment(rfc8785.dumps(value))


def _code_units(key: str) -> bytes:
    return key.encode("utf-16-be", "surrogatepass")
