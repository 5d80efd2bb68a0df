"""How like the goal of a session that is under way is to what others wanted. In: courses, a goal. Out: a likeness for
each course. Nothing fails.

Words count by how rare they are and by how well they tell the tools of successful sessions apart: a word that is said
whatever is done says nothing about what to do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from math import log, sqrt
from typing import Final

from pipeline.advice.courses import Course
from pipeline.segments.naming import silent

Variant = tuple[str, ...]

_PRIOR: Final = 10.0
"""So many sessions that did what all do stand behind each word."""
_LENGTH: Final = 0.3


def variant_of(course: Course) -> Variant:
    """What was done, without the agent's talk to itself; the same thing over and over is one step."""
    return tuple(verb for verb, _ in groupby(act.verb for act in course.acts if not silent(act.verb)))


class Experience:
    """The courses of a tenant. Every figure is a function of the set of courses."""

    def __init__(self, courses: Iterable[Course]) -> None:
        self.courses: Sequence[Course] = sorted(courses, key=lambda course: course.session_id)
        self.variants: Sequence[Variant] = [variant_of(course) for course in self.courses]

    def likeness(self, goal: Iterable[str], classes: frozenset[str]) -> list[float]:
        """For each course between 0 and 2: 1 for the most alike words, doubled where the same is wanted."""
        shared = [0.0] * len(self.courses)
        for word in sorted(set(goal) & self._weights.keys()):
            weight = self._weights[word]
            for place in self._places[word]:
                shared[place] += weight
        scores = [score / (length or 1.0) for score, length in zip(shared, self._lengths, strict=True)]
        most = max(scores, default=0.0) or 1.0
        return [
            round(score / most * (1 + _jaccard(classes, course.classes)), 6)
            for score, course in zip(scores, self.courses, strict=True)
        ]

    @cached_property
    def _places(self) -> dict[str, list[int]]:
        """Of each word the courses that have it in their goal."""
        places: dict[str, list[int]] = defaultdict(list)
        for place, course in enumerate(self.courses):
            for word in course.goal:
                places[word].append(place)
        return places

    @cached_property
    def _lengths(self) -> list[float]:
        weights = self._weights
        return [sum(sorted(weights[word] for word in course.goal)) ** _LENGTH for course in self.courses]

    @cached_property
    def _weights(self) -> dict[str, float]:
        """Rarity times how far what sessions with the word used is from what all used."""
        spread = Counter(word for course in self.courses for word in course.goal)
        good = [
            (course.goal, frozenset(variant))
            for course, variant in zip(self.courses, self.variants, strict=True)
            if course.success
        ]
        words = Counter(word for goal, _ in good for word in goal)
        tools = Counter(tool for _, used in good for tool in used)
        both = Counter((word, tool) for goal, used in good for word in goal for tool in used)
        usual = {tool: tools[tool] / len(good) for tool in sorted(tools)}
        return {
            word: log(1 + len(self.courses) / spread[word])
            * sqrt(
                sum(
                    ((both[word, tool] + _PRIOR * share) / (words[word] + _PRIOR) - share) ** 2
                    for tool, share in usual.items()
                )
            )
            for word in sorted(spread)
        }


def _jaccard(one: frozenset[str], other: frozenset[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
