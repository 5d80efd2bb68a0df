"""Keys of the patterns stage's state records; `stages/pattern_state` says what stands under each.

Input: contributions, decisions and ids. Output: keys; or of a key the pattern, the tenant.
"""

from hmx_pipeline.contracts.evidence import Archive, Contribution, Pattern
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.keys import encoded, join_key, split_key
from hmx_pipeline.contracts.ruling import Ruling


def map_key(pattern: str, contribution: Contribution) -> str:
    """Return the key in the map of its `p/…` key."""
    return f"m{pattern[1:]}/{join_key(contribution.session_id, contribution.segment_id)}"


def pattern_key(contribution: Contribution) -> str:
    return state_key(contribution.tenant_id, contribution.pattern)


def state_key(tenant_id: str, pattern: Pattern) -> str:
    return f"p/{encoded(tenant_id)}/{_twice(pattern.type)}%2F{_twice(pattern.key)}"


def _twice(part: str) -> str:
    """Encode a part, and what that gives: of its characters only `%` changes."""
    return encoded(part).replace("%", "%25")


def decided_key(decided: Archive | Import | Ruling) -> str:
    """Return the key of the pattern that an operator has decided on."""
    return f"p/{decided.key}"


def pattern_of(map_key: str) -> str:
    """Return the pattern's key for a key of its map."""
    _, tenant, pattern, *_ = map_key.split("/")
    return f"p/{tenant}/{pattern}"


def tenant_of(key: str) -> str:
    """Return the encoded tenant of a key."""
    return key.split("/", 2)[1]


def split_pattern(key: str) -> tuple[str, Pattern]:
    """Return tenant and pattern of a `p/…` key."""
    tenant_id, text = split_key(key.removeprefix("p/"))
    return tenant_id, Pattern(*split_key(text))


def barrier_state_key(barrier_id: str) -> str:
    return f"b/{join_key(barrier_id)}"


def settings_key(tenant_id: str) -> str:
    return f"t/{join_key(tenant_id)}"
