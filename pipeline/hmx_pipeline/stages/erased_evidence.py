"""Erasures in the patterns stage: what they leave of operators' rulings, in whatever order partitions come together.

Enters: marks of erasures (`ErasureMark`), and rulings. Leaves: what is left of each ruling, None if nothing is, and the
state records by which an erasure is remembered. A ruling and what it rests on come from different partitions of the
events topic, and each partition has its own mark of an erasure. So nothing here asks what evidence is there. The marks
of the tenant's own partition, which is also that of its rulings, tell what goes with the tenant or subject that it is
about. The ids of what was erased, whichever partition tells, are taken from the sources of corrections, which alone
carry text.
"""

from collections.abc import Iterator, Sequence, Set
from typing import Final

import msgspec

from hmx_pipeline.compiler.knowledge.rulings import without
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.erasure import ErasedScope, ErasureMark, covered, mark_of
from hmx_pipeline.contracts.keys import join_key, split_key, tenant_partition
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS, ERASURE_KEPT_MS
from hmx_pipeline.contracts.ruling import Ruling

_AT_ONCE: Final = 8_192
"""Most ids in one record."""


class ErasureState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One partition's mark of an erasure, kept while rulings on what it took may still come."""

    at: int
    forget_at: int
    marks: tuple[str, ...] = ()
    """Only in the mark of the tenant's own partition."""
    memories: tuple[str, ...] = ()
    """Ids of the contributions that it took, as far as rulings may rest on them."""


class ErasedEvidence:
    """The erasures that are remembered."""

    def __init__(self) -> None:
        self._known: dict[str, dict[str, ErasureState]] = {}
        """Encoded tenant → key → erasure."""

    def changed(self, key: str, new: ErasureState | None) -> None:
        own = self._known.setdefault(key.split("/", 2)[1], {})
        own.pop(key, None)
        if new is not None:
            own[key] = new

    def left_of(self, ruling: Ruling) -> Ruling | None:
        """Return what the erasures leave of a ruling; None if nothing."""
        known = self._known.get(join_key(ruling.tenant_id), {}).values()
        marks = {mark for each in known if each.at >= ruling.at - CLOCK_SKEW_MS for mark in each.marks}
        gone = covers(marks, ruling.tenant_id, ruling.pattern)
        if ruling.stated is None or is_whole(marks, ruling.tenant_id):
            return None if gone else ruling
        sources = set(ruling.stated.source_memory_ids)
        left = without(ruling, {name for each in known for name in each.memories if name in sources})
        return None if gone and left.stated is None else left

    def left_after(self, rulings: Sequence[Ruling], own: Set[str], taken: Set[str]) -> list[Ruling]:
        """Return what an erasure that comes after a pattern's rulings leaves of them. `own`: what `own_marks` returns;
        `taken`: ids of the contributions that it took."""
        if any(covers(own, each.tenant_id, each.pattern) for each in rulings[:1]):
            return []
        found = (
            each if each.stated is None or taken.isdisjoint(each.stated.source_memory_ids) else self.left_of(each)
            for each in rulings
        )
        return [each for each in found if each is not None]


def covers(marks: Set[str], tenant_id: str, pattern: str) -> bool:
    """Return True if one of the marks is of the tenant, or of the subject whose pattern it is."""
    return covered(marks, tenant_id, "", scope_of(split_key(pattern)[1])[0])


def is_whole(marks: Set[str], tenant_id: str) -> bool:
    return mark_of(tenant_id, ErasedScope.TENANT, "") in marks


def is_own(mark: ErasureMark, partitions: int) -> bool:
    """Return True if a mark comes from the tenant's own partition. `partitions`: those of the events topic; 0 if the
    mark does not say."""
    return not partitions or mark.partition == tenant_partition(mark.tenant_id, partitions)


def own_marks(mark: ErasureMark, partitions: int) -> set[str]:
    """Return the marks if they come from the tenant's own partition, else none. `partitions`: as of `is_own`."""
    return set(mark.marks) if is_own(mark, partitions) else set()


def remembered_erasure(
    mark: ErasureMark, own: Set[str], taken: Set[str], now_ms: int
) -> Iterator[tuple[str, ErasureState]]:
    """Yield keys and records, none of a mark on which no ruling can rest. `own` and `taken`: as of `left_after`. What
    goes with a whole tenant needs no ids."""
    whole = is_whole(set(mark.marks), mark.tenant_id)
    marks = own & {mark_of(mark.tenant_id, ErasedScope.TENANT, "")} if whole else own
    ids = [] if whole else sorted(taken)
    for at in range(0, len(ids) or bool(marks), _AT_ONCE):
        told = () if at else tuple(sorted(marks))
        state = ErasureState(
            at=mark.at, forget_at=now_ms + ERASURE_KEPT_MS, marks=told, memories=tuple(ids[at : at + _AT_ONCE])
        )
        yield f"x/{mark.key}" + (f"/{at}" if at else ""), state
