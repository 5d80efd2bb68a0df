"""Next action prediction from the tenant's and the session's habits (n-grams, Witten-Bell) and the agent's last words.

Input: past action traces, and the one of the running session with the agent's newest words. Output: verbs with their
shares. If tools are few and general, such as a shell and an editor, the goal says little, and the last actions and the
agent's own words say much. The model mixes how often each verb followed the last one, two and three actions. The
session's own habits gain weight as it grows. Words before an action raise or lower its share.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import exp, log
from typing import Final

from hmx_pipeline.advice.action_traces import ActionTrace, Recommendation, TracedAction
from hmx_pipeline.segments.action_names import silent

_OWN: Final = 0.5
_OWN_HALF: Final = 5  # actions after which a session's own habits have half of `_OWN`
_WORDS: Final = 0.6
"""Exponent of the word evidence. It is below 1 because words are not independent."""
_PRIOR: Final = 3.0
_SELDOM: Final = 2
START: Final = "*start"
"""Marks the start of a session, before its first action."""

Context = tuple[object, ...]
Counts = Counter[str]
"""Counts by verb; weighted ones are fractions."""


class CommandCounts:
    """Command counts over action traces. They are sums, so the order of learning does not matter."""

    def __init__(self, courses: Iterable[ActionTrace] = ()) -> None:
        self.followed = Followed()
        self.said: Counts = Counter()
        self.said_before: defaultdict[str, Counts] = defaultdict(Counter)
        """Word → verb that came after it → count."""
        self.told: Counts = Counter()
        """Verb → how often the agent said something before it."""
        for course in courses:
            self.learn(course)

    def learn(self, course: ActionTrace) -> None:
        acts = _acts(course)
        for place, act in enumerate(acts):
            self.followed.learn(contexts(acts[:place]), act.verb)
            if act.said:
                self.told[act.verb] += 1
                for word in set(act.said):
                    self.said[word] += 1
                    self.said_before[word][act.verb] += 1


class Followed:
    def __init__(self) -> None:
        self._verbs: defaultdict[Context, Counts] = defaultdict(Counter)
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
        """Smooth from the shortest context to the longest (Witten-Bell): the more different verbs followed a context,
        the less it weighs."""
        for context in contexts:
            verbs = self._verbs.get(context)
            if verbs:
                kinds, total = len(verbs), len(verbs) + self._times[context]
                before = {verb: (verbs[verb] + kinds * share) / total for verb, share in before.items()}
        return before


def joined(parts: Iterable[tuple[CommandCounts, float]], course: ActionTrace) -> CommandCounts:
    """Add up command counts with their weights, but only the parts that `next_command` reads for this course: adding
    all of them would dominate the cost. Counts of said words are not weighted."""
    whole, here, words = CommandCounts(), contexts(_acts(course)), sorted(set(course.said))
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
        to[verb] += weight * times  # type: ignore[assignment]  # a Counter of shares


def next_command(habits: CommandCounts, course: ActionTrace) -> list[Recommendation]:
    """Return verbs with their shares, likeliest first."""
    acts = _acts(course)
    own = Followed()
    for place, act in enumerate(acts):
        own.learn(contexts(acts[:place]), act.verb)
    verbs = sorted({*habits.followed.verbs, *own.verbs})
    here = contexts(acts)
    shares = habits.followed.shares(here, dict.fromkeys(verbs, 1 / max(len(verbs), 1)))
    if acts:
        say = _OWN * len(acts) / (len(acts) + _OWN_HALF)
        mine = own.shares(here, shares)
        shares = {verb: (1 - say) * share + say * mine[verb] for verb, share in shares.items()}
    shares = _worded(habits, shares, course.said)
    total = sum(sorted(shares.values())) or 1.0
    found = [Recommendation(verb, round(share / total, 6)) for verb, share in shares.items()]
    return sorted(found, key=lambda advised: (-advised.share, advised.verb))


def _worded(habits: CommandCounts, shares: dict[str, float], said: Iterable[str]) -> dict[str, float]:
    words = sorted(word for word in set(said) if habits.said[word] >= _SELDOM)
    total = sum(habits.told.values()) + len(shares) / 2
    gains: defaultdict[str, float] = defaultdict(float)
    for word in words:
        for verb, times in habits.said_before[word].items():
            gains[verb] += log(1 + times / (_PRIOR * (habits.told[verb] + 0.5) / total))
    return {verb: share * exp(_WORDS * gains.get(verb, 0.0)) for verb, share in shares.items()}


def contexts(acts: Sequence[TracedAction]) -> list[Context]:
    """Return the contexts, from none to the last three verbs. The result of the last action is part of all but the
    first two."""
    last = acts[-1] if acts else None
    ended = (START,) if last is None else (last.verb, last.ok, last.error)
    verbs = [act.verb for act in reversed(acts[-3:])] + [START] * 3
    return [(), (1, verbs[0]), (2, *ended), (3, *ended, verbs[1]), (4, *ended, *verbs[1:3])]


def _acts(course: ActionTrace) -> list[TracedAction]:
    return [act for act in course.acts if not silent(act.verb)]
