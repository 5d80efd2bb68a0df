"""Compiling in the patterns stage: contributions are kept, their patterns scheduled, compiled and published.

Enters: the transaction of a record or timer, the contribution maps. Leaves: outputs and state. A change is compiled
after a pause, and what a pattern published before is known from its state, so that only differences are published.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hmx_pipeline.compiler.candidate import candidate, counting
from hmx_pipeline.compiler.imported_artifacts import believed
from hmx_pipeline.compiler.knowledge.knowledge_records import PublishedRecords, difference, records
from hmx_pipeline.compiler.knowledge.scopes import scope_key, scope_of
from hmx_pipeline.compiler.lifecycle import LastPublished, step
from hmx_pipeline.compiler.private_words import of_a_team
from hmx_pipeline.compiler.registry import KINDS, is_compiled, is_ending_kind, is_knowledge, task_patterns
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.erasure import ErasedScope, mark_of
from hmx_pipeline.contracts.evidence import Contribution, Pattern
from hmx_pipeline.contracts.headers import ARTIFACT, KNOWN, fingerprint, output_headers, trace_headers
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import ARTIFACT_VERSIONS
from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.stages.fold import Output, Tx, attempt
from hmx_pipeline.stages.pattern_keys import pattern_of, split_pattern, state_key, tenant_of
from hmx_pipeline.stages.pattern_state import GONE, NOTHING, Maps, PatternState
from hmx_pipeline.stages.sealed_decisions import SealedDecisions, SealedRuling, opened, sealed, sealed_key
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE, KNOWLEDGE

_OUTPUTS: Final = {ARTIFACTS: ARTIFACT, KNOWLEDGE: KNOWN}
"""Output topic → CloudEvents type of its records."""


class PatternCompiling:
    def __init__(self, maps: Maps) -> None:
        self._maps = maps

    def put(self, tx: Tx, key: str, contribution: Contribution | None, trace: str) -> None:
        """Store a contribution and schedule its pattern, and the patterns that a form can reach now but not before, or
        no longer. What loses evidence by it is marked."""
        if contribution is not None:
            contribution.write()
        pattern, reach, known = pattern_of(key), self._maps.reach, tx.get(key)
        listed, lists = reach.forms(pattern, known), reach.forms(pattern, contribution)
        forms = sorted(listed | lists)
        before = {form for form in forms if reach.open(form)}
        loses = known is not None and (contribution is None or any(map(self._maps.is_ended, listed - lists)))
        losing = {*self.spoken_with(pattern)} if loses else set()
        tx.put(key, contribution)
        self.speak_later(tx, pattern, trace)
        for form in forms:
            for each in reach.listing(form) if reach.open(form) != (form in before) else ():
                self.speak_later(tx, each, trace)
                losing.update(self.spoken_with(each) if form in before else ())
        for each in sorted(losing):
            state = self.known(tx, each)
            if not state.dropped:
                tx.put(each, state.model_copy(update={"dropped": True}))

    def speak_later(self, tx: Tx, pattern: str, trace: str) -> None:
        tenant_id, (kind, _) = self._maps.named(pattern)
        if is_ending_kind(kind):
            for each in self._maps.reach.of(pattern):
                self.speak_later(tx, each, trace)
        if not is_compiled(kind):
            return
        if KINDS[kind].group is not None:
            pattern = state_key(tenant_id, task_patterns(kind)[0])
        state = self.known(tx, pattern)
        if state.speak_at is None:
            speak_at = tx.clock + self._maps.pause_ms(pattern)
            tx.put(pattern, state.model_copy(update={"speak_at": speak_at, "trace": trace}))
        elif trace and trace != state.trace:
            tx.put(pattern, state.model_copy(update={"trace": trace}))

    def speak(self, tx: Tx, key: str, state: PatternState) -> None:
        """Compile the map, and emit the difference to what the pattern last published."""
        tenant_id, pattern = self._maps.named(key)
        kind = KINDS.get(pattern.type)
        if kind is not None and kind.group is not None:
            self._say_what_they_make(tx, key, tenant_id, state)
        elif kind is not None and kind.made_of:
            made = self._made(tx, tenant_id, kind.made_of)
            if made is not None:
                self._say(tx, key, state, made.get(pattern, []), state.trace)
        else:
            evidence = list(self._maps.of(key).values())
            if not is_knowledge(pattern.type) and self._maps.is_team(tenant_id):
                evidence = of_a_team(evidence)
            self._say(tx, key, state, evidence, state.trace)

    def _say_what_they_make(self, tx: Tx, key: str, tenant_id: str, state: PatternState) -> None:
        """Publish each pattern that the contributions make now, and each that they made before."""
        made = self._made(tx, tenant_id, split_pattern(key)[1].type)
        if made is None and not state.forgets:
            tx.put(key, state.model_copy(update={"speak_at": None, "trace": ""}))
            return
        made = made or {}  # what was erased must not stay, even if nothing can be said instead
        tx.put(key, PatternState(dropped=True) if state.dropped and not state.forgets else None)
        evidence = {state_key(tenant_id, pattern): own for pattern, own in made.items()}
        for each in sorted(evidence.keys() | self._maps.made(key)):
            own = evidence.get(each, [])
            known = self.known(tx, each)
            digest = fingerprint(b"".join(c.digest for c in own)) if own else GONE
            forgets = known.forgets or state.forgets  # an older version may rest on what is gone
            if digest != known.evidence or forgets:
                known = known.model_copy(update={"evidence": digest, "forgets": forgets})
                self._say(tx, each, known, own, state.trace)
        for each in self._maps.gone(key):
            self._say(tx, each, tx.get(each).model_copy(update={"evidence": ""}), [], state.trace)

    def _made(self, tx: Tx, tenant_id: str, kind: str) -> Mapping[Pattern, list[Contribution]] | None:
        """Return the patterns that a kind's contributions make; None if grouping them failed."""
        group = KINDS[kind].group
        assert group is not None
        maps = (self._maps.of(state_key(tenant_id, pattern)) for pattern in task_patterns(kind))
        told = [each for entries in maps for each in counting(list(entries.values()))]
        if self._maps.is_team(tenant_id):
            told = of_a_team(told)
        return attempt(tx, "pattern_not_compiled", None, group, told)

    def _say(self, tx: Tx, key: str, state: PatternState, evidence: list[Contribution], trace: str) -> None:
        tenant_id, pattern = self._maps.named(key)
        if is_knowledge(pattern.type):
            self._say_what_is_known(tx, key, state, evidence, trace)
            return
        if state.forgets:  # a new chain begins, whose first version follows none
            buried = [*state.older, *([state.said.artifact.artifact_id] if state.said is not None else [])]
            self._bury(tx, tenant_id, buried, trace)
            state = state.model_copy(update={"said": None, "older": [], "forgets": False, "dropped": False})
        unchanged: tuple[LastPublished | None, list[Artifact]] = (state.said, [])

        def compiled() -> tuple[LastPublished | None, list[Artifact]]:
            told, confirmed = self._maps.weighed(tenant_id, pattern.type, evidence)
            own = candidate(told, pattern.type) if state.archived is None else None
            if own is not None and not confirmed:
                own = replace(own, unconfirmed=True)
            return step(state.said, believed(own, state.imported), tenant_id, pattern, tx.clock, state.archived)

        said, artifacts = attempt(tx, "pattern_not_compiled", unchanged, compiled)
        for artifact in artifacts:
            self._publish(tx, ARTIFACTS, tenant_id, artifact.artifact_id, artifact.to_json(), trace)
            tx.count(f"artifact_{artifact.status}")
        older = list(state.older)
        if state.said is not None and said is not None and state.said.artifact.artifact_id != said.artifact.artifact_id:
            older.append(state.said.artifact.artifact_id)
        if (said is not None and (evidence or state.evidence == GONE)) or state.decided:
            self._bury(tx, tenant_id, older[:-ARTIFACT_VERSIONS], trace)
            left = {"said": said, "older": older[-ARTIFACT_VERSIONS:], "speak_at": None, "trace": ""}
            self._keep(tx, key, state.model_copy(update=left), evidence)
            return
        tx.put(key, None)
        if said is not None:
            self._bury(tx, tenant_id, [*older, said.artifact.artifact_id], trace)
            tx.count("pattern_forgotten")

    def _bury(self, tx: Tx, tenant_id: str, artifact_ids: list[str], trace: str) -> None:
        for artifact_id in artifact_ids:
            self._publish(tx, ARTIFACTS, tenant_id, artifact_id, None, trace)
            tx.count("artifact_erased")

    def _say_what_is_known(
        self, tx: Tx, key: str, state: PatternState, evidence: list[Contribution], trace: str
    ) -> None:
        tenant_id, pattern = self._maps.named(key)
        unchanged: tuple[PublishedRecords, list[KnowledgeRecord], list[str]] = (
            PublishedRecords(state.records, state.withdrawn),
            [],
            [],
        )

        def compiled() -> tuple[PublishedRecords, list[KnowledgeRecord], list[str]]:
            under, trust = self._maps.under(tenant_id), self._maps.trust(tenant_id)
            team = self._maps.is_team(tenant_id)
            back = self._taken_back(tx, tenant_id, pattern, evidence)
            claimed = self._maps.claims.of(tenant_id)
            now = records(
                evidence,
                pattern,
                under,
                rulings=state.rulings,
                trust=trust,
                team=team,
                taken_back=back,
                claimed=claimed,
            )
            return difference(PublishedRecords(state.records, state.withdrawn), now, tx.clock)

        known, published, erased = said_now = attempt(tx, "pattern_not_compiled", unchanged, compiled)
        if said_now is unchanged and state.forgets:  # what was erased must not stay, even if nothing is said instead
            known, erased = PublishedRecords([], []), [*(each.record_id for each in state.records), *state.withdrawn]
        left = bool(evidence) or bool(state.rulings)
        buried = {*known.withdrawn} if state.forgets else ()
        for record in published:
            if record.record_id in buried:
                continue
            self._publish(tx, KNOWLEDGE, tenant_id, record.record_id, record.to_json(), trace)
            tx.count(f"knowledge_{record.status}")
        for record_id in erased if left and not state.forgets else [*erased, *known.withdrawn]:
            self._publish(tx, KNOWLEDGE, tenant_id, record_id, None, trace)
            tx.count("knowledge_erased")
        if state.forgets:
            known = known._replace(withdrawn=[])
            state = state.model_copy(update={"forgets": False, "dropped": False})
        said = (left and (known.records or known.withdrawn)) or state.rulings
        kept = {"records": known.records, "withdrawn": known.withdrawn, "speak_at": None, "trace": ""}
        self._keep(tx, key, state.model_copy(update=kept) if said else None, evidence)

    def _publish(self, tx: Tx, topic: str, tenant_id: str, name: str, value: bytes | None, trace: str) -> None:
        key = join_key(tenant_id, name).encode()
        of = _OUTPUTS[topic]
        headers = output_headers(of, EVIDENCE, tx.partition, tx.offset, fingerprint(key, value or b""))
        tx.emit(Output(topic, tx.partition, key, value, [*headers, *trace_headers(trace.encode())]))

    def _taken_back(self, tx: Tx, tenant_id: str, pattern: Pattern, evidence: Iterable[Contribution]) -> set[str]:
        """Return the ids of the private records that do not hold any more for the subjects who testify to a pattern of
        the tenant."""
        if scope_of(pattern.key)[0]:
            return set()
        subjects = {each.subject for each in evidence if each.subject}
        keys = (state_key(tenant_id, Pattern(pattern.type, scope_key(each, pattern.key))) for each in subjects)
        known: Iterable[PatternState] = (tx.get(key) or self._unsealed(tx, key) for key in keys)
        return {r.record_id for state in known for r in state.rulings if r.verb is not RulingVerb.CONFIRM}

    def known(self, tx: Tx, key: str) -> PatternState:
        """Return the state of a pattern that a record names. What was decided on it is sealed no more, until it is
        compiled with nothing."""
        held: PatternState | None = tx.get(key)
        if held is not None:
            return held
        state = self._unsealed(tx, key)
        if state.decided:
            state = state.model_copy(update={"speak_at": tx.clock + self._maps.pause_ms(key)})
            tx.put(sealed_key(key), None)
            tx.put(key, state)
        return state

    def _unsealed(self, tx: Tx, key: str) -> PatternState:
        found: SealedDecisions | None = tx.get(sealed_key(key)) if self._maps.sealed[tenant_of(key)] else None
        if found is None:
            return NOTHING
        state = PatternState.model_validate_json(opened(key, found.sealed))
        rulings = list(state.rulings)
        for each in reversed(found.by_subjects):
            rulings.insert(each.before, Ruling.model_validate_json(opened(key, each.sealed)))
        return state.model_copy(update={"rulings": self._maps.standing(rulings)})

    def keep_sealed(self, tx: Tx, tenant_id: str, left_of: Callable[[SealedDecisions], SealedDecisions | None]) -> None:
        """Keep what is left of the tenant's sealed decisions."""
        prefix = f"d/{join_key(tenant_id)}/"
        for key in sorted(key for key in tx.values() if key.startswith(prefix)):
            known: SealedDecisions = tx.get(key)
            if (left := left_of(known)) != known:
                tx.put(key, left)

    def _keep(self, tx: Tx, key: str, state: PatternState | None, evidence: list[Contribution]) -> None:
        if state is None or evidence or not state.only_decided:
            tx.put(key, state)
            return
        tx.put(key, None)
        tx.put(sealed_key(key), _sealed(key, state))

    def spoken_with(self, pattern: str) -> Iterator[str]:
        """Yield the keys of the patterns that are compiled with the contributions of this one."""
        tenant_id, (kind, _) = split_pattern(pattern)
        if is_ending_kind(kind):
            for each in self._maps.reach.of(pattern):
                yield from self.spoken_with(each)
        if is_compiled(kind):
            yield state_key(tenant_id, task_patterns(kind)[0]) if KINDS[kind].group is not None else pattern

    def lost_to(self, tx: Tx, contribution: Contribution) -> Iterator[str]:
        """Yield the keys of the patterns that its session may have had words in, and that have lost some since."""
        tenant_id, (kind, key) = contribution.tenant_id, contribution.pattern
        for name in {key, scope_of(key)[1]}:
            for pattern in self.spoken_with(state_key(tenant_id, Pattern(kind, name))):
                if (tx.get(pattern) or NOTHING).dropped:
                    yield pattern


def _sealed(key: str, state: PatternState) -> SealedDecisions:
    tenant_id, pattern = split_pattern(key)
    subject = scope_of(pattern.key)[0]
    own = {n: each for n, each in enumerate(state.rulings) if each.subject and not subject}
    told = state.model_copy(update={"rulings": [each for n, each in enumerate(state.rulings) if n not in own]})
    return SealedDecisions(
        sealed=sealed(key, told.to_json()),
        at=max(each.at for each in state.rulings) if state.archived is None else 0,
        whose=mark_of(tenant_id, ErasedScope.SUBJECT, subject) if subject else "",
        by_subjects=tuple(
            SealedRuling(n - at, mark_of(tenant_id, ErasedScope.SUBJECT, each.subject), sealed(key, each.to_json()))
            for at, (n, each) in enumerate(own.items())
        ),
        by_subjects_alone=not told.decided,
    )
