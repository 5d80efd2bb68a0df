"""What must come of one partition of the evidence topic: a plain reference of the patterns stage.

Enters: its rows in the order of their offsets. Leaves: `Patterns`, every pattern with its map, and when it spoke. What
the map says is decided by `hmx_pipeline.compiler`; when it is asked, and over which contributions, here. Nothing is
compiled while the partition is read: only the last thing that a pattern said must be what its map says (law 5).
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple

import orjson
from pydantic import ValidationError

from hmx_pipeline.compiler.candidate import candidate, counting
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.imported_artifacts import Imported, added, believed
from hmx_pipeline.compiler.knowledge.authority import Trust
from hmx_pipeline.compiler.knowledge.claims import plain_text
from hmx_pipeline.compiler.knowledge.endings import ENDING, touched
from hmx_pipeline.compiler.knowledge.knowledge_kind import Under
from hmx_pipeline.compiler.knowledge.knowledge_records import records
from hmx_pipeline.compiler.knowledge.scopes import scope_key, scope_of
from hmx_pipeline.compiler.registry import KINDS, is_compiled, is_knowledge, is_statement, task_patterns
from hmx_pipeline.contracts.artifact import is_type
from hmx_pipeline.contracts.evidence import Archive, Contribution, EvidenceControl, TenantSettings, evidence_key
from hmx_pipeline.contracts.evidence import Pattern as Name
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.keys import join_key, split_key, tenant_partition
from hmx_pipeline.contracts.limits import (
    BARRIER_KEPT_MS,
    CLOCK_SKEW_MS,
    CONTRIBUTION_DEBOUNCE_MS,
    ERASURE_KEPT_MS,
    KNOWLEDGE_CHAIN,
    KNOWLEDGE_CHAINED,
    KNOWLEDGE_TOUCHED,
    PARTITION_CONTRIBUTION_BYTES,
    PATTERN_CONTRIBUTIONS,
    PATTERN_DEBOUNCE_MS,
    PATTERN_RULINGS,
    STATEMENT_DEBOUNCE_MS,
    TASKS_GONE,
    TENANT_CONTRIBUTIONS,
    TENANT_DECISIONS,
)
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.contracts.ruling import Ruling
from tests.verifier.cuts import RETENTION, latest, taken, takes_contribution
from tests.verifier.erasures import Erased, read_mark
from tests.verifier.log import Row
from tests.verifier.rules import CONTROLS
from tests.verifier.sessions import Letter

ENDLESS: Final = 2**63
LEARNT: Final[dict[str, Any]] = {"agents": [], "goal": {}, "outcomes": [], "properties": {}, "summary": ""}
"""What a correction keeps of its record that other words of its sessions are, and what it is without them."""


class Silence(NamedTuple):
    """An operator's decision, the first one about a pattern."""

    offset: int
    cause: str
    was_due: bool
    """The same record made the pattern speak before."""
    until: int = ENDLESS
    """Offset of the record that erased the whole tenant since."""


@dataclass(slots=True)
class Pattern:
    tenant_id: str
    text: str
    heard: list[tuple[int, str, bytes | None]] = field(default_factory=list)
    """Offset, evidence key and value of every contribution, in order; None: it has lost its place."""
    kept: set[str] = field(default_factory=set)
    """Evidence keys of its map."""
    ranks: list[tuple[int, str]] = field(default_factory=list)
    """A heap of their negated ranks; what has lost its place is still in it."""
    speak_at: int | None = None
    forgets_only: bool = False
    """Nothing but an erasure lets it speak then: where the stage knows nothing of it any more, it is not asked."""
    spoke: dict[int, int] = field(default_factory=dict)
    """Offset of the record that made it speak → the clock then."""
    silences: list[Silence] = field(default_factory=list)
    gifts: list[tuple[int, bool, Import | None]] = field(default_factory=list)
    """What was imported: the record's offset, and whether it made the pattern speak before. None: it went with the
    whole tenant."""
    forgotten: bool = False
    """It has once spoken with nothing left in its map."""
    rulings: list[tuple[int, tuple[Ruling, ...]]] = field(default_factory=list)
    """What operators have ruled on its records: all that counts from which offset on."""
    taken_at: set[int] = field(default_factory=set)
    """Offsets of the records that took decisions; it speaks of that with a later one."""
    cut_when_ruled: dict[str, int] = field(default_factory=dict)
    """How far the tenant's cuts had risen when rulings began to hold what it rests on."""
    forgets: bool = False
    """An erasure took something that it rests on, or a session turned out to be somebody's, and it has not spoken
    since."""
    dropped: bool = False
    """It has been compiled with something that is not to be found any more, since it last forgot."""
    forgot: set[int] = field(default_factory=set)
    """Offsets of the records with which it spoke after an erasure: nothing that it had said stays."""
    maker: "Pattern | None" = None
    """Whose contributions make it; it has none of its own."""
    beside: "list[Pattern]" = field(default_factory=list)
    """Of one that makes others: whose contributions it takes as well."""
    is_team: Callable[[int], bool] = lambda _: False
    """Whether its tenant was a team before that offset."""
    trust: Callable[[int], Trust | None] = lambda _: None
    """Whom its tenant trusted before that offset."""
    _makes: dict[int, dict[str, list[Contribution]]] = field(default_factory=dict)
    """What its contributions made of other patterns, by the offset before which they came."""
    _read: dict[bytes, Contribution] = field(default_factory=dict)

    @property
    def times(self) -> dict[int, int]:
        """Offset of each record that may have made it speak → the clock then, in order."""
        every = self.spoke if self.maker is None else {**self.maker.spoke, **self.spoke}
        return dict(sorted(every.items()))

    def evidence(self, before: int) -> list[Contribution]:
        """What it is compiled from, of all that came before that offset."""
        if self.maker is not None:
            return self.maker.makes(before).get(self.text, [])
        values = self.last(before).values()
        for value in values:
            if value not in self._read:
                self._read[value] = Contribution.model_validate_json(value)
        found = [self._read[value] for value in values]
        return found if is_knowledge(split_key(self.text)[0]) else self._decisive(self._shared(found, before), before)

    def _shared(self, told: list[Contribution], before: int) -> list[Contribution]:
        """A team's words are nobody's in particular."""
        return [each.model_copy(update={"subject": ""}) for each in told] if self.is_team(before) else told

    def _decisive(self, told: list[Contribution], before: int) -> list[Contribution]:
        """Where people or trusted agents decide, nobody else's decision counts."""
        trust = self.trust(before)
        if split_key(self.text)[0] != "decision_policy" or trust is None or not trust.people or self.is_team(before):
            return told
        return [one for one in told if one.subject or trust.agents.issuperset(one.tellers or [one.agent_id])] or told

    def makes(self, before: int) -> dict[str, list[Contribution]]:
        """By the text of each pattern that its contributions make, those that it is made of."""
        if before not in self._makes:
            group = KINDS[split_key(self.text)[0]].group
            assert group is not None
            told = [each for one in (self, *self.beside) for each in counting(one.evidence(before))]
            made = group(self._shared(told, before))
            self._makes[before] = {pattern.text: own for pattern, own in made.items()}
        return self._makes[before]

    def last(self, before: int | None = None) -> dict[str, bytes]:
        """Evidence key → what counts, of all that came before that offset."""
        last: dict[str, bytes] = {}
        for at, key, value in self.heard:
            if before is not None and at >= before:
                break
            if value is None:
                del last[key]
            else:
                last[key] = value
        return last

    def imported(self, before: int) -> Imported | None:
        """What had been imported before that offset."""
        known: Imported | None = None
        for offset, _, given in self.gifts:
            if offset < before:
                known = added(known, given) if given is not None else None
        return known

    def silence(self, at: int = ENDLESS) -> Silence | None:
        """Why it said nothing as of that offset."""
        return next((one for one in self.silences if one.offset <= at <= one.until), None)

    def is_decided(self, before: int) -> bool:
        return bool(self.silence() or self.imported(ENDLESS) or self.ruled(before))

    def ruled(self, before: int) -> tuple[Ruling, ...]:
        """What operators had ruled before that offset."""
        known = [rulings for offset, rulings in self.rulings if offset < before]
        return known[-1] if known else ()

    def decided_before(self, spoke: int) -> int:
        """Before which offset decisions came that count in what it said with a record."""
        return spoke if spoke in self.taken_at else spoke + 1

    def cites(self, ids: Set[str]) -> bool:
        """Whether an operator has stated something that rests on one of these contributions."""
        known = self.ruled(ENDLESS) if ids and self.rulings else ()
        return any(not ids.isdisjoint(one.stated.source_memory_ids) for one in known if one.stated is not None)

    @property
    def forgot_at(self) -> set[int]:
        """Likewise, of whatever makes it too."""
        return self.forgot if self.maker is None else self.forgot | self.maker.forgot

    def says(self) -> ArtifactCandidate | None:
        """When it spoke last."""
        if not self.times or self.silence() is not None:
            return None
        spoke = max(self.times)
        own = candidate(self.evidence(spoke), split_key(self.text)[0])
        said = believed(own, self.imported(self.decided_before(spoke)))
        return None if said is not None and said.contradicted else said


Form = tuple[str, bool, str]
"""Tenant, whether endings list it, form."""


def _reaches(ends: bool, counts: list[int]) -> bool:
    """A form that so many patterns list is a word and no name."""
    return not counts or counts[-1] <= (KNOWLEDGE_CHAINED if ends else KNOWLEDGE_TOUCHED)


def _makes(text: str) -> bool:
    return KINDS[split_key(text)[0]].group is not None if split_key(text)[0] in KINDS else False


def _rank(key: str) -> int:
    """64 bits of a hash of session and segment, the last two parts of an evidence key."""
    session_and_segment = "/".join(key.split("/")[-2:])
    return int.from_bytes(hashlib.sha256(session_and_segment.encode()).digest()[:8], "big")


class Took(NamedTuple):
    """A partition's word of an erasure, remembered until then."""

    until: int
    erased: Erased
    is_home: bool
    """It is the partition in which the tenant's rulings come."""


@dataclass(slots=True)
class Passage:
    """A barrier on its way: the events partitions that have forwarded it."""

    partitions: int
    tenant_id: str = ""
    """Whose patterns speak; empty: everybody's."""
    seen: set[int] = field(default_factory=set)
    passed: bool = False
    forget_at: int = 0


class Patterns:
    """One partition of the evidence topic."""

    def __init__(self) -> None:
        self.clock = 0
        self.patterns: dict[str, Pattern] = {}
        """By the key tenant/pattern."""
        self.passages: dict[str, Passage] = {}
        self.decisions = 0
        """Of operators; each archives an artifact, or comes to a pattern that has nothing active."""
        self._decided: dict[str, set[str]] = {}
        """By tenant, the patterns that operators have decided on."""
        self._settings: dict[str, list[tuple[int, TenantSettings]]] = {}
        """By tenant, what operators have set for it, and where."""
        self._erasures: dict[str, dict[tuple[str, int], Took]] = {}
        """Of each tenant, by id and partition."""
        self._cuts: dict[str, dict[str, int]] = {}
        """By tenant, before when nothing of a class stays."""
        self._claims: dict[str, dict[str, tuple[str, list[tuple[int, int]]]]] = {}
        """By tenant and evidence key, the id of a contribution whose session was somebody's only later, and from which
        offset on it was known when the name was appended; 0 once the contribution has lost its place."""
        self._subjects: dict[str, int] = {}
        """By tenant, the offset of the first contribution that named a subject, kept or not."""
        self.letters: list[Letter] = []
        self.counts: Counter[str] = Counter()
        self._kept: Counter[str] = Counter()
        """Contributions of each tenant."""
        self._sessions: dict[str, dict[str, tuple[Pattern, str]]] = {}
        """Session → key of each contribution that came → its pattern, and whose it is."""
        self._sizes: dict[str, int] = {}
        """Bytes of each contribution that is kept."""
        self._bytes: Counter[str] = Counter()
        """Of each tenant's."""
        self._ranks: dict[str, list[tuple[int, str, Pattern]]] = {}
        """As of a pattern, of each tenant."""
        self._timers: list[tuple[int, str]] = []
        self._gone: Counter[str] = Counter()
        """Patterns by tenant that others' contributions make no more."""
        self._listed: dict[Form, dict[str, set[str]]] = {}
        """By the form that contributions list: their patterns, and in each their evidence keys."""
        self._lists: dict[str, set[Form]] = {}
        """By evidence key, the forms that a contribution lists."""
        self._counts: dict[Form, list[tuple[int, int]]] = {}
        """Likewise how many patterns these were from which offset on."""

    def take(self, row: Row) -> None:
        self.clock = max(self.clock, row.at)
        self._fire(row.offset)
        rejection = self._read(row)
        if rejection is not None:
            self.letters.append(Letter(row, rejection))
            self.counts[f"rejected.{rejection.reason}"] += 1

    def add_made(self) -> None:
        """The patterns that contributions of others make by now, once all is read."""
        for pattern in [one for one in self.patterns.values() if one.spoke and _makes(one.text)]:
            self._maker(pattern.tenant_id, split_key(pattern.text)[0])
            for text in pattern.makes(max(pattern.spoke)):
                self._pattern(pattern.tenant_id, text)

    def vanished(self, name: str, offset: int) -> Pattern | None:
        """A pattern that contributions of others had made before that offset, and make no more."""
        tenant_id, text = split_key(name)
        kind = KINDS.get(split_key(text)[0])
        if kind is None or not kind.made_of:
            return None
        maker = self._maker(tenant_id, kind.made_of)
        if offset not in maker.spoke or text not in maker.makes(offset):
            return None
        self._gone[tenant_id] += not maker.forgot
        pattern = self._pattern(tenant_id, text)
        pattern.forgotten = self._gone[tenant_id] > TASKS_GONE
        return pattern

    def _pattern(self, tenant_id: str, text: str) -> Pattern:
        name = join_key(tenant_id, text)
        if name not in self.patterns:
            kind = KINDS.get(split_key(text)[0])
            maker = self._maker(tenant_id, kind.made_of) if kind is not None and kind.made_of else None
            self.patterns[name] = Pattern(
                tenant_id,
                text,
                maker=maker,
                is_team=partial(self.is_team, tenant_id),
                trust=partial(self.trust, tenant_id),
            )
        return self.patterns[name]

    def _maker(self, tenant_id: str, kind: str) -> Pattern:
        first, *beside = (self._pattern(tenant_id, pattern.text) for pattern in task_patterns(kind))
        first.beside = beside
        return first

    def _read(self, row: Row) -> Rejection | None:
        if row.value is None:
            return Rejection(Reason.NULL_VALUE)
        try:
            if row.header("hmx-kind") in CONTROLS:
                return self._control(row, EvidenceControl.model_validate_json(row.value))
            contribution = Contribution.model_validate_json(row.value)
        except ValidationError:
            return Rejection(Reason.WRONG_TYPE)
        if contribution.pattern_type not in KINDS:
            return Rejection(Reason.WRONG_TYPE, "$.pattern_type")
        self._contribution(row, contribution)
        return None

    def _contribution(self, row: Row, contribution: Contribution) -> None:
        pattern = self._pattern(contribution.tenant_id, contribution.pattern.text)
        key = evidence_key(contribution)
        self.counts["withdrawn" if contribution.withdrawn else "contributed"] += 1
        if contribution.subject:
            self._name(row.offset, contribution.tenant_id)
            self._claim(row.offset, contribution)
        if policy := self._too_old(pattern, orjson.loads(row.value or b""), row.offset):
            self.counts[f"forgotten_by_{policy}"] += 1
            return
        own = self._session(contribution)
        if not contribution.subject and any(whose for _, whose in own.values()):
            self.counts["contribution_of_somebody"] += 1
            return
        own[key] = (pattern, contribution.subject)
        if key not in pattern.kept and (loser := self._loser(pattern, key)) is not None:
            if loser[1] == key:
                return
            self._lose(row.offset, *loser)
        self._hear(row.offset, pattern, contribution)
        while self._bytes.total() > PARTITION_CONTRIBUTION_BYTES:
            self.counts["contribution_out_of_partition"] += 1
            fullest = min(self._bytes, key=lambda tenant: (-self._bytes[tenant], tenant))
            _, highest, owner = self._highest(fullest)
            self._lose(row.offset, owner, highest)

    def _hear(self, offset: int, pattern: Pattern, contribution: Contribution) -> None:
        key, value = evidence_key(contribution), contribution.to_json()
        pattern.heard.append((offset, key, value))
        self._relist(offset, pattern, key, value)
        if key not in pattern.kept:
            self._place(pattern, key)
        self._bytes[pattern.tenant_id] += len(value) - self._sizes.get(key, 0)
        self._sizes[key] = len(value)
        self._speak_later(pattern)
        if contribution.claimed_at:
            own = self._claims.setdefault(pattern.tenant_id, {})
            _, known = own.setdefault(key, (contribution.contribution_id, []))
            known.append((offset, contribution.claimed_at))

    def _session(self, contribution: Contribution) -> dict[str, tuple[Pattern, str]]:
        """What is kept of its session, by key: the pattern, and whose it is."""
        name = join_key(contribution.tenant_id, contribution.session_id)
        own = {k: one for k, one in self._sessions.get(name, {}).items() if k in one[0].kept}
        self._sessions[name] = own
        return own

    def _claim(self, offset: int, contribution: Contribution) -> None:
        """The first of a session that names somebody ends what came before."""
        own = self._session(contribution)
        claimed = sorted(k for k, (_, whose) in own.items() if not whose)
        told = {each: orjson.loads(own[each][0].last()[each]) for each in claimed}
        ids = {each["contribution_id"] for each in told.values()}
        stale = {name for each in claimed for name in self._compiled_with(own[each][0])}
        stale |= {
            name for name, one in self.patterns.items() if one.tenant_id == contribution.tenant_id and one.cites(ids)
        }
        for each in claimed:
            one = own.pop(each)[0]
            if is_statement(split_key(one.text)[0]):
                self._hear(offset, one, _place_of(told[each], contribution))
                own[each] = (one, contribution.subject)
            else:
                self._lose(offset, one, each)
            self.counts["contribution_claimed"] += 1
        stale |= self._lost_to(contribution) if contribution.claimed_at else set()
        for name in stale:
            self._speak_later(self.patterns[name])
            self.patterns[name].forgets = True

    def _lost_to(self, contribution: Contribution) -> set[str]:
        """Where words of its session may stand that lead nowhere any more."""
        kind, key = contribution.pattern
        names = {join_key(contribution.tenant_id, join_key(kind, one)) for one in (key, scope_of(key)[1])}
        found = {each for name in names & self.patterns.keys() for each in self._compiled_with(self.patterns[name])}
        return {name for name in found if self.patterns[name].dropped}

    def under(self, tenant_id: str, before: int) -> Under:
        """The endings by their form, as they stood before that offset."""

        def endings(form: str, chained: bool) -> list[Contribution]:
            pattern = self.patterns.get(join_key(tenant_id, join_key(ENDING, form)))
            counts = [n for at, n in self._counts.get((tenant_id, chained, form), ()) if at < before]
            return pattern.evidence(before) if pattern is not None and _reaches(chained, counts) else []

        return endings

    def _relist(self, offset: int, pattern: Pattern, key: str, value: bytes | None) -> None:
        """Whoever lists a form that reached few enough and now reaches too many, or the reverse, speaks again.
        Whatever loses something that it was compiled with is marked."""
        name, ends = join_key(pattern.tenant_id, pattern.text), split_key(pattern.text)[0] == ENDING
        said = touched(Contribution.model_validate_json(value)) if value else ()
        lists = {(pattern.tenant_id, ends, form) for form in said}
        listed_before = self._lists.pop(key, frozenset())
        ended = [form for _, _, form in listed_before - lists if self._is_ended(pattern.tenant_id, form)]
        losing = self._compiled_with(pattern) if value is None or ended else set()
        if lists:
            self._lists[key] = lists
        for form in sorted(listed_before | lists):
            patterns = self._listed.setdefault(form, {})
            was, keys = _reaches(ends, [len(patterns)]), patterns.setdefault(name, set())
            (keys.add if form in lists else keys.discard)(key)
            if not keys:
                del patterns[name]
            self._counts.setdefault(form, []).append((offset, len(patterns)))
            if was != _reaches(ends, [len(patterns)]):
                for each in list(patterns):
                    self._speak_later(self.patterns[each])
                    losing |= self._compiled_with(self.patterns[each]) if was else set()
        for each in losing:
            self.patterns[each].dropped = True

    def _is_ended(self, tenant_id: str, form: str) -> bool:
        ending = self.patterns.get(join_key(tenant_id, join_key(ENDING, form)))
        return ending is not None and bool(ending.kept)

    def _beside(self, tenant_id: str, form: str, left: int = KNOWLEDGE_CHAIN) -> set[str]:
        """The patterns that are compiled together with the endings of a form."""
        found: set[str] = set()
        for ends in (False, True) if left else ():
            listed = self._listed.get((tenant_id, ends, form), {})
            for name in listed if _reaches(ends, [len(listed)]) else ():
                text = self.patterns[name].text
                found |= self._beside(tenant_id, split_key(text)[1], left - 1) if ends else {name}
        return found

    def _lose(self, offset: int, pattern: Pattern, key: str) -> None:
        pattern.kept.remove(key)
        self._relist(offset, pattern, key, None)
        pattern.heard.append((offset, key, None))
        self._kept[pattern.tenant_id] -= 1
        self._bytes[pattern.tenant_id] -= self._sizes.pop(key)
        self._speak_later(pattern)
        if key in (own := self._claims.get(pattern.tenant_id, {})):
            own[key][1].append((offset, 0))

    def _name(self, offset: int, tenant_id: str) -> None:
        """A tenant's first contribution that names a subject changes whose word its statements are."""
        if tenant_id not in self._subjects:
            self._subjects[tenant_id] = offset
            self._speak_all(tenant_id)

    def trust(self, tenant_id: str, before: int) -> Trust | None:
        """As it was before that offset."""
        said = [said.trusted_agents for at, said in self._settings.get(tenant_id, ()) if at < before]
        agents = [one for one in said if one is not None]
        trusted = frozenset(agents[-1] if agents else ())
        people = self._subjects.get(tenant_id, ENDLESS) < before
        return Trust(trusted, people) if trusted or people else None

    def _speak_all(self, tenant_id: str) -> None:
        for pattern in list(self.patterns.values()):
            kind = split_key(pattern.text)[0]
            if pattern.tenant_id == tenant_id and pattern.kept and (is_knowledge(kind) or kind == "decision_policy"):
                self._speak_later(pattern)

    def _highest(self, tenant: str) -> "tuple[int, str, Pattern]":
        ranks = self._ranks[tenant]
        while ranks[0][1] not in ranks[0][2].kept:
            heapq.heappop(ranks)
        return ranks[0]

    def _loser(self, pattern: Pattern, key: str) -> tuple[Pattern, str] | None:
        """Of a full pattern, else of a full tenant, whose place there is none for: the highest rank, perhaps the new
        one's, so that of all that ever came the lowest stay."""
        if len(pattern.kept) >= PATTERN_CONTRIBUTIONS:
            self.counts["contribution_out_of_sample"] += 1
            while pattern.ranks[0][1] not in pattern.kept:
                heapq.heappop(pattern.ranks)
            number, highest = pattern.ranks[0]
            return pattern, max((-number, highest), (_rank(key), key))[1]
        if self._kept[pattern.tenant_id] >= TENANT_CONTRIBUTIONS:
            self.counts["contribution_out_of_tenant_sample"] += 1
            number, highest, owner = self._highest(pattern.tenant_id)
            return (owner, highest) if (number, highest) < (-_rank(key), key) else (pattern, key)
        return None

    def _place(self, pattern: Pattern, key: str) -> None:
        number = -_rank(key)
        pattern.kept.add(key)
        heapq.heappush(pattern.ranks, (number, key))
        heapq.heappush(self._ranks.setdefault(pattern.tenant_id, []), (number, key, pattern))
        self._kept[pattern.tenant_id] += 1

    def _speak_later(self, pattern: Pattern) -> None:
        """After a pause, the longer the more contributions it has with this one; never where it is not compiled."""
        kind = split_key(pattern.text)[0]
        if kind == ENDING:
            for name in self._beside(pattern.tenant_id, split_key(pattern.text)[1]):
                self._speak_later(self.patterns[name])
        if not is_compiled(kind):
            return
        if KINDS[kind].group is not None:
            pattern = self._maker(pattern.tenant_id, kind)
        if pattern.speak_at is None:
            least = STATEMENT_DEBOUNCE_MS if is_knowledge(split_key(pattern.text)[0]) else PATTERN_DEBOUNCE_MS
            pattern.speak_at = self.clock + max(least, CONTRIBUTION_DEBOUNCE_MS * len(pattern.kept))
            heapq.heappush(self._timers, (pattern.speak_at, f"p/{join_key(pattern.tenant_id, pattern.text)}"))

    def _control(self, row: Row, control: EvidenceControl) -> Rejection | None:
        kind, slash, key = (control.archived.pattern if control.archived else "").partition("/")
        if control.archived is not None and (not is_type(kind) or not slash or "/" in key):
            return Rejection(Reason.WRONG_TYPE, "$.archived.pattern")
        if control.imported is not None:
            self._gift(row, Import.model_validate(control.imported))
            return None
        if control.ruled is not None:
            return self._ruling(row, Ruling.model_validate(control.ruled))
        self.counts["control"] += 1
        if control.archived is not None:
            self._decision(row, control.archived)
        elif control.erased is not None and control.erased.erasure_id == RETENTION:
            if _is_home(control.erased.tenant_id, control.erased.partition, control.partitions):
                self._retain(row, control.erased.tenant_id, control.erased.cuts)
        elif control.erased is not None:
            self._erase(row, read_mark(control.erased.model_dump()), control.partitions)
        elif control.settings is not None:
            self._setting(row, control.settings)
        elif control.kind == "barrier":
            self._barrier(row, control)
        return None

    def _setting(self, row: Row, settings: TenantSettings) -> None:
        """What is stated is compiled again where it is shared now, or no longer, or where others are trusted."""
        tenant_id = settings.tenant_id
        was_team, trusted = self.is_team(tenant_id, row.offset), self.trust(tenant_id, row.offset)
        self._settings.setdefault(tenant_id, []).append((row.offset, settings))
        if self.is_team(tenant_id, row.offset + 1) != was_team:
            for pattern in list(self.patterns.values()):
                if pattern.tenant_id == tenant_id and pattern.kept:
                    self._speak_later(pattern)
            for pattern in list(self.patterns.values()) if was_team else ():
                kind, known = split_key(pattern.text)[0], pattern.spoke or pattern.speak_at is not None
                if pattern.tenant_id == tenant_id and known and kind in KINDS:
                    if is_compiled(kind):
                        self._speak_later(pattern)
                    pattern.forgets = True
        elif self.trust(tenant_id, row.offset + 1) != trusted:
            self._speak_all(tenant_id)

    def is_team(self, tenant_id: str, before: int) -> bool:
        """As it was set last before that offset."""
        said = [said.sharing for at, said in self._settings.get(tenant_id, ()) if at < before]
        return [one for one in said if one is not None][-1:] == ["team"]

    def _may_decide(self, tenant_id: str, name: str) -> bool:
        """Of a tenant so many patterns may be archived or imported, each as often as operators like."""
        decided = self._decided.setdefault(tenant_id, set())
        if name not in decided and len(decided) >= TENANT_DECISIONS:
            self.counts["decision_out_of_room"] += 1
            return False
        decided.add(name)
        return True

    def _decision(self, row: Row, archived: Archive) -> None:
        """Whatever the pattern has said: it is compiled no more, and what was live of it is not."""
        name = join_key(archived.tenant_id, archived.pattern)
        if not self._may_decide(archived.tenant_id, name):
            return
        pattern = self._pattern(archived.tenant_id, archived.pattern)
        self.decisions += 1
        cause = "archived by an operator" + (f": {archived.reason}" if archived.reason else "")
        if pattern.silence() is None:
            pattern.silences.append(Silence(row.offset, cause, row.offset in pattern.times))
        self._speak(name, row.offset)

    def _gift(self, row: Row, given: Import) -> None:
        """Own evidence that is enough, or speaks against it, goes before."""
        self.counts["control"] += 1
        name = join_key(given.tenant_id, given.pattern)
        if not self._may_decide(given.tenant_id, name):
            return
        self.counts["imported"] += 1
        pattern = self._pattern(given.tenant_id, given.pattern)
        pattern.gifts.append((row.offset, row.offset in pattern.times, given))
        self._speak(name, row.offset)

    def _ruling(self, row: Row, ruling: Ruling) -> Rejection | None:
        """One on each record, where a subject's own replaces no operator's; a pattern has room for so many."""
        parts = split_key(ruling.pattern)
        if len(parts) != 2 or not is_knowledge(parts[0]):
            return Rejection(Reason.WRONG_TYPE, "$.ruled.pattern")
        self.counts["control"] += 1
        if policy := self.too_old(ruling.tenant_id, ruling.at):
            self.counts[f"forgotten_by_{policy}"] += 1
            return None
        name = join_key(ruling.tenant_id, ruling.pattern)
        known = self.patterns[name].ruled(row.offset) if name in self.patterns else ()
        others = [one for one in known if one.record_id != ruling.record_id]
        rest = self._outlives(ruling)
        self.counts["ruling_on_erased"] += rest is None or rest.verb is not ruling.verb
        if rest is None:
            return None
        ruling = rest
        is_weaker = bool(ruling.subject) and any(not one.subject for one in known if one not in others)
        left = known if is_weaker else (*others, ruling)
        if not is_weaker and len(others) >= PATTERN_RULINGS:
            self.counts["decision_out_of_room"] += 1
        elif self._may_decide(ruling.tenant_id, name):
            self.counts["ruled"] += 1
            pattern = self._pattern(ruling.tenant_id, ruling.pattern)
            if not self._standing(pattern, row.offset):
                pattern.cut_when_ruled = self._cuts.get(ruling.tenant_id, {})
            pattern.rulings.append((row.offset, left))
            self._speak(name, row.offset)
            self._testimony(pattern)
        return None

    def _testimony(self, pattern: Pattern) -> None:
        """What a subject's own ruling changes is heard in what all share, too."""
        kind, key = split_key(pattern.text)
        subject, plain = scope_of(key)
        shared = self.patterns.get(join_key(pattern.tenant_id, join_key(kind, plain)))
        told = shared.last().values() if subject and shared is not None else ()
        if shared is not None and any(orjson.loads(value).get("subject") == subject for value in told):
            self._speak_later(shared)

    def _outlives(self, ruling: Ruling) -> Ruling | None:
        """What erasures that were told before leave of it. Whose it is, if anybody's, went with an erasure that is
        about as new; what a correction was made from may have gone with any."""
        known = [one for one in self._erasures.get(ruling.tenant_id, {}).values() if self.clock < one.until]
        home = [one.erased for one in known if one.is_home and one.erased.at + CLOCK_SKEW_MS >= ruling.at]
        if any(one.whole for one in home):
            return None
        taking = [one.erased for one in known if one.is_home or not one.erased.whole]
        left = _ruling_without(_taken_sources(ruling, taking), ruling)
        whose = _whose(ruling)
        is_gone = bool(whose) and any(one.covers("", whose) for one in home)
        return None if is_gone and left.stated is None else left

    def said(self, pattern: Pattern, before: int = ENDLESS) -> dict[str, bytes]:
        """The knowledge records that it said when it spoke last before that offset."""
        spoke = max((at for at in pattern.times if at < before), default=None)
        if spoke is None:
            return {}
        tenant_id, name = pattern.tenant_id, Name(*split_key(pattern.text))
        evidence, under, trust = pattern.evidence(spoke), self.under(tenant_id, spoke), self.trust(tenant_id, spoke)
        rulings, team = pattern.ruled(pattern.decided_before(spoke)), self.is_team(tenant_id, spoke)
        back: set[str] = set()
        for each in () if scope_of(name.key)[0] else [one for one in evidence if one.subject]:
            own = self.patterns.get(join_key(tenant_id, join_key(name.type, scope_key(each.subject, name.key))))
            back |= {one.record_id for one in (own.ruled(spoke) if own else ()) if one.verb != "confirm"}
        claimed = self._claimed(tenant_id, spoke) if rulings else {}
        found = records(
            evidence, name, under, rulings=rulings, trust=trust, team=team, taken_back=back, claimed=claimed
        )
        return {record.record_id: record.to_json() for record in found}

    def _claimed(self, tenant_id: str, before: int) -> dict[str, int]:
        """The contributions whose sessions were somebody's only later, as was known before that offset → when."""
        last = {
            name: [at for offset, at in known if offset < before][-1:]
            for name, known in self._claims.get(tenant_id, {}).values()
        }
        return {name: at for name, found in last.items() for at in found if at}

    def _erase(self, row: Row, erased: Erased, partitions: int) -> None:
        """As if what it takes had never come: whatever was compiled with it is compiled anew, with the next record."""
        own = {name: one for name, one in self.patterns.items() if one.tenant_id == erased.tenant_id}
        gone = [
            (one, key, fields)
            for _, one in sorted(own.items())
            for key, fields in sorted((key, orjson.loads(value)) for key, value in one.last().items())
            if erased.takes_contribution(fields, partitions)
        ]
        stale = {name for one, _, _ in gone for name in self._compiled_with(one)}
        for one, key, _ in gone:
            self._lose(row.offset, one, key)
        stale |= {name for name, one in own.items() if one.dropped}
        if erased.whole:
            stale |= {name for name, one in own.items() if one.spoke or one.speak_at is not None}
        is_home = _is_home(erased.tenant_id, erased.partition, partitions)
        took = Took(self.clock + ERASURE_KEPT_MS, erased, is_home)
        self._erasures.setdefault(erased.tenant_id, {})[erased.erasure_id, erased.partition] = took
        for name, one in own.items():
            known = one.ruled(row.offset + 1)
            stay = [each for each in known if not (is_home and self._takes_ruling(erased, each))]
            left = tuple(rest for each in stay if (rest := self._outlives(each)) is not None)
            if left != known:
                stale.add(name)
                one.rulings.append((row.offset, left))
                one.taken_at.add(row.offset)
                self._undecide(name)
                self._testimony(one)
            if is_home and erased.whole:
                one.silences = [each._replace(until=min(each.until, row.offset)) for each in one.silences]
                one.gifts.append((row.offset, False, None))
                one.taken_at.add(row.offset)
                self._undecide(name)
        for name in stale:
            one = self.patterns[name]
            one.forgets_only = one.speak_at is None
            one.forgets, one.speak_at = True, self.clock
            heapq.heappush(self._timers, (self.clock, f"p/{name}"))
        self.counts["erased_contribution"] += len(gone)

    def _takes_ruling(self, erased: Erased, ruling: Ruling) -> bool:
        """Of what was ruled before: on the tenant's memory, or on what was this subject's alone."""
        return erased.covers("", _whose(ruling))

    def _undecide(self, name: str) -> None:
        """Where no decision is left there is room for another."""
        one = self.patterns[name]
        if not one.is_decided(ENDLESS):
            self._decided.get(one.tenant_id, set()).discard(name)

    def _retain(self, row: Row, tenant_id: str, cuts: dict[str, int]) -> None:
        """What a cut takes goes as if erased, but for what a ruling holds that is not too old itself."""
        before = self._cuts.get(tenant_id, {})
        self._cuts[tenant_id] = latest([before, cuts])
        if self._cuts[tenant_id] == before:
            return
        own = {name: one for name, one in self.patterns.items() if one.tenant_id == tenant_id}
        stand = {name: self._standing(one, row.offset + 1) for name, one in own.items() if one.ruled(row.offset + 1)}
        gone = [
            (one, key, policy)
            for _, one in sorted(own.items())
            for key, value in sorted(one.last().items())
            if (policy := self._too_old(one, orjson.loads(value), row.offset + 1))
        ]
        stale = {name for one, _, _ in gone for name in self._compiled_with(one)}
        stale |= {name for name, one in own.items() if one.dropped}
        for one, key, policy in gone:
            self._lose(row.offset, one, key)
            self.counts[f"forgotten_by_{policy}"] += 1
        for name in stale | stand.keys():
            one, left = self.patterns[name], stand.get(name, ())
            if name not in stale and left == one.ruled(row.offset + 1):
                continue
            one.forgets_only = one.speak_at is None
            one.forgets, one.speak_at = one.forgets or not left, self.clock
            heapq.heappush(self._timers, (self.clock, f"p/{name}"))
            if left != one.ruled(row.offset + 1):
                one.rulings.append((row.offset, left))
                one.taken_at.add(row.offset)
                self._undecide(name)

    def _too_old(self, pattern: Pattern, fields: dict[str, Any], before: int) -> str:
        """The policy that takes a contribution. A ruling holds it, unless it was too old when that came."""
        policy = takes_contribution(self._cuts.get(pattern.tenant_id, {}), fields)
        holds = self._standing(pattern, before) and not takes_contribution(pattern.cut_when_ruled, fields)
        return "" if holds else policy

    def _standing(self, pattern: Pattern, before: int) -> tuple[Ruling, ...]:
        """What operators had ruled before that offset and is not too old."""
        return tuple(one for one in pattern.ruled(before) if not self.too_old(pattern.tenant_id, one.at))

    def too_old(self, tenant_id: str, ruled_at: int) -> str:
        """The policy that takes a ruling."""
        return taken(self._cuts.get(tenant_id, {}), ruled_at, "knowledge")

    def _compiled_with(self, pattern: Pattern) -> set[str]:
        """The patterns that are compiled with the contributions of this one."""
        kind, found = split_key(pattern.text)[0], set[str]()
        if kind == ENDING:
            for name in self._beside(pattern.tenant_id, split_key(pattern.text)[1]):
                found |= self._compiled_with(self.patterns[name])
        if is_compiled(kind):
            one = self._maker(pattern.tenant_id, kind) if KINDS[kind].group is not None else pattern
            found.add(join_key(one.tenant_id, one.text))
        return found

    def _barrier(self, row: Row, control: EvidenceControl) -> None:
        passage = self.passages.setdefault(control.barrier_id, Passage(control.partitions, control.tenant_id))
        passage.seen.add(control.partition)
        passage.partitions = control.partitions
        passes = len(passage.seen) == control.partitions
        if passes and not passage.passed:
            own = [(name, one) for name, one in self.patterns.items() if passage.tenant_id in ("", one.tenant_id)]
            for name in [name for name, pattern in own if pattern.speak_at is not None]:
                self._speak(name, row.offset)
        passage.passed = passes
        passage.forget_at = self.clock + BARRIER_KEPT_MS
        heapq.heappush(self._timers, (passage.forget_at, f"b/{control.barrier_id}"))

    def _fire(self, offset: int) -> None:
        """In any order: what patterns say and which barriers are forgotten does not touch each other."""
        while self._timers and self._timers[0][0] <= self.clock:
            at, key = heapq.heappop(self._timers)
            kind, _, name = key.partition("/")
            if kind == "b":
                if name in self.passages and self.passages[name].forget_at == at:
                    self.counts["barrier_forgotten" if self.passages.pop(name).passed else "barrier_lost"] += 1
            elif self.patterns[name].speak_at == at:
                self._speak(name, offset)

    def _speak(self, name: str, offset: int) -> None:
        pattern = self.patterns[name]
        pattern.spoke[offset] = self.clock
        pattern.speak_at, pattern.forgets_only = None, False
        if pattern.forgets:
            pattern.forgot.add(offset)
            pattern.forgets = pattern.dropped = False
        pattern.forgotten = pattern.forgotten or not (pattern.kept or pattern.is_decided(offset + 1))


def _is_home(tenant_id: str, partition: int, partitions: int) -> bool:
    """Whether it is the partition of the tenant's rulings, as far as a mark says how many there are."""
    return not partitions or tenant_partition(tenant_id, partitions) == partition


def _whose(ruling: Ruling) -> str:
    """Whose memory it is about: a subject rules on nobody else's."""
    return scope_of(split_key(ruling.pattern)[1])[0] or ruling.subject


def _place_of(told: dict[str, Any], named: Contribution) -> Contribution:
    """A statement of a session that turned out to be somebody's says nothing until it comes again."""
    spared = ("body", "source_events", "tags", "lineage_tags", "tellers", "salience", "outcome")
    place = {name: value for name, value in told.items() if name not in spared}
    claimed_at = named.claimed_at or named.first_at
    return Contribution.model_validate({**place, "withdrawn": True, "subject": named.subject, "claimed_at": claimed_at})


def _taken_sources(ruling: Ruling, erasures: list[Erased]) -> set[str]:
    """What of a correction's sources is of the past of an erasure that covers it: by its time, or because the
    correction came before the erasure. Whose a source is may be unknown; then any erasure takes it."""
    told = {one.memory_id: one for one in ruling.sources}
    return {
        name
        for name in (ruling.stated.source_memory_ids if ruling.stated is not None else ())
        for erased in erasures
        if erased.at
        >= (min(ruling.at, told[name].first_at - CLOCK_SKEW_MS) if name in told else ruling.at - CLOCK_SKEW_MS)
        if name not in told or not erased.marks.isdisjoint(told[name].marks)
    }


def _ruling_without(taken: Set[str], ruling: Ruling) -> Ruling:
    """What an operator stated rests on what is left of its sources. Nothing is left: it is as if retracted."""
    stated = ruling.stated
    if stated is None or taken.isdisjoint(stated.source_memory_ids):
        return ruling
    left = [name for name in stated.source_memory_ids if name not in taken]
    if not left:
        return Ruling.model_validate(
            ruling.model_dump() | {"verb": "retract", "stated": None, "sources": [], "reason": ""}
        )
    rest = stated.model_dump() | {"source_memory_ids": left, "source_events": []}
    if ruling.reworded:
        body = rest["body"]
        rest["text"] = plain_text(body, body["object"], denies=body["negated"])
    rest["body"] |= {name: nothing for name, nothing in LEARNT.items() if name in rest["body"]}
    sources = [one for one in ruling.sources if one.memory_id in left]
    return Ruling.model_validate(ruling.model_dump() | {"stated": rest, "sources": sources})
