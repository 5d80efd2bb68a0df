"""Search: executes a retrieval plan on memory in two round trips, first the index, then the sources.

Enters: a `RetrievalPlan`. Leaves: a `MemorySnapshot`, and how many of the tenant's events have a time to live. The
cached index (`store/tenant_index`) is updated in the first trip, and the result is as of that trip, as if nothing had
been cached. Each trip is a snapshot; it is repeated if the cache was too old or memory changed between the trips.
Raises StoreUnavailableError.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from hmx_pipeline.advice.similar_sessions import PRECEDENTS
from hmx_pipeline.contracts.episode import is_visible
from hmx_pipeline.contracts.evidence import Contribution, Step
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.retrieval.episode_index import WHOLE, QueryTerm
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.retrieval.memory_index import Hit, IndexEntry, KnowledgeIndexEntry, Ranked
from hmx_pipeline.retrieval.postings import POSTING
from hmx_pipeline.retrieval.related_words import Related
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import UNKNOWN, FoundSource, MemorySnapshot, Whole
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.subject_column import SubjectColumn
from hmx_pipeline.retrieval.vectors import best_of_both
from hmx_pipeline.store.atomic_blocks import Client, DamagedError, StoreUnavailableError, kind_of, reachable, snapshot
from hmx_pipeline.store.changes import CHANGES, Command
from hmx_pipeline.store.damage_log import DOCUMENT, DamageLog, Lost
from hmx_pipeline.store.fill_progress import completeness, questions
from hmx_pipeline.store.precedent_search import found_precedents, precedent_questions
from hmx_pipeline.store.redis_keys import Keys, TenantKeys
from hmx_pipeline.store.source_cache import (
    CachedSource,
    SourceCache,
    Wanted,
    read_artifact,
    read_contribution,
    read_knowledge,
)
from hmx_pipeline.store.tenant_index import NEVER, VIEWS_BYTES, CatalogueCache, TenantIndex, TenantIndexes
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE, KNOWLEDGE

PAGE: Final = 1_000
COMMON: Final = 1_000 * POSTING.itemsize
"""Related words with more postings than this are ignored: they tell little and cost most."""
TRIES: Final = 6
"""Attempts to get consistent snapshots."""
DOUBTED: Final = 2
"""Failed attempts after which the cache is dropped."""
_NAMED: Final = 4
"""A question is about names if known ones make up at least 1/_NAMED of its weight."""
DISTURBED: Final = 4
"""Retries of the first trip because other questions of the tenant changed the cache."""

_UNREADABLE: Final = (ValueError, TypeError, LookupError, msgspec.MsgspecError)
"""Exceptions of decoding damaged index bytes."""
_STEP: Final = msgspec.msgpack.Decoder(Step)
_CARD: Final = msgspec.msgpack.Decoder(IndexEntry)
_KNOWN: Final = msgspec.msgpack.Decoder(KnowledgeIndexEntry)
_RANKED: Final = msgspec.msgpack.Decoder(Ranked)
# KEYS: cards, changes. ARGV: known offset, number of changes kept. Returns nothing if changes were missed.
_CHANGED: Final = b"""
if redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[2])
  and tonumber(redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]) > tonumber(ARGV[1]) then return false end
local ids, cards = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf'), {}
for i, id in ipairs(ids) do cards[i] = redis.call('HGET', KEYS[1], id) end
return {ids, cards}
"""


class _IndexKind(NamedTuple):
    """Artifacts, knowledge or similar sessions of a tenant: their keys and cached index."""

    topic: str
    cards: bytes
    changes: Callable[[int], bytes]
    shelf: CatalogueCache
    card: Callable[[bytes], IndexEntry] = _CARD.decode


class _Places(NamedTuple):
    """Result of the first trip."""

    filling: bytes | None
    state_version: str
    completeness: Completeness
    newest: int
    session: tuple[Step, ...]
    expiring: int
    """Number of events with a time to live."""
    subjects: SubjectColumn
    """Knows whose sessions are."""
    episodes: list[tuple[int, int]]
    artifacts: list[Hit]
    knowledge: list[Hit]
    policies: list[Hit]
    precedents: list[Hit]
    whole: Whole = UNKNOWN
    named: bool = False
    settle: bool = False
    """Whether mismatching sources count as damaged, after retries have ruled out concurrent changes."""


class Search:
    """Thread-safe. Questions of one tenant wait for each other, except during Redis calls. The servers that share the
    tenants also share what a process may keep."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self.views = TenantIndexes(VIEWS_BYTES // keys.servers)
        self.noted = DamageLog(client)
        """Records found altered or lost."""
        self._sources = SourceCache(client, keys)

    def fetch(self, plan: RetrievalPlan) -> tuple[MemorySnapshot, int]:
        """Returns the results, and the tenant's number of events with a time to live."""
        tenant = self._keys.tenant(plan.request.tenant_id)
        for tried in range(TRIES):
            # If memory changed between the trips, both snapshots are taken again.
            places = self._look(plan, tenant, anew=tried == DOUBTED)
            fetched = self._read(plan, tenant, places._replace(settle=tried > DOUBTED))
            if fetched is not None:
                return fetched, places.expiring
        raise StoreUnavailableError("Redis lacks records of its index: keys were lost, or memory changes too fast")

    def _look(self, plan: RetrievalPlan, tenant: TenantKeys, anew: bool) -> _Places:
        """Makes the first trip, repeated if the cache was incomplete."""
        view = self.views.of(tenant.root)
        with view.held():
            if anew:
                view.forget(NEVER)
            asked, turn = self._questions(plan, tenant, view), view.turn
        for _ in range(DISTURBED):
            damaged: set[str] = set()
            answers = snapshot(self._client, asked, damaged)
            with view.held():
                # Other questions may have advanced the cache; that is harmless if the commands stay the same.
                known = asked
                if view.turn != turn:
                    asked, turn = self._questions(plan, tenant, view), view.turn
                if asked == known:
                    if places := self._take_in(plan, tenant, view, answers, damaged):
                        return places
                    asked, turn = self._questions(plan, tenant, view), view.turn
        with view.held():
            while True:
                damaged = set()
                answers = snapshot(self._client, self._questions(plan, tenant, view), damaged)
                if places := self._take_in(plan, tenant, view, answers, damaged):
                    return places

    def _take_in(
        self, plan: RetrievalPlan, tenant: TenantKeys, view: TenantIndex, found: Sequence[Any], damaged: set[str]
    ) -> _Places | None:
        """Like `_understood`; an unreadable index counts as empty, and the pack reports it."""
        view.turn += 1
        try:
            return self._understood(plan, tenant, view, found, damaged)
        except _UNREADABLE:
            view.forget(NEVER)
            whole = completeness(found[0], found[1], {*damaged, "index"})
            state = state_version({}, self._keys.semantic)
            return _Places(None, state, whole, 0, (), 0, SubjectColumn(), [], [], [], [], [])

    def _understood(
        self, plan: RetrievalPlan, tenant: TenantKeys, view: TenantIndex, found: Sequence[Any], damaged: set[str]
    ) -> _Places | None:
        """Updates the cache and ranks; returns None if the cache does not connect, after reading all entries again."""
        answers = iter(found)
        whole = completeness(next(answers), next(answers), damaged)
        filling, version, newest, session = islice(answers, 4)
        if "assigned" in damaged:
            raise LookupError("nobody can say who may see what")
        borders: list[Any] = []
        if plan.precedents:
            spoken, *borders = islice(answers, 1 + len(PRECEDENTS))
            session += spoken
        offsets = _pairs(version)
        if filling != view.filling:
            view.forget(filling)
            lacking = self._shelves(plan, tenant, view)
        else:
            lacking = [s for s in self._shelves(plan, tenant, view) if not _follow(s, answers, offsets)]
        if lacking:
            for kind in lacking:
                self._stock(kind, offsets)
            return None
        episodes, artifacts, knowledge, policies, asked, named = self._rank(plan, view, answers)
        owner = view.episodes.subjects.owner(plan.request.session_id or "")
        done = (step for step in map(_STEP.decode, session) if _sees(plan, step.subject or owner))
        steps = tuple(sorted(done, key=lambda step: step.index))
        precedents = found_precedents(plan, view.precedents, borders, steps)
        self.views.settle(view)
        state = state_version(offsets, self._keys.semantic)
        trip = (filling, state, whole, int(newest or 0), steps, next(answers), view.episodes.subjects)
        return _Places(*trip, episodes, artifacts, knowledge, policies, precedents, asked, named)

    def _questions(self, plan: RetrievalPlan, tenant: TenantKeys, view: TenantIndex) -> list[Command]:
        asked = [plan.vector] if plan.vector else []
        changed = (
            (b"EVAL", _CHANGED, b"2", kind.cards, kind.changes(partition), b"%d" % offset, b"%d" % CHANGES)
            for kind in self._shelves(plan, tenant, view)
            for partition, offset in kind.shelf.offsets.items()
        )
        return [
            *questions(self._keys),
            (b"GET", self._keys.filling),
            (b"HGETALL", tenant.version),
            (b"ZSCORE", tenant.newest, b"at"),
            (b"ZRANGE", tenant.session(plan.request.session_id or ""), b"0", b"-1"),
            *(precedent_questions(plan, tenant) if plan.precedents else ()),
            *changed,
            (b"LRANGE", tenant.assigned, b"%d" % view.episodes.subjects.assigned, b"-1"),
            (b"GETRANGE", tenant.rows, b"%d" % view.episodes.read, b"-1"),
            *((b"GETRANGE", tenant.postings(term), b"%d" % view.read(term), b"-1") for term in plan.terms),
            *(
                (b"GETRANGE", tenant.postings(each.stem), b"%d" % view.read(each.stem), b"%d" % COMMON)
                for each in _uncommon(plan, view)
            ),
            *((b"GET", tenant.tagged(label)) for label in plan.labels),
            *((b"LRANGE", tenant.vectors(near.space), b"%d" % view.vectors(near).read, b"-1") for near in asked),
            (b"ZCARD", tenant.expiring),
        ]

    def _rank(
        self, plan: RetrievalPlan, view: TenantIndex, answers: Iterator[Any]
    ) -> tuple[list[tuple[int, int]], list[Hit], list[Hit], list[Hit], Whole, bool]:
        view.episodes.assign(next(answers))
        view.episodes.extend(next(answers))
        visible = view.episodes.subjects.visible(plan.subject)
        terms = [_brought(view, name, WHOLE, next(answers)) for name in plan.terms]
        dated = bool(plan.timing)
        lasting = [name for name in plan.terms if name not in plan.timing]
        own = [term for name, (term, _) in zip(plan.terms, terms, strict=True) if name not in plan.timing]
        asked = view.episodes.whole(own, dated=dated)
        named = [term for name, (term, _) in zip(plan.terms, terms, strict=True) if name in plan.names]
        known = [term for term in named if term.own.size and (visible is None or visible[term.own.values].any())]
        for each in _uncommon(plan, view):
            postings = next(answers)
            if view.read(each.stem) + len(postings) > COMMON:
                view.common.add(each.stem)
            else:
                terms.append(_brought(view, each.stem, each.share, postings))
        among = view.episodes.among([next(answers) or b"" for _ in plan.labels], plan.as_of, visible)
        if plan.vector is None:
            episodes, answering = view.episodes.best(terms, plan.episodes, among), asked
        else:
            vectors = view.vectors(plan.vector)
            vectors.extend(next(answers), view.episodes)
            view.keep_vectors(plan.vector, vectors)
            both = (view.episodes, terms, vectors, plan.vector.values, plan.episodes, among)
            episodes, answering = best_of_both(*both, asked)
        artifacts, knowledge = view.artifacts.catalogue, view.knowledge.catalogue
        corrected = view.knowledge.corrections.best(plan)
        plain = [name for name in plan.plain if name not in plan.timing]
        whole = Whole(
            answering,
            artifacts.whole((*plain, *plan.shapes), dated=dated),
            knowledge.whole(lasting, dated=dated),
        )
        return (
            episodes,
            artifacts.best((*plan.terms, *plan.shapes), plan.artifacts, plan.labels, None, plan.subject),
            [*knowledge.best(plan.terms, plan.knowledge, plan.labels, None, plan.subject), *corrected],
            knowledge.newest(Kind.POLICY, plan.policies, plan.labels, plan.subject),
            whole,
            2 * len(known) > len(named) and _NAMED * view.episodes.asked_for(known) >= asked,
        )

    def _shelves(self, plan: RetrievalPlan, tenant: TenantKeys, view: TenantIndex) -> list[_IndexKind]:
        shelves = [
            _IndexKind(ARTIFACTS, tenant.artifact_cards, tenant.artifact_changes, view.artifacts),
            _IndexKind(KNOWLEDGE, tenant.knowledge_cards, tenant.knowledge_changes, view.knowledge, _KNOWN.decode),
        ]
        if plan.precedents:
            kept = (tenant.precedent_cards, tenant.precedent_changes, view.precedents, _RANKED.decode)
            shelves.append(_IndexKind(EVIDENCE, *kept))
        return shelves

    def _stock(self, kind: _IndexKind, offsets: Mapping[bytes, int]) -> None:
        """Reads all index entries in pages. Entries newer than `offsets` are read again later."""
        try:
            with reachable():
                cards = list(self._client.hscan_iter(kind.cards, count=PAGE))
        except DamagedError:
            cards = []
        kind.shelf.clear()
        kind.shelf.put((name.decode(), kind.card(card)) for name, card in cards)
        kind.shelf.offsets = _of(kind.topic, offsets)

    def _read(self, plan: RetrievalPlan, tenant: TenantKeys, places: _Places) -> MemorySnapshot | None:
        """Makes the second trip; returns None if a source changed since the first. Drops what turns out to be another
        subject's: two names may share a hash, and a session may get its subject after what was learnt from it."""

        owner = places.subjects.owner

        def own(source: Document | Contribution) -> bool:
            whose = source.subject or owner(source.session_id)
            return not whose or _sees(plan, whose)

        shared = places.subjects.visible(plan.subject) is None
        stated = (*places.knowledge, *places.policies)
        artifact, knowledge, contribution = tenant.artifact, tenant.knowledge, tenant.contribution
        records = [Wanted(hit, artifact, read_artifact) for hit in places.artifacts]
        records += [Wanted(hit, knowledge, read_knowledge) for hit in stated]
        told = places.precedents
        records += [Wanted(hit, lambda name: contribution(unquote(name)), read_contribution) for hit in told]
        said = [number for number, _ in places.episodes]
        failed: list[bytes] = []
        kept = self._sources.read(tenant, places.filling, said, records, failed if places.settle else None)
        if kept is None:
            return None
        documents, found = kept
        lost = [number for number, source in zip(said, documents, strict=True) if source is None]
        gone = [Lost(tenant, kind_of(key), unquote(key.rpartition(b":")[2].decode())) for key in failed]
        gone += [Lost(tenant, DOCUMENT, str(number)) for number in lost]
        for each in gone:
            self.noted.note(each)
        policies = _scored(places.policies, found)
        known = _scored(places.knowledge, found)
        named = {each.source.record_id for each in known}
        altered = tuple(each for each in policies if not each.sound and each.source.record_id not in named)
        return MemorySnapshot(
            state_version=places.state_version,
            whole=places.whole,
            named=places.named,
            completeness=places.completeness,
            failed=tuple(sorted(set(map(str, gone)))),
            newest=places.newest,
            episodes=tuple(
                FoundSource(source.model, score, True, source.made)
                for source, (_, score) in zip(documents, places.episodes, strict=True)
                if source is not None and source.model is not None and (shared or own(source.model))
            ),
            artifacts=_scored(places.artifacts, found),
            knowledge=(*known, *altered),
            policies=tuple(each.source for each in policies if each.sound),
            session=places.session,
            precedents=tuple(each for each in _scored(places.precedents, found) if each.sound and own(each.source)),
        )


def _sees(plan: RetrievalPlan, subject: str) -> bool:
    """Returns whether the request may see what belongs to a subject; an empty name is the whole tenant."""
    return is_visible(subject, plan.subject)


def _uncommon(plan: RetrievalPlan, view: TenantIndex) -> list[Related]:
    return [each for each in plan.related if each.stem not in view.common]


def _brought(view: TenantIndex, name: str, share: int, postings: bytes) -> QueryTerm:
    """Returns a term as of the snapshot, extended by new `postings`."""
    term = view.current(name) if not postings else None
    if term is None:
        term = view.term(name)
        view.episodes.refresh(term, postings)
        view.keep(name, term)
    return QueryTerm(term, share)


def _scored(hits: Sequence[Hit], found: Mapping[bytes, CachedSource]) -> tuple[FoundSource[Any], ...]:
    kept = ((hit.score, found[hit.digest]) for hit in hits)
    return tuple(FoundSource(source.model, score, source.sound, source.made) for score, source in kept if source.model)


def _follow(kind: _IndexKind, answers: Iterator[Any], offsets: Mapping[bytes, int]) -> bool:
    """Applies changed entries; returns False if some were missed and all must be read again."""
    shelf, known = kind.shelf, True
    for changed in list(islice(answers, len(shelf.offsets))):
        if changed is None:
            known = False
        else:
            cards = zip(*changed, strict=True)
            shelf.put((name.decode(), None if card is None else kind.card(card)) for name, card in cards)
    now = _of(kind.topic, offsets)
    known = known and now.keys() == shelf.offsets.keys()
    shelf.offsets = now
    return known


def _of(topic: str, offsets: Mapping[bytes, int]) -> dict[int, int]:
    """Returns partition → offset of a topic."""
    named = ((name.decode().rpartition("/"), at) for name, at in offsets.items())
    return {int(number): at for (where, _, number), at in named if where == topic}


def _pairs(flat: Sequence[bytes]) -> dict[bytes, int]:
    return {name: int(at) for name, at in zip(flat[::2], flat[1::2], strict=True)}


def state_version(offsets: Mapping[bytes, int], semantic: str = "") -> str:
    """Returns a hash of the tenant's last offset per partition and of the embedding model."""
    rows = [b"%b=%d" % row for row in sorted(offsets.items())]
    return sha256(b"\n".join([*rows, semantic.encode()] if semantic else rows)).hexdigest()[:16]
