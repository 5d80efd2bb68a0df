"""The versions of an artifact, from the first to the newest, by the links that HMX-A §7 gives them.

Enters: one of them, and a way to look others up. Leaves: those that can still be looked up, in their order. Nothing
fails: where a version was erased the chain ends.
"""

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Lookup = Callable[[str], Json | None]
"""An artifact of the same tenant by its id, in whatever status."""


def chain(artifact: Json, look_up: Lookup) -> list[Json]:
    older = list(_linked(artifact, "supersedes", look_up))
    return [*reversed(older), artifact, *_linked(artifact, "superseded_by", look_up)]


def _linked(artifact: Json, link: str, look_up: Lookup) -> list[Json]:
    """Each version once, whatever the links say."""
    found: dict[str, Json] = {}
    seen = {artifact["artifact_id"]}
    at = artifact.get(link)
    while at is not None and at not in seen:
        seen.add(at)
        other = look_up(at)
        if other is None:
            break
        found[at] = other
        at = other.get(link)
    return list(found.values())
