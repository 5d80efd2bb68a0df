"""Does memory know how it is done? Asked by a goal alone, against what the successful session that had it did.

The answer is the first procedure of the pack for that goal, from a real Redis that holds what was learnt of the other
tasks' sessions. Beside: the sequence most successful sessions ran, and that of the successful session whose goal is
nearest by BM25.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from math import log
from typing import Final, TypeVar

from hmx_pipeline.advice.action_traces import ActionTrace
from hmx_pipeline.compiler import task_schema
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.segments.action_names import silent
from hmx_pipeline.segments.intent import GOAL_TURNS
from tests.quality.desks import DESKS, FILE, splits
from tests.quality.figures import Bar, Case, Figure, paired
from tests.quality.remembered import Remembered, both_stages, memory
from tests.quality.sessions import Session, Sessions

T = TypeVar("T")
Variant = tuple[str, ...]

TASK: Final = "procedure"
METRICS: Final = ("tool-set F1", "bigram F1", "LCS")
SHOWN: Final = (*((metric, "nearest") for metric in METRICS), (METRICS[0], "modal"))
_BUDGET: Final = 4_096
BARS: Final = {
    ("retail", "tool-set F1", "modal"): Bar(least=0.70),
    ("airline", "tool-set F1", "modal"): Bar(over=0.0),
}


def task(sessions: Sessions) -> Iterator[Figure]:
    for desk in DESKS:
        cases: dict[tuple[str, str], list[Case]] = defaultdict(list)
        for fold, (train, test) in enumerate(splits(sessions, desk)):
            good = [course for course in train if course.success and variant_of(course)]
            nearest, usual = Nearest(good), modal(good)
            known = {course.session_id for course in train}
            with memory(f"procedures-{desk}-{fold}") as held:
                held.add(both_stages(e for e in sessions.events(FILE) if e["session_id"] in known))
                for asked in test:
                    done = variant_of(asked.course)
                    if not asked.success or not done:
                        continue
                    told = scores(served(held, asked.session), done)
                    for name, sequence in (("nearest", nearest.variant(asked.course.goal)), ("modal", usual)):
                        baseline = scores(sequence, done)
                        for metric, value, base in zip(METRICS, told, baseline, strict=True):
                            cases[metric, name].append(Case(asked.task, value, base))
        for metric, name in SHOWN:
            bar = BARS.get((desk, metric, name))
            yield paired(TASK, desk, f"{metric} (base: {name})", cases[metric, name], bar)


def served(held: Remembered, session: Session) -> Variant:
    """The tools of the first procedure in the pack; none where the pack has none."""
    turns = [step.text for step in session.steps if step.role is Role.MESSAGE and step.actor == "user"][:GOAL_TURNS]
    answers = held.ask("\n".join(turns), session.tenant_id, [_BUDGET], sections=[Section.PROCEDURES])
    pack, fetched = answers[_BUDGET]
    compiled = {found.source.artifact_id: found.source for found in fetched.artifacts}
    for entry in pack.entries:
        artifact = compiled.get(entry.source_id)
        if artifact is not None and artifact.artifact_type == task_schema.NAME:
            return tuple(tool for step in artifact.content["steps"] for tool in step["tools_used"])
    return ()


def variant_of(course: ActionTrace) -> Variant:
    """What was done, without the agent's talk to itself; the same thing over and over is one step."""
    return tuple(verb for verb, _ in groupby(act.verb for act in course.acts if not silent(act.verb)))


def scores(said: Variant, done: Variant) -> tuple[float, ...]:
    return f1(set(said), set(done)), f1(set(pairwise(said)), set(pairwise(done))), order_shared(said, done)


def f1(one: set[T], other: set[T]) -> float:
    return 2 * len(one & other) / (len(one) + len(other)) if one or other else 1.0


def order_shared(one: Sequence[str], other: Sequence[str]) -> float:
    """The longest common subsequence, as a share of the longer one."""
    row = [0] * (len(other) + 1)
    for a in one:
        before = 0
        for j, b in enumerate(other, 1):
            before, row[j] = row[j], before + 1 if a == b else max(row[j], row[j - 1])
    return row[-1] / max(len(one), len(other), 1)


def modal(good: Iterable[ActionTrace]) -> Variant:
    counts = Counter(map(variant_of, good))
    return min(counts, key=lambda variant: (-counts[variant], variant))


class Nearest:
    """The session whose goal has the highest BM25 score (k1 1.2, b .75)."""

    def __init__(self, good: Sequence[ActionTrace]) -> None:
        self.good = good
        self.spread = Counter(word for course in good for word in course.goal)
        self.length = sum(len(course.goal) for course in good) / max(len(good), 1)

    def variant(self, goal: Iterable[str]) -> Variant:
        words = sorted(goal)
        return variant_of(max(self.good, key=lambda course: (self._score(words, course.goal), course.session_id)))

    def _score(self, words: Sequence[str], document: frozenset[str]) -> float:
        norm = 2.2 / (1 + 1.2 * (0.25 + 0.75 * len(document) / self.length))
        return sum(self._rarity(word) * norm for word in words if word in document)

    def _rarity(self, word: str) -> float:
        return log(1 + (len(self.good) - self.spread[word] + 0.5) / (self.spread[word] + 0.5))
