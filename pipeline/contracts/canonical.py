"""Canonical JSON (RFC 8785) and the hashes that rest on it (HMX-A §8)."""

import hashlib
from typing import Any

import rfc8785


def canonical_json(value: Any) -> bytes:
    """RFC 8785 bytes of a JSON value. Raises `rfc8785.CanonicalizationError` for NaN, infinities and non-JSON types."""
    return rfc8785.dumps(value)


def content_hash(content: dict[str, Any]) -> str:
    """Lowercase hex SHA-256 of the canonical form of an artifact's `content` (HMX-A §8)."""
    return hashlib.sha256(canonical_json(content)).hexdigest()
