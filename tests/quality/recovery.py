"""E5: after an error, is what the agent did next among the first things advised? Asked at each error event, with the
session so far; known are the sessions that were over when this one began, or, in five folds, all others but a fifth.

A team's tenants are taken as one, since each alone has few sessions. Baseline: what came most often after the same
error class of the same action, else of the class, else of any error.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from pipeline.advice.courses import Course, courses, under_way
from pipeline.advice.recovery import Done, Known, advise, recoveries, steps_of
from pipeline.contracts.event_types import ACTS, Role
from pipeline.contracts.evidence import Step
from pipeline.segments.naming import verb_of
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.sessions import Recorded, Session, Sessions

_FOLDS: Final = 5
_RANKS: Final = (1, 3)
Bars = dict[int, Bar]

_SETS: Final[tuple[tuple[str, str, Bars], ...]] = (
    ("swe", "by time", {1: Bar(least=0.40, proven=True), 3: Bar(least=0.70, proven=True)}),
    ("swe", "5-fold", {}),
    ("claude_code", "by time", {1: Bar(over=0.0), 3: Bar(over=0.0)}),
)


def task(sessions: Sessions) -> Iterator[Figure]:
    for name, split, bars in _SETS:
        cases = _cases(sessions.of(name), by_time=split == "by time")
        for rank in _RANKS:
            hits = [Case(session, wanted in advised[:rank], wanted in usual[:rank])
                    for session, wanted, advised, usual in cases]  # fmt: skip
            yield paired("recovery", f"{name} {split}", f"hit@{rank}", hits, bars.get(rank))


def _cases(recorded: Recorded, *, by_time: bool) -> list[tuple[str, str, list[str], list[str]]]:
    """Session, what was done next, what is advised, what the baseline says."""
    known = courses(recorded.of_kind("course"))
    found = []
    for now, past in _past_by_time(recorded, known) if by_time else _past_by_fold(recorded, known):
        for steps, wanted in errors(now):
            course = steps_of(under_way(steps))
            advised = [one.verb for one in advise(past.counts, course)[: _RANKS[-1]]]
            found.append((now.session_id, wanted, advised, past.usual(course)))
    return found


class Past:
    """What sessions taught, for the advice and for the baseline."""

    def __init__(self, learnt: Iterable[Course] = ()) -> None:
        self.counts = Known()
        self.after: defaultdict[tuple[str | None, ...], Counter[str]] = defaultdict(Counter)
        for course in learnt:
            self.learn(course)

    def learn(self, course: Course) -> None:
        steps = steps_of(course)
        self.counts.learn(steps)
        for error, then in recoveries(steps):
            for kind in _circumstances(error):
                self.after[kind][then] += 1

    def usual(self, steps: Sequence[Done]) -> list[str]:
        error = next(done for done in reversed(steps) if done.error is not None)
        seen = next((self.after[kind] for kind in _circumstances(error) if kind in self.after), Counter())
        return sorted(seen, key=lambda verb: (-seen[verb], verb))


def _circumstances(error: Done) -> list[tuple[str | None, ...]]:
    return [(error.error, error.verb), (error.error,), ()]


def _past_by_time(recorded: Recorded, known: Sequence[Course]) -> Iterator[tuple[Session, Past]]:
    of = {course.session_id: course for course in known}
    over = sorted(recorded.sessions, key=lambda s: (s.last_at, s.session_id))
    past, learnt = Past(), 0
    for now in recorded.sessions:
        while learnt < len(over) and over[learnt].last_at < now.first_at:
            if over[learnt].session_id in of:
                past.learn(of[over[learnt].session_id])
            learnt += 1
        yield now, past


def _past_by_fold(recorded: Recorded, known: Sequence[Course]) -> Iterator[tuple[Session, Past]]:
    def fold(session_id: str) -> int:
        return sha256(session_id.encode()).digest()[0] % _FOLDS

    for held_out in range(_FOLDS):
        past = Past(course for course in known if fold(course.session_id) != held_out)
        yield from ((now, past) for now in recorded.sessions if fold(now.session_id) == held_out)


def errors(session: Session) -> Iterator[tuple[Sequence[Step], str]]:
    for at, step in enumerate(session.steps):
        if step.role is Role.ERROR:
            then = next((verb_of(s.role, s.name) for s in session.steps[at + 1 :] if s.role in ACTS), "")
            if then:
                yield session.steps[: at + 1], then
