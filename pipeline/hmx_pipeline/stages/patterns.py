"""The patterns stage: contributions from `hmx.evidence.v1` become artifacts, knowledge records and dead letters.

Enters: `Record`s of one evidence partition: contributions, and control records such as rulings, erasures and barriers.
Leaves: what `stages/pattern_compiling` emits, and dead letters. Raises NewerRecordError. Each (tenant, pattern) has a
map of contributions, last writer wins. Artifacts and knowledge are pure functions of the map. A change is compiled
after a pause, because more changes usually follow, and whenever a barrier passes; the pause grows with the map.
Contributions of kinds that are never compiled are only kept.
"""

from typing import Any

import msgspec

from hmx_pipeline.compiler.imported_artifacts import added
from hmx_pipeline.compiler.knowledge.rulings import with_ruling
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.compiler.registry import KINDS, is_statement, task_patterns
from hmx_pipeline.contracts.erasure import ErasureMark, covered
from hmx_pipeline.contracts.evidence import Archive, Contribution, EvidenceControl, Pattern, TenantSettings
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import traceparent
from hmx_pipeline.contracts.keys import join_key, partition_of, session_key
from hmx_pipeline.contracts.limits import BARRIER_KEPT_MS
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.rejections import Rejection
from hmx_pipeline.contracts.retention import KNOWLEDGE as KNOWN_CLASS
from hmx_pipeline.contracts.retention import RETENTION, policy_of, risen
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.stages.dead_letters import dead_letter
from hmx_pipeline.stages.erased_evidence import ErasureState, is_own, is_whole, own_marks
from hmx_pipeline.stages.evidence_records import read_evidence
from hmx_pipeline.stages.fold import Backlog, Record, Tx
from hmx_pipeline.stages.pattern_compiling import PatternCompiling
from hmx_pipeline.stages.pattern_keys import (
    barrier_state_key,
    decided_key,
    map_key,
    pattern_key,
    pattern_of,
    settings_key,
    split_pattern,
    state_key,
)
from hmx_pipeline.stages.pattern_state import (
    BarrierState,
    Maps,
    PatternState,
    decode_state,
    encode_state,
    state_deadline,
)
from hmx_pipeline.stages.work_turns import WorkTurns
from hmx_pipeline.topology import EVIDENCE, EVIDENCE_DLQ


class PatternsFold:
    """The fold of one partition of the evidence topic."""

    at_rest = ""

    def __init__(self) -> None:
        self._maps = Maps()
        self._compiling = PatternCompiling(self._maps)
        self._turns = WorkTurns()

    def decode(self, key: str, value: bytes) -> Any:
        return decode_state(key, value)

    def encode(self, key: str, value: Any) -> bytes:
        return encode_state(value)

    def deadline(self, key: str, value: Any) -> int | None:
        return state_deadline(key, value)

    def changed(self, key: str, old: Any, new: Any) -> None:
        self._maps.changed(key, old, new)

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        tx.emit(dead_letter(EVIDENCE, EVIDENCE_DLQ, record, rejection))
        tx.count(f"rejected.{rejection.reason}")

    def fold(self, tx: Tx, record: Record) -> None:
        match read_evidence(record):
            case Contribution() as contribution:  # nearly all are
                self._take(tx, contribution, (traceparent(record.headers) or b"").decode())
            case Rejection() as rejection:
                self.reject(tx, record, rejection)
            case EvidenceControl() as control:
                self._control(tx, control)
            case Import() as given:
                self._import(tx, given)
            case Ruling() as ruling:
                self._rule(tx, ruling)

    def due(self, tx: Tx, key: str, value: Any) -> None:
        if isinstance(value, ErasureState):
            tx.put(key, None)
        elif isinstance(value, BarrierState):
            tx.put(key, None)
            tx.count("barrier_forgotten" if value.passed else "barrier_lost")
        else:
            self._compiling.speak(tx, key, value)

    def _take(self, tx: Tx, contribution: Contribution, trace: str) -> None:
        pattern = pattern_key(contribution)
        key = map_key(pattern, contribution)
        tx.count("withdrawn" if contribution.withdrawn else "contributed")
        tenant_id, names_subjects = contribution.tenant_id, self._maps.names_subjects(contribution.tenant_id)
        if contribution.subject:
            if not names_subjects:
                self._set(tx, TenantSettings(tenant_id=tenant_id, names_subjects=True), trace)
            self._claim(tx, contribution, trace)
        if policy := self._taken_by(tx, key, contribution):  # whom it names counts all the same
            tx.count(f"forgotten_by_{policy}")
            return
        somebodys = names_subjects and self._maps.sessions.is_owned(tenant_id, contribution.session_id)
        if somebodys and not contribution.subject:
            tx.count("contribution_of_somebody")
            return
        surplus = self._maps.surplus(pattern, key, contribution)
        if surplus is not None:
            tx.count(surplus.bound)
            if surplus.key == key:
                tx.put(key, None)
                return
            self._compiling.put(tx, surplus.key, None, trace)
        self._compiling.put(tx, key, contribution, trace)
        while (gone := self._maps.too_much()) is not None:
            tx.count("contribution_out_of_partition")
            self._compiling.put(tx, gone, None, trace)

    def _claim(self, tx: Tx, contribution: Contribution, trace: str) -> None:
        """Take back what its session said while nobody knew whose it is. What is still known of it comes again with
        its subject; what was published with it, or stated instead, is not to be found any more. Statements keep their
        places, which say to what rests on them when they were claimed."""
        keys = self._maps.sessions.unnamed(contribution.tenant_id, contribution.session_id)
        stale = {each for key in keys for each in self._compiling.spoken_with(pattern_of(key))}
        for key in keys:
            known: Contribution = tx.get(key)
            stale.update(self._maps.claims.resting_on(known.contribution_id))
            kept = known.claimed_by(contribution) if is_statement(known.pattern_type) else None
            self._compiling.put(tx, key, kept, trace)
            tx.count("contribution_claimed")
        stale.update(self._compiling.lost_to(tx, contribution) if contribution.claimed_at else ())
        for pattern in sorted(stale):
            self._compiling.speak_later(tx, pattern, trace)
            state: PatternState = tx.get(pattern)
            tx.put(pattern, state.model_copy(update={"forgets": True}))

    def _control(self, tx: Tx, control: EvidenceControl) -> None:
        tx.count("control")
        if control.kind == "barrier":
            self._barrier(tx, control)
        elif control.archived is not None:
            self._archive(tx, control.archived)
        elif control.erased is not None and control.erased.erasure_id == RETENTION:
            self._retain(tx, control.erased, control.partitions)
        elif control.erased is not None:
            self._erase(tx, control.erased, control.partitions)
        elif control.settings is not None:
            self._set(tx, control.settings)

    def _set(self, tx: Tx, settings: TenantSettings, trace: str = "") -> None:
        """Compile everything of the tenant again if it becomes a team or ceases to be one, and its statements if it
        trusts others than before."""
        tenant_id, maps = settings.tenant_id, self._maps
        was_team, trusted = maps.is_team(tenant_id), maps.trust(tenant_id)
        key = settings_key(tenant_id)
        tx.put(key, settings.after(tx.get(key)))
        if maps.is_team(tenant_id) != was_team:
            for pattern in maps.patterns(tenant_id):
                self._compiling.speak_later(tx, pattern, trace)
            if was_team:
                self._unshare(tx, tenant_id)
        elif maps.trust(tenant_id) != trusted:
            for pattern in maps.statements(tenant_id):
                self._compiling.speak_later(tx, pattern, trace)

    def _unshare(self, tx: Tx, tenant_id: str) -> None:
        """Let nothing be found any more of what the tenant shared as a team. What was only imported was not its own."""
        for pattern in self._published(tx, tenant_id):
            kind = KINDS.get(split_pattern(pattern)[1].type)
            if kind is None:
                continue
            self._compiling.speak_later(
                tx, state_key(tenant_id, task_patterns(kind.made_of)[0]) if kind.made_of else pattern, ""
            )
            state: PatternState = tx.get(pattern)
            tx.put(pattern, state.model_copy(update={"forgets": True}))

    def _erase(self, tx: Tx, erased: ErasureMark, partitions: int) -> None:
        """Drop the contributions that are erased, and compile their patterns again, those that they reach, and those
        that lost evidence before, as if they had never come. `partitions`: those of the events topic; 0 if the mark
        does not say."""
        marks = set(erased.marks)

        def is_past(each: Contribution) -> bool:
            """What the mark's own partition has contributed so far is of the erased past, whatever its events' time;
            the other partitions' marks come, too."""
            if not partitions:
                return each.first_at <= erased.at
            return partition_of(session_key(each.tenant_id, each.session_id), partitions) == erased.partition

        gone = [
            (key, each)
            for key, each in self._maps.of_tenant(erased.tenant_id)
            if covered(marks, erased.tenant_id, each.session_id, each.subject) and is_past(each)
        ]
        stale, own = self._drop(tx, [key for key, _ in gone]), own_marks(erased, partitions)
        news = [*self._maps.erased.remembered(erased, own, tx.clock)]
        for key, remembered in news:
            tx.put(key, remembered)
        whole, takes_all = is_whole(own, erased.tenant_id), is_whole(marks, erased.tenant_id)
        if own:
            self._compiling.keep_sealed(tx, erased.tenant_id, lambda one: None if whole else one.without(own))
        for pattern in self._published(tx, erased.tenant_id):
            state: PatternState = tx.get(pattern)
            left = self._maps.erased.left_after(state.rulings, own) if news else state.rulings
            if whole:
                tx.put(pattern, state.model_copy(update={"rulings": [], "archived": None, "imported": None}))
            elif left != state.rulings:
                tx.put(pattern, state.model_copy(update={"rulings": left}))
                self._speak_beside(tx, pattern)
            if left != state.rulings or state.dropped or takes_all:
                stale.add(pattern)
        for pattern in sorted(stale):
            state = tx.get(pattern) or PatternState()
            tx.put(pattern, state.model_copy(update={"forgets": True, "speak_at": tx.clock}))
        tx.count("erased_contribution", len(gone))

    def _retain(self, tx: Tx, mark: ErasureMark, partitions: int) -> None:
        """Drop what the tenant's retention takes, as an erasure does. What an operator has ruled since the cut stands,
        and with it what it rests on. Only the marks of the tenant's own partition count: its rulings stand there too,
        so every interleaving has them in the same order. `partitions`: as in `_erase`."""
        if not is_own(mark, partitions):
            return
        tenant_id, key = mark.tenant_id, settings_key(mark.tenant_id)
        known: TenantSettings = tx.get(key) or TenantSettings(tenant_id=tenant_id)
        cuts = risen(known.cuts or {}, mark.cuts)
        if cuts == (known.cuts or {}):
            return
        tx.put(key, known.model_copy(update={"cuts": cuts}))
        self._compiling.keep_sealed(
            tx, tenant_id, lambda one: None if one.at and policy_of(cuts, one.at, KNOWN_CLASS) else one
        )
        ruled, lost = {}, set[str]()
        for pattern in self._published(tx, tenant_id):
            state: PatternState = tx.get(pattern)
            if state.rulings:
                ruled[pattern] = self._ruled(tx, pattern)
            if state.dropped:
                lost.add(pattern)
        taken = [(key, self._taken_by(tx, key, each)) for key, each in self._maps.of_tenant(tenant_id)]
        gone = [(key, policy) for key, policy in taken if policy]
        stale = self._drop(tx, [key for key, _ in gone]) | lost
        for pattern in sorted({*stale, *ruled}):
            state = tx.get(pattern) or PatternState()
            rulings = ruled.get(pattern, [])
            if pattern in stale or rulings != state.rulings:
                left = {"forgets": state.forgets or not rulings, "speak_at": tx.clock, "rulings": rulings}
                tx.put(pattern, state.model_copy(update=left))
        for _, policy in gone:
            tx.count(f"forgotten_by_{policy}")

    def _taken_by(self, tx: Tx, key: str, contribution: Contribution) -> str:
        """Return which policy of the tenant's retention takes a contribution; empty if none does, or rulings hold it:
        what had left before the first of them stays away, whenever it comes."""
        policy = self._maps.taken_by(contribution)
        if not policy or not self._ruled(tx, pattern_of(key)):
            return policy
        return policy if contribution.last_at < tx.get(pattern_of(key)).left_before else ""

    def _ruled(self, tx: Tx, pattern: str) -> list[Ruling]:
        """Return the rulings on a pattern that its tenant's retention leaves: what they rest on stands with them."""
        return self._maps.standing(self._compiling.known(tx, pattern).rulings)

    def _drop(self, tx: Tx, keys: list[str]) -> set[str]:
        """Remove contributions; return the patterns that were compiled with them."""
        stale = {each for key in keys for each in self._compiling.spoken_with(pattern_of(key))}
        for key in keys:
            self._compiling.put(tx, key, None, "")
        return stale

    def _published(self, tx: Tx, tenant_id: str) -> list[str]:
        """Return the keys of all patterns of the tenant that have published something, or are decided on."""
        prefix = f"p/{join_key(tenant_id)}/"
        return sorted(key for key in tx.values() if key.startswith(prefix))

    def _archive(self, tx: Tx, archived: Archive) -> None:
        """Archive a pattern, even without an active artifact: in a rebuild the decision may come before the
        evidence."""
        key = decided_key(archived)
        state = self._compiling.known(tx, key)
        if not self._maps.may_decide(key, state):
            tx.count("decision_out_of_room")
            return
        if state.said is None or state.said.artifact.status is not Status.ACTIVE:
            tx.count("archived_inactive")
        self._compiling.speak(tx, key, state.model_copy(update={"archived": state.archived or archived.cause}))

    def _import(self, tx: Tx, given: Import) -> None:
        """Import an artifact. It stands at once, unless the pattern's own evidence is sufficient."""
        tx.count("control")
        key = decided_key(given)
        state = self._compiling.known(tx, key)
        if not self._maps.may_decide(key, state):
            tx.count("decision_out_of_room")
            return
        tx.count("imported")
        self._compiling.speak(tx, key, state.model_copy(update={"imported": added(state.imported, given)}))

    def _rule(self, tx: Tx, ruling: Ruling) -> None:
        """Apply an operator's ruling at once; in a rebuild it may come before the evidence. If it is too old when it
        comes it counts for nothing, as evidence does: a sealed one would be too old to be opened."""
        tx.count("control")
        if policy := self._maps.ruling_taken_by(ruling):
            tx.count(f"forgotten_by_{policy}")
            return
        key = decided_key(ruling)
        state = self._compiling.known(tx, key)
        left = self._maps.erased.left_of(ruling)
        if left is None or left.verb is not ruling.verb:
            tx.count("ruling_on_erased")
        if left is None:
            return
        rulings = with_ruling(state.rulings, left)
        if rulings is None or not self._maps.may_decide(key, state):
            tx.count("decision_out_of_room")
            return
        tx.count("ruled")
        since = state.left_before if self._ruled(tx, key) else self._maps.left_before(ruling.tenant_id)
        self._compiling.speak(tx, key, state.model_copy(update={"rulings": rulings, "left_before": since}))
        self._speak_beside(tx, key)

    def _speak_beside(self, tx: Tx, key: str) -> None:
        """Compile the tenant's pattern beside a subject's own again: the subject's testimony there may have changed."""
        tenant_id, pattern = split_pattern(key)
        subject, plain = scope_of(pattern.key)
        shared = state_key(tenant_id, Pattern(pattern.type, plain))
        if subject and any(each.subject == subject for each in self._maps.of(shared).values()):
            self._compiling.speak_later(tx, shared, "")

    def _barrier(self, tx: Tx, control: EvidenceControl) -> None:
        key = barrier_state_key(control.barrier_id)
        state: BarrierState | None = tx.get(key)
        seen = {*(state.seen if state is not None else ()), control.partition}
        complete = len(seen) == control.partitions
        speaks_first = complete and self._maps.is_pending(control.tenant_id) and (state is None or not state.passed)
        tx.put(
            key,
            BarrierState(
                seen=tuple(sorted(seen)),
                partitions=control.partitions,
                passed=complete and not speaks_first,
                forget_at=tx.clock + BARRIER_KEPT_MS,
                tenant_id=control.tenant_id,
                speaking=tx.offset if speaks_first else None,
            ),
        )

    @property
    def unfinished(self) -> int | None:
        barrier = self._maps.barrier
        return barrier[1].speaking if barrier is not None else None

    @property
    def backlog(self) -> Backlog:
        return Backlog(self._maps.pending_count, 0)

    def go_on(self, tx: Tx) -> None:
        """Compile one pending pattern per turn. After the last, the barrier has passed."""
        assert self._maps.barrier is not None, "something is unfinished"
        key, state = self._maps.barrier
        pattern = self._turns.next_of(self._maps.pending(state.tenant_id))
        self._compiling.speak(tx, pattern, tx.get(pattern))
        if not self._maps.is_pending(state.tenant_id):
            tx.put(key, msgspec.structs.replace(state, passed=True, speaking=None))
