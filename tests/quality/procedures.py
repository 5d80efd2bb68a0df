"""Does memory know how it is done? Asked by a goal alone, against what the successful session that had it did.

Beside the sequence most successful sessions ran, and that of the successful session whose goal is nearest by BM25. The
compiled procedure alone is asked too: that of the task which the session with the nearest goal is a run of.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import log
from typing import Final

from pipeline.advice.courses import Course
from pipeline.advice.experience import Experience, Variant, variant_of
from pipeline.advice.procedure import f1, order_shared, procedure
from pipeline.compiler import task_schema
from pipeline.compiler.candidate import candidate
from pipeline.compiler.tasks import runs
from pipeline.contracts.evidence import Contribution
from tests.quality.desks import DESKS, FILE, splits
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.sessions import Sessions

TASK: Final = "procedure"
ALONE: Final = "task_schema"
METRICS: Final = ("tool-set F1", "bigram F1", "LCS")
SHOWN: Final = (*((metric, "nearest") for metric in METRICS), (METRICS[0], "modal"))
BARS: Final = {
    (TASK, "retail", "tool-set F1", "nearest"): Bar(least=0.80),
    (TASK, "retail", "bigram F1", "nearest"): Bar(least=0.62),
    (TASK, "retail", "LCS", "nearest"): Bar(least=0.70),
    (TASK, "airline", "tool-set F1", "nearest"): Bar(least=0.60, over=0.0),
    (TASK, "airline", "tool-set F1", "modal"): Bar(least=0.60, over=0.0),
}


def task(sessions: Sessions) -> Iterator[Figure]:
    for desk in DESKS:
        cases: dict[tuple[str, str, str], list[Case]] = defaultdict(list)
        told = [c for c in sessions.of(FILE).of_kind(runs.NAME) if c.tenant_id == DESKS[desk]]
        for train, test in splits(sessions, desk):
            known = Experience(train)
            good = [course for course in train if course.success and variant_of(course)]
            nearest, usual = Nearest(good), modal(good)
            compiled = Compiled(told, train)
            for asked in test:
                done = variant_of(asked.course)
                if not asked.success or not done:
                    continue
                goal, classes = asked.course.goal, asked.course.classes
                advised = {TASK: procedure(known, goal, classes), ALONE: compiled.variant(goal)}
                for name, sequence in (("nearest", nearest.variant(goal)), ("modal", usual)):
                    baseline = scores(sequence, done)
                    for task_name, variant in advised.items():
                        for metric, value, base in zip(METRICS, scores(variant, done), baseline, strict=True):
                            cases[task_name, metric, name].append(Case(asked.task, value, base))
        for task_name in (TASK, ALONE):
            for metric, name in SHOWN:
                measured, bar = cases[task_name, metric, name], BARS.get((task_name, desk, metric, name))
                yield paired(task_name, desk, f"{metric} (base: {name})", measured, bar)


def scores(said: Variant, done: Variant) -> tuple[float, ...]:
    return f1(set(said), set(done)), f1(set(pairwise(said)), set(pairwise(done))), order_shared(said, done)


def modal(good: Iterable[Course]) -> Variant:
    counts = Counter(map(variant_of, good))
    return min(counts, key=lambda variant: (-counts[variant], variant))


class Compiled:
    """The procedures that the runs of these sessions are compiled to."""

    def __init__(self, told: Iterable[Contribution], known: Sequence[Course]) -> None:
        names = {course.session_id for course in known}
        self._of: dict[str, Variant] = {}
        for pattern, own in runs.group([c for c in told if c.session_id in names]).items():
            made = candidate(own, pattern.type) if pattern.type == task_schema.NAME else None
            steps = made.content["steps"] if made is not None else ()
            variant = tuple(tool for step in steps for tool in step["tools_used"])
            self._of.update({c.session_id: variant for c in own if variant})
        self._nearest = Nearest([course for course in known if course.session_id in self._of])

    def variant(self, goal: Iterable[str]) -> Variant:
        return self._of[self._nearest.course(goal).session_id] if self._of else ()


class Nearest:
    """The session whose goal has the highest BM25 score (k1 1.2, b .75)."""

    def __init__(self, good: Sequence[Course]) -> None:
        self.good = good
        self.spread = Counter(word for course in good for word in course.goal)
        self.length = sum(len(course.goal) for course in good) / max(len(good), 1)

    def variant(self, goal: Iterable[str]) -> Variant:
        return variant_of(self.course(goal))

    def course(self, goal: Iterable[str]) -> Course:
        words = sorted(goal)
        return max(self.good, key=lambda course: (self._score(words, course.goal), course.session_id))

    def _score(self, words: Sequence[str], document: frozenset[str]) -> float:
        norm = 2.2 / (1 + 1.2 * (0.25 + 0.75 * len(document) / self.length))
        return sum(self._rarity(word) * norm for word in words if word in document)

    def _rarity(self, word: str) -> float:
        return log(1 + (len(self.good) - self.spread[word] + 0.5) / (self.spread[word] + 0.5))
