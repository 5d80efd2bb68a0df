"""Claims in the patterns stage: which contributions come from sessions that got their subject late, and which rulings
rest on which contributions. Both follow the state, so a claim finds the rulings before it, and a ruling its claims.

Enters: changes of contributions and rulings. Leaves, through the maps of `stages/pattern_state`: when a contribution
was claimed, and the patterns whose rulings rest on one.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.ruling import Ruling

_NONE: Final[Mapping[str, int]] = {}


class ClaimedEvidence:
    def __init__(self) -> None:
        self._claimed: dict[str, dict[str, int]] = {}
        """Tenant → id of a contribution → when its session's subject was named."""
        self._resting: dict[str, set[str]] = {}
        """Id of a contribution → keys of the patterns with a correction that rests on it."""

    def of(self, tenant_id: str) -> Mapping[str, int]:
        return self._claimed.get(tenant_id, _NONE)

    def follow(self, old: Contribution | None, new: Contribution | None) -> None:
        if old is not None and old.claimed_at:
            own = self._claimed[old.tenant_id]
            del own[old.contribution_id]
            if not own:
                del self._claimed[old.tenant_id]
        if new is not None and new.claimed_at:
            self._claimed.setdefault(new.tenant_id, {})[new.contribution_id] = new.claimed_at

    def follow_rulings(self, pattern: str, old: Iterable[Ruling], new: Iterable[Ruling]) -> None:
        before, after = _sources(old), _sources(new)
        for name in before - after:
            self._resting[name].discard(pattern)
            if not self._resting[name]:
                del self._resting[name]
        for name in after - before:
            self._resting.setdefault(name, set()).add(pattern)

    def resting_on(self, contribution_id: str) -> Iterable[str]:
        """Return the keys of the patterns with a correction that rests on a contribution."""
        return self._resting.get(contribution_id, ())


def _sources(rulings: Iterable[Ruling]) -> set[str]:
    return {name for each in rulings if each.stated is not None for name in each.stated.source_memory_ids}
