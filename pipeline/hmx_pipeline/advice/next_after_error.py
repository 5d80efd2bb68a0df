"""Prediction of the next action after an error, from what followed earlier errors.

Input: action traces of a tenant's sessions and of the running one, and what habit says comes next (`next_command`).
Output: actions with their shares. All counts are sums over sessions, so the order of arrival does not matter. The
estimate backs off from the most specific circumstances (error class and failing verb, then its tool, then the class,
then any error) to less specific ones. The session's own recoveries count several times. Habit, and how often this
session has done an action, raise or lower its share.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.advice.action_traces import ActionTrace, Recommendation
from hmx_pipeline.segments.action_names import tool_of

_OWN_ERRORS: Final = 3
"""Weight of the session's own recoveries: each counts like so many of other sessions."""
_OWN: Final = 0.25
_OWN_HALF: Final = 5  # actions after which a session's own habits have half of `_OWN`
_FLOOR: Final = 0.05
_ERRORS: Final = 20
_CLASS: Final = 6
_HABIT: Final = 0.4
"""Exponent of the share that habit gives an action."""
_UNUSUAL: Final = 1e-4
"""Added to that share, so that what habit has never seen stays possible."""


class RecoveryStep(NamedTuple):
    """An action, or an error that belongs to no action; then the verb is empty."""

    verb: str
    error: str | None = None
    """Class of the error, which may be empty; None if nothing failed."""


Circumstances = tuple[str, ...]


class AfterErrorCounts:
    def __init__(self, sessions: Iterable[Sequence[RecoveryStep]] = ()) -> None:
        self.verbs: Counter[str] = Counter()
        self.recovered: defaultdict[Circumstances, Counter[str]] = defaultdict(Counter)
        """What is known of an error (`_kinds`) → verb that followed → count."""
        for steps in sessions:
            self.learn(steps)

    def learn(self, steps: Sequence[RecoveryStep]) -> None:
        self.verbs.update(done.verb for done in steps if done.verb)
        for error, then in recoveries(steps):
            for kind in _kinds(error):
                self.recovered[kind][then] += 1


def steps_of(course: ActionTrace) -> list[RecoveryStep]:
    """Return actions and errors in order."""
    faults: defaultdict[int, list[RecoveryStep]] = defaultdict(list)
    for fault in course.faults:
        faults[min(fault.at, len(course.acts))].append(RecoveryStep("", fault.error))
    steps: list[RecoveryStep] = []
    for at, act in enumerate(course.acts):
        steps += faults[at]
        steps.append(RecoveryStep(act.verb, act.error if act.ok is False or act.error else None))
    return steps + faults[len(course.acts)]


def recoveries(steps: Sequence[RecoveryStep]) -> Iterator[tuple[RecoveryStep, str]]:
    """Yield each error with the first verb after it. An error at the end yields nothing."""
    waiting: list[RecoveryStep] = []
    for done in steps:
        if done.verb:
            yield from ((error, done.verb) for error in waiting)
            waiting = []
        if done.error is not None:
            waiting.append(done)


def advise(
    counts: AfterErrorCounts, steps: Sequence[RecoveryStep], habit: Iterable[Recommendation] = ()
) -> list[Recommendation]:
    """Rank what to do after the session's last error, likeliest first, ties by name. `habit` is what would come next
    whatever the error. Empty if nothing failed or nothing is known."""
    failed = next((done for done in reversed(steps) if done.error is not None), None)
    verbs = [done.verb for done in steps if done.verb]
    vocabulary = sorted(counts.verbs.keys() | set(verbs))
    if failed is None or not vocabulary:
        return []
    total = counts.verbs.total() + _FLOOR * len(vocabulary)
    usual = {verb: (counts.verbs[verb] + _FLOOR) / total for verb in vocabulary}
    likely = _after_error(counts, failed, steps, usual)
    expected = dict(habit)
    scores = {verb: likely[verb] * (expected.get(verb, 0.0) + _UNUSUAL) ** _HABIT for verb in vocabulary}
    sum_of_scores = sum(scores.values())
    own, say = Counter(verbs), _OWN * len(verbs) / (len(verbs) + _OWN_HALF)
    shares = (
        Recommendation(verb, round((1 - say) * scores[verb] / sum_of_scores + say * own[verb] / max(1, len(verbs)), 6))
        for verb in vocabulary
    )
    return sorted(shares, key=lambda advised: (-advised.share, advised.verb))


def _after_error(
    counts: AfterErrorCounts, failed: RecoveryStep, steps: Sequence[RecoveryStep], usual: Mapping[str, float]
) -> Mapping[str, float]:
    own = AfterErrorCounts([steps])
    shares = usual
    for kind in _kinds(failed):
        seen = Counter(counts.recovered.get(kind, {}))
        for verb, count in own.recovered.get(kind, {}).items():
            seen[verb] += _OWN_ERRORS * count
        shares = _shares(seen, shares, _CLASS if kind else _ERRORS)
    return shares


def _kinds(error: RecoveryStep) -> list[Circumstances]:
    """Return the circumstances of an error, from the least specific to the most."""
    kind = error.error or ""
    return [(), (kind,), (kind, "tool", tool_of(error.verb) if error.verb else ""), (kind, "verb", error.verb)]


def _shares(seen: Mapping[str, int], expected: Mapping[str, float], trust: int) -> Mapping[str, float]:
    """Smooth counts towards the expected shares, which weigh as much as `trust` observations."""
    if not seen:
        return expected
    total = sum(seen.values()) + trust
    return {verb: (seen.get(verb, 0) + trust * share) / total for verb, share in expected.items()}
