"""The receipt of an erasure: what went, where the log says so, and when the last copy leaves. Signed with Ed25519.

Input: a `Receipt`, with the control key or a public key. Output: the receipt with key and signature (`signed`), or
whether it is unaltered (`is_genuine`).
"""

import hmac
from typing import Any, Final, Literal

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from pydantic import Field

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.event import Name, Timestamp

_PURPOSE: Final = b"hmx-receipt"
NEVER: Final = "never"


class Receipt(Model):
    receipt_version: Literal[1] = 1
    erasure_id: Name
    tenant_id: Name
    scope: ErasedScope = Field(strict=False)
    name: str = ""
    """The subject or session; empty for the whole tenant."""
    at: Timestamp
    """Everything up to this moment is erased."""
    issued_at: Timestamp
    gone: dict[str, int]
    """Kind of record → how many left memory."""
    restated: dict[str, int] = Field(default_factory=dict)
    """Kind → how many stay with other evidence, compiled again without what is erased."""
    positions: dict[str, int]
    """Partition of the log → offset of the erasure."""
    last_copy: dict[str, str]
    """Topic, or `archive` → when the last copy is deleted at the latest; `never` if its retention is unlimited. In a
    partition of a compacted topic that gets no record after `at`, it stays until the next one."""
    key: str = ""
    """Public key, hexadecimal."""
    signature: str = ""

    def message(self) -> bytes:
        """Return what is signed: canonical JSON of all but the signature."""
        fields: dict[str, Any] = self.model_dump(mode="json", exclude={"signature"})
        return canonical_json(fields)


def key_of(control_key: str) -> Ed25519PrivateKey:
    """Return the deployment's own signing key."""
    return Ed25519PrivateKey.from_private_bytes(hmac.digest(control_key.encode(), _PURPOSE, "sha256"))


def public(key: Ed25519PrivateKey) -> str:
    """Return the public key, hexadecimal."""
    return key.public_key().public_bytes_raw().hex()


def signed(receipt: Receipt, key: Ed25519PrivateKey) -> Receipt:
    known = receipt.model_copy(update={"key": public(key), "signature": ""})
    return known.model_copy(update={"signature": key.sign(known.message()).hex()})


def is_genuine(receipt: Receipt, key: str = "") -> bool:
    """Return True if the receipt is unaltered, and signed with this key if one is given."""
    try:
        owner = Ed25519PublicKey.from_public_bytes(bytes.fromhex(receipt.key))
        owner.verify(bytes.fromhex(receipt.signature), receipt.message())
    except (ValueError, InvalidSignature):
        return False
    return key in ("", receipt.key)
