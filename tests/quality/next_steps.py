"""Does memory know what comes next? Asked at every action of held-out sessions.

Desks: after the last result, when ending is an answer too, and just before the action, when the user's newest message
is known. The first time is when the user's first two messages are there. Commands: just before the action, with what
the agent said before it; a file's sessions are one team, since each tenant alone has few.

Beside trigrams: what followed most often after the last two actions, else after the last, else at all.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pipeline.advice.courses import Advised, Course, courses, under_way
from pipeline.advice.experience import Experience
from pipeline.advice.next_command import Followed, Habits, advise, contexts
from pipeline.advice.next_step import END, Steps, next_step
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Segment
from pipeline.segments.intent import GOAL_TURNS
from pipeline.segments.naming import silent
from pipeline.segments.pairing import actions
from tests.quality.desks import DESKS, splits
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.sessions import Recorded, Session, Sessions, held_out

TASK: Final = "next step"
RANKS: Final = (1, 3)
BARS: Final = {
    ("retail", "after a result", 1): Bar(least=0.69),
    ("retail", "after a result", 3): Bar(least=0.88),
    ("airline", "after a result", 1): Bar(over=0.05),
    ("retail", "before a call", 1): Bar(least=0.79),
    ("retail", "before a call", 3): Bar(least=0.92),
    ("swe", "next command", 1): Bar(least=0.57),
    ("claude_code", "next command", 1): Bar(least=0.44),
}
Query = tuple[Course, str]


def task(sessions: Sessions) -> Iterator[Figure]:
    for desk in DESKS:
        yield from _desk(sessions, desk)
    for name, by_time in (("swe", False), ("claude_code", True)):
        yield from _commands(sessions.of(name), by_time=by_time)


def _desk(sessions: Sessions, desk: str) -> Iterator[Figure]:
    cases: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for train, test in splits(sessions, desk):
        steps = Steps(Experience(train))
        usual = {when: Trigrams(ending=when == "after a result") for when in ("after a result", "before a call")}
        for course in train:
            for trigrams in usual.values():
                trigrams.learn(verbs_of(course))
        for asked in test:
            after, before = queries(asked.session)
            for when, told in (("after a result", after), ("before a call", before)):
                for course, truth in told:
                    advised = next_step(steps, course, acting=when == "before a call")
                    baseline = usual[when].following(verbs_of(course))
                    _count(cases, when, asked.session.session_id, truth, advised, baseline)
    for (when, rank), measured in cases.items():
        yield paired(TASK, desk, f"{when}, hit@{rank}", measured, BARS.get((desk, when, rank)))


def _count(
    cases: dict[tuple[str, int], list[Case]],
    when: str,
    cluster: str,
    truth: str,
    advised: Sequence[Advised],
    baseline: Sequence[str],
) -> None:
    for rank in RANKS:
        hit = truth in [one.verb for one in advised[:rank]]
        cases[when, rank].append(Case(cluster, hit, truth in baseline[:rank]))


def queries(session: Session) -> tuple[list[Query], list[Query]]:
    """The session so far, and what it did next: after each result, and before each action."""
    steps = session.steps
    segment = Segment(tenant_id="", session_id="", agent_id="", segment_id="", steps=steps)
    acts = [action for action in actions(segment) if action.verb and not silent(action.verb)]
    places = {step.event_id: place for place, step in enumerate(steps)}
    told = [place for place, step in enumerate(steps) if step.role is Role.MESSAGE and step.actor == "user"]
    end = min([1 + told[:GOAL_TURNS][-1], *(action.position for action in acts[:1])])
    after, before = [], []
    for action in acts:
        after.append((under_way(steps[:end]), action.verb))
        before.append((under_way(steps[: action.position]), action.verb))
        end = 1 + max(places[event] for event in action.events)
    after.append((under_way(steps[:end]), END))
    return after, before


def verbs_of(course: Course) -> list[str]:
    return [act.verb for act in course.acts if not silent(act.verb)]


def _commands(recorded: Recorded, *, by_time: bool) -> Iterator[Figure]:
    known = {course.session_id: course for course in courses(recorded.of_kind("course"))}
    asked = [session for session in recorded.sessions if session.session_id in known]
    cases: dict[tuple[str, int], list[Case]] = defaultdict(list)
    for habits, trigrams, session in _finished_before(asked, known) if by_time else _other_folds(asked, known):
        acts = [act for act in known[session.session_id].acts if not silent(act.verb)]
        own = Followed()
        for place, act in enumerate(acts):
            so_far = acts[:place]
            advised = advise(habits, own, so_far, act.said)
            baseline = trigrams.following([done.verb for done in so_far])
            _count(cases, "next command", session.session_id, act.verb, advised, baseline)
            own.learn(contexts(so_far), act.verb)
    for (when, rank), measured in cases.items():
        yield paired(TASK, recorded.name, f"{when}, hit@{rank}", measured, BARS.get((recorded.name, when, rank)))


Learnt = tuple[Habits, "Trigrams", Session]


def _other_folds(asked: Sequence[Session], known: dict[str, Course]) -> Iterator[Learnt]:
    for train, test in held_out(asked, lambda session: session.session_id):
        habits, trigrams = Habits(), Trigrams(ending=False)
        _learn(habits, trigrams, (known[name] for name in sorted(train)))
        yield from ((habits, trigrams, session) for session in test)


def _finished_before(asked: Sequence[Session], known: dict[str, Course]) -> Iterator[Learnt]:
    """Each session is asked with what was over when it began."""
    habits, trigrams = Habits(), Trigrams(ending=False)
    over = sorted(asked, key=lambda session: (session.last_at, session.session_id), reverse=True)
    for session in asked:
        while over and over[-1].last_at < session.first_at:
            _learn(habits, trigrams, [known[over.pop().session_id]])
        yield habits, trigrams, session


def _learn(habits: Habits, trigrams: "Trigrams", learnt: Iterable[Course]) -> None:
    for course in learnt:
        habits.learn(course)
        trigrams.learn(verbs_of(course))


class Trigrams:
    def __init__(self, *, ending: bool) -> None:
        self._ending = ending
        self._after: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)

    def learn(self, verbs: Sequence[str]) -> None:
        whole = ["*", "*", *verbs, *([END] if self._ending else [])]
        for place in range(2, len(whole)):
            for length in range(3):
                self._after[tuple(whole[place - length : place])][whole[place]] += 1

    def following(self, verbs: Sequence[str]) -> list[str]:
        whole = ["*", "*", *verbs]
        found: dict[str, None] = {}
        for length in (2, 1, 0):
            counts = self._after.get(tuple(whole[len(whole) - length :]), Counter())
            found.update(dict.fromkeys(sorted(counts, key=lambda verb: (-counts[verb], verb))))
            if len(found) >= RANKS[-1]:
                break
        return list(found)
