"""What operators have decided on patterns of which nothing is left, as the state of the patterns stage keeps it.

Spelled here by its documented form: under a hash of the pattern's name, and masked with what only that name gives.
Enters: the records `d/…` of the table, and names of patterns. Leaves: rulings.
"""

import hashlib
from base64 import b64decode
from typing import Any

import orjson

Table = dict[str, Any]


def sealed_name(name: str) -> str:
    """Where the decisions on a pattern of the key tenant/pattern stand."""
    return f"{name.split('/', 1)[0]}/{hashlib.sha256(f'p/{name}'.encode()).hexdigest()[:32]}"


def sealed_rulings(name: str, sealed: Table) -> list[Table]:
    """In their order: a subject's own stands behind so many of the others."""
    found = sealed.get(sealed_name(name))
    if found is None:
        return []
    rulings: list[Table] = _opened(name, found["sealed"])["rulings"]
    for before, _, told in reversed(found.get("by_subjects", [])):
        rulings.insert(before, _opened(name, told))
    return rulings


def _opened(name: str, told: str) -> Any:
    """The first 16 bytes and the name give the mask of the rest."""
    nonce, masked = b64decode(told)[:16], b64decode(told)[16:]
    mask = hashlib.shake_256(nonce + f"p/{name}".encode()).digest(len(masked))
    return orjson.loads(bytes(a ^ b for a, b in zip(masked, mask, strict=True)))
