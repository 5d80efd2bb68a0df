"""The baseline of what comes next: what most often followed the last two actions, else the last one, else any."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Final

from hmx_pipeline.advice.action_traces import ActionTrace
from hmx_pipeline.segments.action_names import silent

MOST: Final = 3
"""Answers."""


def verbs_of(course: ActionTrace) -> list[str]:
    return [act.verb for act in course.acts if not silent(act.verb)]


class Trigrams:
    def __init__(self) -> None:
        self._after: defaultdict[tuple[str, ...], Counter[str]] = defaultdict(Counter)

    def learn(self, verbs: Sequence[str]) -> None:
        whole = ["*", "*", *verbs]
        for place in range(2, len(whole)):
            for length in range(3):
                self._after[tuple(whole[place - length : place])][whole[place]] += 1

    def following(self, verbs: Sequence[str]) -> list[str]:
        whole = ["*", "*", *verbs]
        found: dict[str, None] = {}
        for length in (2, 1, 0):
            counts = self._after.get(tuple(whole[len(whole) - length :]), Counter())
            found.update(dict.fromkeys(sorted(counts, key=lambda verb: (-counts[verb], verb))))
            if len(found) >= MOST:
                break
        return list(found)
