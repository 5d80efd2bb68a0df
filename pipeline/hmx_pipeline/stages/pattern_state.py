"""State of the patterns stage: records, contribution maps, and their bounds.

Enters: each change of a state record (key, old, new). Leaves: a pattern's contributions, the patterns to compile, and
the contributions that exceed a bound.

| key | record |
|---|---|
| `m/tenant/pattern/session/segment` | Contribution: one entry of a pattern's map, kept after it is withdrawn |
| `p/tenant/pattern` | PatternState: what the pattern last published, and when it is compiled |
| `b/barrier_id` | BarrierState: which events partitions it has been seen from |
| `t/tenant` | TenantSettings: what an operator set for a tenant, and whether it names subjects |
| `x/tenant/erasure_id/partition` | ErasureState: an operator's erasure, as one events partition tells of it |
| `d/tenant/hash of the pattern` | SealedDecisions: what operators decided on a pattern of which nothing is left |
"""

from bisect import insort
from collections import Counter
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import not_
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from pydantic import Field

from hmx_pipeline.compiler import decision_policy
from hmx_pipeline.compiler.candidate import rank
from hmx_pipeline.compiler.imported_artifacts import Imported
from hmx_pipeline.compiler.knowledge.knowledge_kind import Under
from hmx_pipeline.compiler.lifecycle import LastPublished
from hmx_pipeline.compiler.registry import is_knowledge
from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.evidence import Contribution, Pattern, TenantSettings, read_contribution
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import (
    CONTRIBUTION_DEBOUNCE_MS,
    PARTITION_CONTRIBUTION_BYTES,
    PATTERN_CONTRIBUTIONS,
    PATTERN_DEBOUNCE_MS,
    STATEMENT_DEBOUNCE_MS,
    TASKS_GONE,
    TENANT_CONTRIBUTIONS,
    TENANT_DECISIONS,
)
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.stages.claimed_evidence import ClaimedEvidence
from hmx_pipeline.stages.ending_index import EndingIndex, Form, ending_key
from hmx_pipeline.stages.erased_evidence import ErasedEvidence, ErasureState
from hmx_pipeline.stages.fair_shares import FairShares
from hmx_pipeline.stages.pattern_keys import pattern_of, split_pattern, tenant_of
from hmx_pipeline.stages.sealed_decisions import SealedDecisions
from hmx_pipeline.stages.session_evidence import SessionEvidence
from hmx_pipeline.stages.tenant_rules import TenantRules

GONE: Final = "gone"
"""Stands for the digest of a pattern made from other kinds' contributions that has none left."""


class PatternState(Model):
    said: LastPublished | None = None
    speak_at: int | None = None
    """Clock at which the pattern is compiled; None if nothing has changed."""
    records: list[KnowledgeRecord] = Field(default_factory=list)
    """Last published records of a knowledge pattern."""
    withdrawn: list[str] = Field(default_factory=list)
    """Ids of withdrawn records in the topic, oldest first."""
    older: list[str] = Field(default_factory=list)
    """Ids of its artifacts in the topic that are no longer live, oldest first."""
    evidence: str = ""
    """Digest of the contributions it was compiled from, if other kinds' contributions make it."""
    trace: str = ""
    """traceparent of the last contribution since the pattern was compiled; its next outputs carry it."""
    imported: Imported | None = None
    """The imported artifact, which stands while the pattern's own evidence is not sufficient."""
    archived: str | None = None
    """Why an operator archived it. From then on it publishes nothing, whatever the evidence."""

    forgets: bool = False
    """True if an erasure took evidence: the next time it is compiled, nothing of what it said before stays."""
    dropped: Annotated[bool, Field(exclude_if=not_)] = False
    """True if it has lost evidence without an erasure: something that it said before may rest on a session whose
    contributions do not lead to it any more. So it forgets with the tenant's next erasure, whoever's that is."""
    rulings: list[Ruling] = Field(default_factory=list)
    """What operators ruled on its knowledge records: one ruling per record, in log order."""
    left_before: Annotated[int, Field(exclude_if=not_)] = 0
    """What is older had left by the tenant's retention when the first of them was ruled, so they do not hold it."""

    @property
    def decided(self) -> bool:
        """True if operators archived it, imported it or ruled on it; this outlives all evidence."""
        return self.imported is not None or self.archived is not None or bool(self.rulings)

    @property
    def only_decided(self) -> bool:
        """True if it has nothing that is or was published, and is decided on without a text that holds itself."""
        published = self.said or self.older or self.records or self.withdrawn or self.imported
        return self.decided and not published and all(each.stated is None for each in self.rulings)


NOTHING: Final = PatternState()
"""The state of a pattern that has published nothing and is not to be compiled."""


class BarrierState(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    seen: tuple[int, ...]
    partitions: int
    passed: bool
    forget_at: int
    tenant_id: str = ""
    """The tenant whose patterns it asks for; empty for all."""
    speaking: int | None = None
    """Offset of the record that began it, while pending patterns are compiled for the barrier; else None."""


_BARRIER = msgspec.json.Decoder(BarrierState)
_ERASURE = msgspec.json.Decoder(ErasureState)
_SEALED = msgspec.json.Decoder(SealedDecisions)


def decode_state(key: str, value: bytes) -> Any:
    match key[0]:
        case "m":
            return read_contribution(value)
        case "p":
            return PatternState.model_validate_json(value)
        case "b":
            return _BARRIER.decode(value)
        case "t":
            return TenantSettings.model_validate_json(value)
        case "x":
            return _ERASURE.decode(value)
        case "d":
            return _SEALED.decode(value)
    raise ValueError(f"no state record has the key {key!r}")


def encode_state(value: Any) -> bytes:
    if isinstance(value, Contribution):
        return value.written()
    return value.to_json() if isinstance(value, Model) else msgspec.json.encode(value)


def state_deadline(key: str, value: Any) -> int | None:
    if key[0] == "m":  # most are
        return None
    if isinstance(value, PatternState):
        return value.speak_at
    if isinstance(value, BarrierState | ErasureState):
        return value.forget_at
    return None


_LEFT: Final = 1_024
"""Stale heap entries that are allowed besides one per contribution."""


class Surplus(NamedTuple):
    key: str
    bound: str
    """Name of the counter for this bound."""


class Maps(TenantRules):
    """The contribution map of each pattern, the patterns to compile, and the bounds of both.

    Two bounds keep the lowest ranks of all contributions that ever came: of a pattern, and of a tenant. A withdrawn
    contribution keeps its place, because what was turned away for it does not come again. So a full map is an even
    sample of the segments, in whatever order they came. A third bound limits a partition's bytes: beyond it the largest
    tenant loses its highest ranks, and no tenant within its share loses any.
    """

    def __init__(self) -> None:
        super().__init__()
        self._maps: dict[str, dict[str, Contribution]] = {}
        self._ranks: dict[str, list[tuple[int, str]]] = {}
        self._kept: Counter[str] = Counter()
        """Tenant → number of contributions."""
        self._bytes = FairShares()
        """Tenant → bytes of contributions."""
        self._highest: dict[str, list[tuple[int, str]]] = {}
        """Tenant at its bound → heap of negated ranks, with stale entries."""
        self.erased = ErasedEvidence()
        self.claims = ClaimedEvidence()
        self.sessions = SessionEvidence(self.of_tenant)
        self._decided: Counter[str] = Counter()
        """Encoded tenant → number of patterns."""
        self.sealed: Counter[str] = Counter()
        """Encoded tenant → how many of them are sealed."""
        self._made: dict[str, set[str]] = {}
        """Encoded tenant → patterns that other kinds' contributions have made."""
        self._gone: dict[str, dict[str, str]] = {}
        """Encoded tenant → those of them without contributions → since when."""
        self.reach = EndingIndex()
        self._pending: dict[str, set[str]] = {}
        """Encoded tenant → patterns to compile."""
        self.barrier: tuple[str, BarrierState] | None = None
        """The barrier for which pending patterns are compiled."""

    def of(self, pattern: str) -> dict[str, Contribution]:
        """Return the map of a `p/…` key; it must not be changed."""
        return self._maps.get(pattern, {})

    def named(self, pattern: str) -> tuple[str, Pattern]:
        """Return tenant and pattern of a `p/…` key, as its contributions tell them: to take it apart takes longer."""
        for one in self.of(pattern).values():
            return one.tenant_id, one.pattern
        return split_pattern(pattern)

    def of_tenant(self, tenant_id: str) -> Iterator[tuple[str, Contribution]]:
        """Yield all contributions of a tenant, in the order of their keys."""
        prefix = f"p/{join_key(tenant_id)}/"
        for pattern in sorted(key for key in self._maps if key.startswith(prefix)):
            yield from sorted(self._maps[pattern].items())

    def is_pending(self, tenant_id: str) -> bool:
        """Return True if patterns of a tenant, or of any if it is empty, are to be compiled."""
        return join_key(tenant_id) in self._pending if tenant_id else bool(self._pending)

    def pending(self, tenant_id: str = "") -> Iterator[str]:
        """Yield these patterns."""
        yield from self._pending[join_key(tenant_id)] if tenant_id else chain.from_iterable(self._pending.values())

    @property
    def pending_count(self) -> int:
        return sum(map(len, self._pending.values()))

    def patterns(self, tenant_id: str) -> list[str]:
        """Return the keys of the tenant's patterns that have contributions."""
        prefix = f"p/{join_key(tenant_id)}/"
        return sorted(key for key in self._maps if key.startswith(prefix))

    def statements(self, tenant_id: str) -> list[str]:
        """Return the keys of the tenant's patterns that depend on whom it trusts."""
        kinds = ((key, split_pattern(key)[1].type) for key in self.patterns(tenant_id))
        return [key for key, kind in kinds if is_knowledge(kind) or kind == decision_policy.NAME]

    def under(self, tenant_id: str) -> Under:
        """Return a lookup of the tenant's endings by their form."""

        def endings(form: str, chained: bool) -> list[Contribution]:
            known = self.of(ending_key(tenant_id, form))
            return list(known.values()) if known and self.reach.open((tenant_id, chained, form)) else []

        return endings

    def is_ended(self, form: Form) -> bool:
        """Return True if the tenant has an ending of a form."""
        return ending_key(form[0], form[2]) in self._maps

    def made(self, pattern: str) -> set[str]:
        """Return the keys of the patterns that this tenant's contributions have made."""
        return self._made.get(tenant_of(pattern), set())

    def gone(self, pattern: str) -> list[str]:
        """Return the made patterns that have no contributions left, except those that lost them last."""
        left = sorted(self._gone.get(tenant_of(pattern), {}).items(), key=lambda one: (one[1], one[0]))
        return [key for key, _ in left[:-TASKS_GONE]]

    def _follow_made(self, key: str, state: PatternState | None) -> None:
        own, gone = self._made.setdefault(tenant_of(key), set()), self._gone.setdefault(tenant_of(key), {})
        gone.pop(key, None)
        if state is not None and state.evidence == GONE and state.said is not None:
            gone[key] = state.said.artifact.updated_at or ""
        if state is not None and state.evidence:
            own.add(key)
            return
        own.discard(key)
        if not own:
            del self._made[tenant_of(key)], self._gone[tenant_of(key)]

    def may_decide(self, pattern: str, state: PatternState) -> bool:
        """Return True if operators have decided on the pattern before, or its tenant has room for one more decision."""
        return state.decided or self._decided[tenant_of(pattern)] < TENANT_DECISIONS

    def pause_ms(self, pattern: str) -> int:
        """Return how long to wait after a change before compiling. The cost grows with the map, and so does
        the pause."""
        least = STATEMENT_DEBOUNCE_MS if is_knowledge(self.named(pattern)[1].type) else PATTERN_DEBOUNCE_MS
        return max(least, CONTRIBUTION_DEBOUNCE_MS * len(self.of(pattern)))

    def surplus(self, pattern: str, key: str, contribution: Contribution) -> Surplus | None:
        """Return which contribution to drop when this one arrives: if its pattern or tenant is full, the one with the
        highest rank there. It may be this one."""
        known, tenant = self.of(pattern), contribution.tenant_id
        if key in known:
            return None
        mine = (rank(contribution), key)
        if len(known) >= PATTERN_CONTRIBUTIONS:
            return Surplus(max(self._ranks[pattern][-1], mine)[1], "contribution_out_of_sample")
        if self._kept[tenant] >= TENANT_CONTRIBUTIONS:
            # All contributions of one segment have the same rank; then the first key goes, in whatever order they came.
            return Surplus(min(self._highest_of(tenant), (-mine[0], key))[1], "contribution_out_of_tenant_sample")
        return None

    def too_much(self) -> str | None:
        """Return which contribution to drop because the partition is too large. It may be the one just arrived."""
        if self._bytes.total <= PARTITION_CONTRIBUTION_BYTES:
            return None
        return self._highest_of(self._bytes.most())[1]

    def _highest_of(self, tenant: str) -> tuple[int, str]:
        """Return the key with the highest rank of the tenant, and the negated rank."""
        heap = self._highest.get(tenant)
        if heap is None:
            prefix = f"p/{join_key(tenant)}/"
            own = (ranks for pattern, ranks in self._ranks.items() if pattern.startswith(prefix))
            heap = self._highest[tenant] = [(-number, key) for ranks in own for number, key in ranks]
            heapify(heap)
        while heap[0][1] not in self.of(pattern_of(heap[0][1])):
            heappop(heap)
        return heap[0]

    def changed(self, key: str, old: Any, new: Any) -> None:
        match key[0]:
            case "m":
                self._follow(pattern_of(key), key, old, new)
            case "x":
                self.erased.changed(key, new)
            case "t":
                self.set((old or new).tenant_id, new)
            case "p":
                if by := (new is not None and new.decided) - (old is not None and old.decided):
                    self._decided[tenant_of(key)] += by
                if (old is not None and old.evidence) or (new is not None and new.evidence):
                    self._follow_made(key, new)
                before, after = old.rulings if old is not None else (), new.rulings if new is not None else ()
                if before or after:
                    self.claims.follow_rulings(key, before, after)
                self._follow_pending(key, pending=new is not None and new.speak_at is not None)
            case "d":
                self._decided[tenant_of(key)] += (by := (new is not None) - (old is not None))
                self.sealed[tenant_of(key)] += by
            case "b":
                if new is not None and new.speaking is not None:
                    self.barrier = (key, new)
                elif self.barrier is not None and self.barrier[0] == key:
                    self.barrier = None

    def _follow_pending(self, key: str, *, pending: bool) -> None:
        tenant = tenant_of(key)
        if pending:
            self._pending.setdefault(tenant, set()).add(key)
        elif tenant in self._pending:
            self._pending[tenant].discard(key)
            if not self._pending[tenant]:
                del self._pending[tenant]

    def _follow(self, pattern: str, key: str, old: Contribution | None, new: Contribution | None) -> None:
        entries, ranks = self._maps.setdefault(pattern, {}), self._ranks.setdefault(pattern, [])
        self.reach.change(pattern, old, new)
        self.claims.follow(old, new)
        tenant, grown = "", 0
        for one, by in ((old, -1), (new, 1)):
            if one is not None:
                tenant, grown = one.tenant_id, grown + by * one.size
                self.sessions.follow(key, one, by)
        if grown:
            self._bytes.add(tenant, grown)
        if old is not None and new is None:
            del entries[key]
            ranks.remove((rank(old), key))
            self._kept[old.tenant_id] -= 1
            if not entries:
                del self._maps[pattern], self._ranks[pattern]
        elif new is not None:
            entries[key] = new
            if old is None:
                insort(ranks, (rank(new), key))
                self._kept[new.tenant_id] += 1
                if (heap := self._highest.get(new.tenant_id)) is not None:
                    heappush(heap, (-rank(new), key))
                    if len(heap) > 2 * self._kept[new.tenant_id] + _LEFT:
                        del self._highest[new.tenant_id]  # rebuilt when needed
