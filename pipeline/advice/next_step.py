"""next_step: what sessions like this one did next. In: experience, the course of a session that is under way. Out:
verbs with their shares, `END` among them where being done is an answer. Nothing fails.

Every position of every known course votes for what came after it: the more, the more alike the goals are, the longer
the two have done the same, and if both have, or both have not, something left of the list that they are looking
through. What the last result says and what the user has said make a verb more or less likely than it is anyway.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from pipeline.advice.courses import Act, Advised, Course
from pipeline.advice.experience import Experience
from pipeline.compiler.course import LEFT, NONE_LEFT
from pipeline.segments.naming import silent

END: Final = ""
START: Final = "*start"
_NEWS: Final = "*news"
_ANYONE: Final = 0.05
"""What a session shows that wanted something else."""
_FAILED: Final = 0.5
_SAME: Final = 8.0
"""So much more a position counts for each action that was the same just before it."""
_REACH: Final = 3
_OTHER_LIST: Final = 1 / 6
_PRIOR: Final = 3.0
"""So many cases of what is usual stand behind everything that is said."""
_FOUND: Final = 0.3
_HEARD: Final = 0.2
_HEARD_NOW: Final = 0.5
"""The powers of the evidence: what is said is said in many words, which are not independent."""
_FOUND_SHARE: Final = 0.2
_HEARD_SHARE: Final = 0.02
"""What results say less often after an action is about this or that case, and what users do is chance."""


class Position(NamedTuple):
    """A place between two actions of a course."""

    before: tuple[str, ...]
    """The last verbs, the newest first."""
    then: str
    left: str
    """Whether something is left of the list that the last action looked through."""
    found: frozenset[str]
    heard: frozenset[str]
    """What the user had said when the last result came."""
    heard_now: frozenset[str]
    """What the user had said when the next action began, and whether it was news."""


Place = tuple[tuple[str, ...], str]
"""`before` and `left` of a position."""


class Steps:
    """Every position of the courses, and what was said there."""

    def __init__(self, known: Experience) -> None:
        self.known = known
        own = [positions(course) for course in known.courses]
        self.places: list[Counter[tuple[Place, str]]] = [
            Counter(((position.before, position.left), position.then) for position in of_one) for of_one in own
        ]
        """Of each course: how often it did what at which place."""
        everywhere = [position for of_one in own for position in of_one]
        acting = [position for position in everywhere if position.then != END]
        self.found = Evidence([(p, p.found) for p in everywhere], _FOUND_SHARE)
        self.heard = Evidence([(p, p.heard) for p in everywhere], _HEARD_SHARE)
        self.heard_now = Evidence([(p, p.heard_now) for p in acting], _HEARD_SHARE)


class Evidence:
    """How often something was said before which verb, for each verb before that."""

    def __init__(self, said: Sequence[tuple[Position, frozenset[str]]], least: float) -> None:
        self._least = least
        self._times: Counter[str] = Counter()
        self._told: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._times_before: Counter[tuple[str, str]] = Counter()
        self._told_before: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        for position, words in said:
            last, both = position.before[0], (position.before[0], position.then)
            self._times[last] += 1
            self._told[last].update(words)
            self._times_before[both] += 1
            self._told_before[both].update(words)

    def telling(self, last: str, words: Iterable[str]) -> list[str]:
        told, least = self._told[last], self._least * self._times[last]
        return sorted(word for word in words if told[word] >= least)

    def ratio(self, last: str, then: str, words: Iterable[str]) -> float:
        """How much likelier `then` is where this is said than it is anyway; what was said seldom says little."""
        usual = self._times_before[last, then] / (self._times[last] or 1)
        if not usual:
            return 1.0
        told, before = self._told[last], self._told_before[last, then]
        ratio = 1.0
        for word in words:
            ratio *= (before[word] + _PRIOR * usual) / (told[word] + _PRIOR) / usual
        return ratio


def positions(course: Course) -> list[Position]:
    """One before each action, and one after the last."""
    acts = [act for act in course.acts if not silent(act.verb)]
    return [_position(course, acts, place) for place in range(len(acts) + 1)]


def _position(course: Course, acts: Sequence[Act], place: int) -> Position:
    last = acts[place - 1] if place else None
    asked = acts[place].asked if place < len(acts) else -1
    listed = {LEFT, NONE_LEFT} & set(last.found) if last is not None else set()
    news = {_NEWS} if last is not None and (asked > last.asked or (asked < 0 and course.waiting)) else set()
    before = tuple(act.verb for act in reversed(acts[max(0, place - _REACH) : place]))
    return Position(
        before=before if len(before) == _REACH else (*before, START),
        then=acts[place].verb if place < len(acts) else END,
        left=min(listed, default=""),
        found=frozenset() if last is None else frozenset((*last.found, f"*{last.ok}", f"*{last.error}")) - listed,
        heard=_heard(course, asked if last is None else last.asked),
        heard_now=_heard(course, asked) | news,
    )


def _heard(course: Course, asked: int) -> frozenset[str]:
    return frozenset(course.asked[asked]) if asked >= 0 else frozenset(course.heard)


def next_step(steps: Steps, course: Course, *, acting: bool = False) -> list[Advised]:
    """With `acting` the session is about to act: the newest message has been heard, and it does not end here."""
    here = positions(course)[-1]
    last = here.before[0]
    votes = _votes(steps, course, here)
    if acting:
        votes.pop(END, None)
    told = [(steps.found, steps.found.telling(last, here.found), _FOUND)]
    if acting:
        told.append((steps.heard_now, steps.heard_now.telling(last, here.heard_now), _HEARD_NOW))
    else:
        told.append((steps.heard, steps.heard.telling(last, here.heard), _HEARD))
    for verb in votes:
        for evidence, words, power in told:
            votes[verb] *= evidence.ratio(last, verb, words) ** power
    total = sum(sorted(votes.values())) or 1.0
    shares = [Advised(verb, round(vote / total, 6)) for verb, vote in votes.items()]
    return sorted(shares, key=lambda advised: (-advised.share, advised.verb))


def _votes(steps: Steps, course: Course, here: Position) -> dict[str, float]:
    likeness = steps.known.likeness(course.goal, course.classes)
    votes: dict[str, float] = defaultdict(float)
    alike: dict[Place, float] = {}
    for like, other, places in zip(likeness, steps.known.courses, steps.places, strict=True):
        weight = (_ANYONE + like * like) * (_FAILED if other.success is False else 1.0)
        for (place, then), times in places.items():
            if place not in alike:
                before, left = place
                alike[place] = _SAME ** _shared(here.before, before) * (1.0 if left == here.left else _OTHER_LIST)
            votes[then] += weight * alike[place] * times
    return votes


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    shared = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        shared += 1
    return shared
