"""An event that keeps every rule that can be checked on it alone: what `decode` answers where it rejects nothing."""

from typing import Any

import msgspec

from hmx_pipeline.contracts.envelope import Envelope


class Accepted(msgspec.Struct, frozen=True, gc=False):
    """See the module."""

    event: Envelope
    fields: dict[str, Any]
    """The same as plain JSON values; fields that HMX-1.0 doesn't know stand under `extensions`."""
    value: bytes
    """The same as JSON: what the producer sent, unless secrets had to be taken out or later fields set aside."""
    instant: int
    """`timestamp`, nanoseconds since 1970."""
    digest: bytes
    """Equal where all parsed values are equal (1 = 1.0)."""
    redacted: tuple[str, ...]
    """JSON paths where secrets were; of very many the first."""
    notes: tuple[str, ...]
    """What differs from HMX-E §3 and §4, without values."""
    control: bool
    """It claims to be the pipeline's own: tenant `_hmx` or a type `x-hmx-…`."""
    arrival: bool = False
    """Its sequence was minted and says only in which order events came (Y07). Sequence and timestamp are then not its
    producer's, and no part of the digest: who sends an event again is given others."""
