"""The receipt of an erasure: what went, where the log says so, and when the last copy leaves. Signed with Ed25519."""

import hmac
from typing import Any, Final, Literal

from pydantic import Field

from hmx_pipeline.contracts import ed25519
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.event import Name, Timestamp

_PURPOSE: Final = b"hmx-receipt"


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
    """Topic, or `archive` → when the last copy is deleted at the latest; `never` if its retention is unlimited."""
    key: str = ""
    """Public key, hexadecimal."""
    signature: str = ""

    def message(self) -> bytes:
        """Return what is signed: canonical JSON of all but the signature."""
        fields: dict[str, Any] = self.model_dump(mode="json", exclude={"signature"})
        return canonical_json(fields)


def seed_of(control_key: str) -> bytes:
    """Return the seed of the deployment's own signing key."""
    return hmac.digest(control_key.encode(), _PURPOSE, "sha256")


def signed(receipt: Receipt, seed: bytes) -> Receipt:
    known = receipt.model_copy(update={"key": ed25519.public_key(seed).hex(), "signature": ""})
    return known.model_copy(update={"signature": ed25519.sign(seed, known.message()).hex()})


def is_genuine(receipt: Receipt, key: str = "") -> bool:
    """Return True if the receipt is unaltered, and signed with this key if one is given."""
    try:
        owner, signature = bytes.fromhex(receipt.key), bytes.fromhex(receipt.signature)
    except ValueError:
        return False
    return key in ("", receipt.key) and ed25519.verify(owner, receipt.message(), signature)
