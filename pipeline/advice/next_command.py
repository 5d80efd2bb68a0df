"""next_command: what is likely done next by habit, whatever the goal. In: courses, and the one under way with what the
agent has just said. Out: verbs with their shares. Nothing fails.

Where tools are few and general, such as a shell and an editor, goals tell little, and the last actions and the agent's
own words much. How often what followed the last one, two, three actions is mixed as Witten and Bell do; the session's
own habits come in as it grows; words before an action make it more or less likely.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Final

from pipeline.advice.courses import Act, Advised, Course
from pipeline.segments.naming import silent

_OWN: Final = 0.5
_OWN_HALF: Final = 5  # actions after which a session's own habits have half of that say
_WORDS: Final = 0.6
"""The power of the words: they are not independent."""
_PRIOR: Final = 3.0
_SELDOM: Final = 2
START: Final = "*start"
"""Stands before a session's first action."""

Context = tuple[object, ...]
Counts = defaultdict[str, float]
"""Who only asks uses `get`: what is looked up otherwise is there from then on, and changes the next answer."""


def _counts() -> Counts:
    return defaultdict(float)


class Habits:
    """Sums over courses, so in whatever order they were learnt."""

    def __init__(self, courses: Iterable[Course] = ()) -> None:
        self.followed = Followed()
        self.said = _counts()
        self.said_before: defaultdict[str, Counts] = defaultdict(_counts)
        """By word, then by the verb that came after it."""
        self.told = _counts()
        """Verbs that the agent said something before."""
        for course in courses:
            self.learn(course)

    def learn(self, course: Course) -> None:
        acts = _acts(course)
        for place, act in enumerate(acts):
            self.followed.learn(contexts(acts[:place]), act.verb)
            if act.said:
                self.told[act.verb] += 1
                for word in set(act.said):
                    self.said[word] += 1
                    self.said_before[word][act.verb] += 1


class Followed:
    """How often which verb followed in which context."""

    def __init__(self) -> None:
        self._verbs: defaultdict[Context, Counts] = defaultdict(_counts)
        self._times: defaultdict[Context, float] = defaultdict(float)

    def learn(self, contexts: Iterable[Context], verb: str) -> None:
        for context in contexts:
            self._verbs[context][verb] += 1
            self._times[context] += 1

    def add(self, other: "Followed", contexts: Iterable[Context], weight: float) -> None:
        for context in contexts:
            if context in other._verbs:
                _add(self._verbs[context], other._verbs[context], weight)
                self._times[context] += weight * other._times[context]

    @property
    def verbs(self) -> list[str]:
        return sorted(self._verbs[()])

    def shares(self, contexts: Sequence[Context], before: dict[str, float]) -> dict[str, float]:
        """From the shortest context to the longest: the more different verbs followed, the less is it believed."""
        for context in contexts:
            verbs = self._verbs.get(context)
            if verbs:
                kinds, total = len(verbs), len(verbs) + self._times[context]
                before = {verb: (verbs.get(verb, 0) + kinds * share) / total for verb, share in before.items()}
        return before


def joined(parts: Iterable[tuple[Habits, float]], course: Course) -> Habits:
    """The sum of habits, each with its weight, as far as `next_command` asks for it here: of all it would be the most
    of the work. A word counts as said as often as it was."""
    whole, here, words = Habits(), contexts(_acts(course)), sorted(set(course.said))
    for part, weight in parts:
        _add(whole.told, part.told, weight)
        whole.followed.add(part.followed, here, weight)
        for word in words:
            if word in part.said:
                whole.said[word] += part.said[word]
                _add(whole.said_before[word], part.said_before[word], weight)
    return whole


def _add(to: Counts, counts: Mapping[str, float], weight: float) -> None:
    for verb, times in counts.items():
        to[verb] += weight * times


def next_command(habits: Habits, course: Course) -> list[Advised]:
    acts = _acts(course)
    own = Followed()
    for place, act in enumerate(acts):
        own.learn(contexts(acts[:place]), act.verb)
    return advise(habits, own, acts, course.said)


def advise(habits: Habits, own: Followed, acts: Sequence[Act], said: Iterable[str]) -> list[Advised]:
    """`own`: the habits of the session that has done `acts`."""
    verbs = sorted({*habits.followed.verbs, *own.verbs})
    here = contexts(acts)
    shares = habits.followed.shares(here, dict.fromkeys(verbs, 1 / max(len(verbs), 1)))
    if acts:
        say = _OWN * len(acts) / (len(acts) + _OWN_HALF)
        mine = own.shares(here, shares)
        shares = {verb: (1 - say) * share + say * mine[verb] for verb, share in shares.items()}
    shares = _worded(habits, shares, said)
    total = sum(sorted(shares.values())) or 1.0
    found = [Advised(verb, round(share / total, 6)) for verb, share in shares.items()]
    return sorted(found, key=lambda advised: (-advised.share, advised.verb))


def _worded(habits: Habits, shares: dict[str, float], said: Iterable[str]) -> dict[str, float]:
    words = sorted(word for word in set(said) if habits.said.get(word, 0) >= _SELDOM)
    total = sum(habits.told.values()) + len(shares) / 2
    gains: defaultdict[str, float] = defaultdict(float)
    for word in words:
        for verb, times in habits.said_before[word].items():
            gains[verb] += log(1 + times / (_PRIOR * (habits.told.get(verb, 0) + 0.5) / total))
    return {verb: share * exp(_WORDS * gains.get(verb, 0.0)) for verb, share in shares.items()}


def contexts(acts: Sequence[Act]) -> list[Context]:
    """From nothing to the last three verbs; how the last one went comes in once that much is known of it."""
    last = acts[-1] if acts else None
    ended = (START,) if last is None else (last.verb, last.ok, last.error)
    verbs = [act.verb for act in reversed(acts[-3:])] + [START] * 3
    return [(), (1, verbs[0]), (2, *ended), (3, *ended, verbs[1]), (4, *ended, *verbs[1:3])]


def _acts(course: Course) -> list[Act]:
    return [act for act in course.acts if not silent(act.verb)]
