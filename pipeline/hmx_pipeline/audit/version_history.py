"""Version history of an artifact, oldest first, by its supersedes links (HMX-A §7).

Enters: one version and a lookup by id. Leaves: the versions that can still be found. Never raises: the chain ends at an
erased version.
"""

from collections.abc import Callable
from typing import Any

Json = dict[str, Any]
Lookup = Callable[[str], Json | None]
"""Returns an artifact of the same tenant by id, in any status; None if it does not exist."""


def chain(artifact: Json, look_up: Lookup) -> list[Json]:
    older = list(_linked(artifact, "supersedes", look_up))
    return [*reversed(older), artifact, *_linked(artifact, "superseded_by", look_up)]


def _linked(artifact: Json, link: str, look_up: Lookup) -> list[Json]:
    """Follows a link; a cycle ends the chain."""
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
