"""Erasures in the patterns stage: what they leave of operators' rulings, in whatever order partitions come together.

Enters: marks of erasures (`ErasureMark`), and rulings. Leaves: what is left of each ruling, None if nothing is, and the
state records by which an erasure is remembered. A ruling and what it rests on come from different partitions of the
events topic, and each partition has its own mark of an erasure. So nothing here asks what evidence is there. The marks
of the tenant's own partition, which is also that of its rulings, tell what goes with the tenant or subject that it is
about. The marks of all partitions tell which sources of a correction are erased; corrections alone carry text.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Final, NamedTuple

import msgspec

from hmx_pipeline.compiler.knowledge.rulings import without
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, covered, mark_of, marks_on
from hmx_pipeline.contracts.keys import join_key, split_key, tenant_partition
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS, ERASURE_KEPT_MS
from hmx_pipeline.contracts.ruling import Ruling, RulingSource

_AT_ONCE: Final = 8_192
"""Most marks in one record."""
_NEVER: Final = -(1 << 62)


class ErasureState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition's mark of an erasure, kept while rulings on what it took may still come."""

    at: int
    forget_at: int
    marks: tuple[str, ...] = ()
    elsewhere: bool = False
    """True if it is not the mark of the tenant's own partition."""


class _Told(NamedTuple):
    """When erasures of a tenant were asked for last, by mark."""

    own: dict[str, int]
    """By the marks of the tenant's own partition."""
    every: dict[str, int]
    last: int


class ErasedEvidence:
    """The erasures that are remembered."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, ErasureState]] = {}
        """Encoded tenant → key → erasure."""
        self._by_mark: dict[str, _Told] = {}
        """Encoded tenant → its erasures; made when asked for."""

    def changed(self, key: str, new: ErasureState | None) -> None:
        tenant = key.split("/", 2)[1]
        self._by_mark.pop(tenant, None)
        own = self._known.setdefault(tenant, {})
        own.pop(key, None)
        if new is not None:
            own[key] = new

    def remembered(self, mark: ErasureMark, own: Set[str], now_ms: int) -> Iterator[tuple[str, ErasureState]]:
        """Yield keys and records by which an erasure is remembered; none if it tells nothing new. `own`: as of
        `left_after`. Of a whole tenant only its own partition's mark counts; of others, only what no other partition
        has told."""
        tenant, whole = join_key(mark.tenant_id), mark_of(mark.tenant_id, ErasedScope.TENANT, "")
        prefix, here = f"x/{join_key(mark.tenant_id, mark.erasure_id)}/", f"x/{mark.key}"
        known = {} if own else self._known.get(tenant, {})
        others = (key for key in known if key.startswith(prefix) and key != here and not key.startswith(f"{here}/"))
        told = {each for key in others for each in known[key].marks}
        marks = sorted(own & {whole} if whole in mark.marks else {*mark.marks} - told)
        for at in range(0, len(marks), _AT_ONCE):
            state = ErasureState(
                at=mark.at,
                forget_at=now_ms + ERASURE_KEPT_MS,
                marks=tuple(marks[at : at + _AT_ONCE]),
                elsewhere=not own,
            )
            yield here + (f"/{at}" if at else ""), state

    def left_of(self, ruling: Ruling) -> Ruling | None:
        """Return what the erasures leave of a ruling; None if nothing."""
        told, since = self._told(join_key(ruling.tenant_id)), ruling.at - CLOCK_SKEW_MS
        marks = marks_on(ruling.tenant_id, "", _whose(ruling))
        gone = _newest(told.own, marks) >= since
        if ruling.stated is None or _newest(told.own, marks[-1:]) >= since:
            return None if gone else ruling
        found = {each.memory_id: each for each in ruling.sources}  # what memory did not know goes with any erasure
        left = without(
            ruling,
            {
                name
                for name in ruling.stated.source_memory_ids
                if (_is_erased(found[name], ruling.at, told) if name in found else told.last >= since)
            },
        )
        return None if gone and left.stated is None else left

    def left_after(self, rulings: Sequence[Ruling], own: Set[str]) -> list[Ruling]:
        """Return what an erasure that comes after a pattern's rulings leaves of them. `own`: what `own_marks`
        returns."""
        stay = (each for each in rulings if not own or not covered(own, each.tenant_id, "", _whose(each)))
        found = (each if each.stated is None else self.left_of(each) for each in stay)
        return [each for each in found if each is not None]

    def _told(self, tenant: str) -> _Told:
        if tenant not in self._by_mark:
            known = sorted(self._known.get(tenant, {}).values(), key=lambda one: one.at)
            own = {mark: each.at for each in known if not each.elsewhere for mark in each.marks}
            every = {mark: each.at for each in known for mark in each.marks}
            self._by_mark[tenant] = _Told(own, every, known[-1].at if known else _NEVER)
        return self._by_mark[tenant]


def _newest(told: Mapping[str, int], marks: Iterable[str]) -> int:
    return max((told.get(mark, _NEVER) for mark in marks), default=_NEVER)


def _is_erased(source: RulingSource, ruled_at: int, told: _Told) -> bool:
    """Return True if an erasure covers what a correction was made from. What was there when it was ruled is of the past
    of any later erasure, whatever its events' time; a client's clock may be ahead of the erasure's."""
    return _newest(told.every, source.marks) >= min(ruled_at, source.first_at - CLOCK_SKEW_MS)


def _whose(ruling: Ruling) -> str:
    """Return whose memory it is about; empty if it is the tenant's. A subject decides on its own memory alone, in a
    pattern of the tenant too: on the values that a task takes from its user."""
    return scope_of(split_key(ruling.pattern)[1])[0] or ruling.subject


def is_whole(marks: Set[str], tenant_id: str) -> bool:
    return mark_of(tenant_id, ErasedScope.TENANT, "") in marks


def is_own(mark: ErasureMark, partitions: int) -> bool:
    """Return True if a mark comes from the tenant's own partition. `partitions`: those of the events topic; 0 if the
    mark does not say."""
    return not partitions or mark.partition == tenant_partition(mark.tenant_id, partitions)


def own_marks(mark: ErasureMark, partitions: int) -> set[str]:
    """Return the marks if they come from the tenant's own partition, else none. `partitions`: as of `is_own`."""
    return set(mark.marks) if is_own(mark, partitions) else set()
