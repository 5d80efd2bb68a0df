"""Advice as packs give it: from the precedents that are found for the session, and from what memory keeps of it, its
last steps and what was said last. The question is what the user first asked for.

Beside: what followed most often after the last two actions; what came most often after the same error; the files of the
nearest sessions. Of long series of commands every fourth is asked about. A file's sessions are one team, since each
tenant alone has few.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

import orjson

from hmx_pipeline.advice.action_traces import courses, under_way
from hmx_pipeline.advice.next_after_error import steps_of
from hmx_pipeline.advice.recommendations import FILES, Advice, guide
from hmx_pipeline.advice.similar_sessions import precedent_terms, sought
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, Step
from hmx_pipeline.retrieval.memory_index import IndexEntry, MemoryIndex
from hmx_pipeline.retrieval.retrieval_plan import PRECEDENTS
from hmx_pipeline.retrieval.score import FoundSource
from hmx_pipeline.retrieval.searchable import session_step, spoken_step
from hmx_pipeline.segments.action_names import silent
from hmx_pipeline.segments.intent import GOAL_TURNS
from hmx_pipeline.segments.pairing import actions
from hmx_pipeline.store.changes import SESSION_MESSAGES, SESSION_STEPS
from tests.quality import files, recovery
from tests.quality.desks import DESKS, FILE, splits
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.sessions import Recorded, Session, Sessions, held_out
from tests.quality.trigrams import MOST, Trigrams, verbs_of

TASK: Final = "as served"
_EVERY: Final = 4
RANKS: Final = (1, MOST)
BARS: Final = {
    ("retail", "before a call", 1): Bar(least=0.78),
    ("airline", "before a call", 1): Bar(least=0.69),
    ("swe", "next command", 1): Bar(least=0.59),
    ("claude_code", "next command", 1): Bar(least=0.43),
    ("swe", "after an error", 1): Bar(least=0.43, proven=True),
    ("claude_code", "after an error", 1): Bar(least=0.33, proven=True),
    ("swe", "with a past", FILES): Bar(least=0.32, proven=True),
    ("claude_code", "changed before", FILES): Bar(least=0.24, over=0.0),
}


class Memory:
    """What a tenant's packs find precedents in."""

    def __init__(self, told: Iterable[Contribution] = ()) -> None:
        self._catalogue = MemoryIndex()
        self._told: dict[str, Contribution] = {}
        self.add(told)

    def add(self, told: Iterable[Contribution]) -> None:
        for one in told:
            self._told[one.contribution_id] = one
            terms = precedent_terms(orjson.loads(one.to_json()))
            counts = dict(sorted(Counter(terms).items()))
            card = IndexEntry(b"", one.pattern_type, one.last_at, (), counts)
            self._catalogue.put([(one.contribution_id, card)])

    def guide(self, steps: Sequence[Step], agent_id: str) -> Advice:
        asked, kept = _question(steps), _kept(steps)
        found = zip(sought(asked, kept), PRECEDENTS, strict=True)
        hits = (self._catalogue.best(terms, limit) for terms, limit in found)
        precedents = [FoundSource(self._told[hit.name], hit.score) for hit in chain.from_iterable(hits)]
        return guide(asked, kept, agent_id, precedents)

    def verbs(self, steps: Sequence[Step], agent_id: str) -> list[str]:
        return [step.verb for step in self.guide(steps, agent_id).steps]


def _question(steps: Sequence[Step]) -> str:
    return "\n".join([s.text for s in steps if s.role is Role.MESSAGE and s.actor == "user"][:GOAL_TURNS])


def _kept(steps: Sequence[Step]) -> list[Step]:
    """As the store keeps it of a session."""
    done = [kept for step in steps if (kept := session_step(step)) is not None]
    said = [kept for step in steps if (kept := spoken_step(step)) is not None]
    return sorted([*done[-SESSION_STEPS:], *said[-SESSION_MESSAGES:]], key=lambda step: step.index)


def task(sessions: Sessions) -> Iterator[Figure]:
    for desk in DESKS:
        yield from _hits(desk, "before a call", _desk(sessions, desk))
    for name, known in (("swe", _other_folds), ("claude_code", _finished_before)):
        yield from _hits(name, "next command", _commands(known(sessions.of(name))))
    for name in ("swe", "claude_code"):
        yield from _hits(name, "after an error", _errors(sessions.of(name)))
    for name in ("swe", "claude_code"):
        yield from _files(sessions.of(name))


Asked = tuple[str, str, Sequence[str], Sequence[str]]
"""Session, what was done, what is advised, what the baseline says."""


def _hits(name: str, when: str, asked: Iterable[Asked]) -> Iterator[Figure]:
    cases: dict[int, list[Case]] = defaultdict(list)
    for session_id, done, advised, usual in asked:
        for rank in RANKS:
            cases[rank].append(Case(session_id, done in advised[:rank], done in usual[:rank]))
    for rank, measured in cases.items():
        yield paired(TASK, name, f"{when}, hit@{rank}", measured, BARS.get((name, when, rank)))


def _acts(session: Session, every: int = 1) -> Iterator[tuple[int, str, list[str]]]:
    """Where an action begins, its verb, and those before it."""
    segment = Segment(tenant_id="", session_id="", agent_id="", segment_id="", steps=session.steps)
    acts = [action for action in actions(segment) if action.verb and not silent(action.verb)]
    for number, action in list(enumerate(acts))[::every]:
        yield action.position, action.verb, [before.verb for before in acts[:number]]


def _desk(sessions: Sessions, desk: str) -> Iterator[Asked]:
    told = _by_session(sessions.of(FILE), "course")
    for train, test in splits(sessions, desk):
        memory = Memory(chain.from_iterable(told[course.session_id] for course in train))
        trigrams = Trigrams()
        for course in train:
            trigrams.learn(verbs_of(course))
        for one in test:
            for at, verb, before in _acts(one.session):
                advised = memory.verbs(one.session.steps[:at], one.session.agent_id)
                yield one.session.session_id, verb, advised, trigrams.following(before)


Known = tuple[Memory, Trigrams, Session]


def _commands(known: Iterable[Known]) -> Iterator[Asked]:
    for memory, trigrams, session in known:
        for at, verb, before in _acts(session, _EVERY):
            advised = memory.verbs(session.steps[:at], session.agent_id)
            yield session.session_id, verb, advised, trigrams.following(before)


def _other_folds(recorded: Recorded) -> Iterator[Known]:
    told = _by_session(recorded, "course")
    asked = [session for session in recorded.sessions if session.session_id in told]
    for train, test in held_out(asked, lambda session: session.session_id):
        memory, trigrams = Memory(), Trigrams()
        for name in sorted(train):
            _learn(memory, trigrams, told[name])
        yield from ((memory, trigrams, session) for session in test)


def _finished_before(recorded: Recorded) -> Iterator[Known]:
    told = _by_session(recorded, "course")
    memory, trigrams = Memory(), Trigrams()
    asked = [session for session in recorded.sessions if session.session_id in told]
    over = sorted(asked, key=lambda session: (session.last_at, session.session_id), reverse=True)
    for session in asked:
        while over and over[-1].last_at < session.first_at:
            _learn(memory, trigrams, told[over.pop().session_id])
        yield memory, trigrams, session


def _learn(memory: Memory, trigrams: Trigrams, told: Sequence[Contribution]) -> None:
    memory.add(told)
    for course in courses(told):
        trigrams.learn(verbs_of(course))


def _errors(recorded: Recorded) -> Iterator[Asked]:
    """At each error event, with what was over when the session began."""
    for memory, past, now in _past(recorded):
        for steps, done in recovery.errors(now):
            usual = past.usual(steps_of(under_way(steps)))
            yield now.session_id, done, memory.verbs(steps, now.agent_id), usual


def _past(recorded: Recorded) -> Iterator[tuple[Memory, recovery.Past, Session]]:
    told = _by_session(recorded, "course")
    memory, past = Memory(), recovery.Past()
    over = sorted(recorded.sessions, key=lambda s: (s.last_at, s.session_id), reverse=True)
    for now in recorded.sessions:
        while over and over[-1].last_at < now.first_at:
            learnt = told.get(over.pop().session_id, [])
            memory.add(learnt)
            for course in courses(learnt):
                past.learn(course)
        yield memory, past, now


def _files(recorded: Recorded) -> Iterator[Figure]:
    """Of the files that a session changes, how many are among those named at its beginning."""
    told = _by_session(recorded, "touched")
    found: dict[str, list[Case]] = defaultdict(list)
    for case in files.cases(recorded):
        memory = Memory(chain.from_iterable(told.get(past.session_id, ()) for past in case.over))
        steps = next([step] for step in case.now.steps if step.role is Role.MESSAGE and step.actor == "user")
        likely = memory.guide(steps, case.now.agent_id).files
        named = likely.paths if likely is not None else ()
        for of in ("changed before", "with a past"):
            if wanted := case.wanted()[of]:
                shares = [len(wanted.intersection(paths)) / len(wanted) for paths in (named, case.usual[:FILES])]
                found[of].append(Case(case.session_id, *shares))
    for of, measured in found.items():
        yield paired(TASK, recorded.name, f"files, R@{FILES} {of}", measured, BARS.get((recorded.name, of, FILES)))


def _by_session(recorded: Recorded, kind: str) -> dict[str, list[Contribution]]:
    told: dict[str, list[Contribution]] = defaultdict(list)
    for one in recorded.of_kind(kind):
        told[one.session_id].append(one)
    return told
