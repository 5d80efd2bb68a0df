"""The episodes that carry one event id, as one value that is only ever appended to: each behind its session. Pure.

An id belongs to one event as a rule; nothing keeps two sessions of a tenant from using the same (HMX-E §2.1).
"""

from typing import Final
from urllib.parse import unquote

from pipeline.contracts.keys import encoded

_END: Final = b"\0"
"""Stands in no percent-encoded name and in no JSON."""


def beginning(session_id: str) -> bytes:
    """Of what `pack_episode` makes."""
    return encoded(session_id).encode() + _END


def pack_episode(session_id: str, episode: bytes) -> bytes:
    return b"%b%b%b" % (beginning(session_id), episode, _END)


def unpack_episodes(value: bytes | None) -> dict[str, bytes]:
    """Session → its episode, of several the last."""
    parts = (value or b"").split(_END)[:-1]
    return {unquote(session.decode()): episode for session, episode in zip(parts[::2], parts[1::2], strict=True)}
