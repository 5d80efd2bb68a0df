"""outlook: how a session that is under way is likely to end. In: experience, its course. Out: log-odds of success
beyond what is usual, or None where too few sessions ended either way. Nothing fails.

Three things that sessions which succeeded did otherwise than those which failed, in the same unit: which tools they
used, as far as their goals were alike; how much they did; and which agent it was.
"""

from collections import defaultdict
from collections.abc import Sequence
from math import log
from typing import Final

from pipeline.advice.courses import Course
from pipeline.advice.experience import Experience, variant_of

_LEAST: Final = 5
"""Successes, and failures."""
_ANYONE: Final = 0.05
_PRIOR: Final = 3.0
_TOOLS: Final = 0.5
"""The power of the tools: one that is used brings others with it."""
_AGENT_PRIOR: Final = 5.0


def outlook(known: Experience, course: Course) -> float | None:
    ended = [other for other in known.courses if other.success is not None]
    good = sum(other.success is True for other in ended)
    if min(good, len(ended) - good) < _LEAST:
        return None
    return round(_TOOLS * _tools(known, course) + _length(ended, course) + _agent(ended, course), 6)


def _tools(known: Experience, course: Course) -> float:
    weight: list[float] = [0.0, 0.0]
    used: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
    likeness = known.likeness(course.goal, course.classes)
    for like, other, variant in zip(likeness, known.courses, known.variants, strict=True):
        if other.success is not None:
            vote = _ANYONE + like * like
            weight[other.success] += vote
            for tool in set(variant):
                used[tool][other.success] += vote
    own = set(variant_of(course))
    odds = 0.0
    for tool in sorted(used):
        usual = (sum(used[tool]) + 0.5) / (sum(weight) + 1)
        bad, good = ((used[tool][end] + _PRIOR * usual) / (weight[end] + _PRIOR) for end in (False, True))
        odds += log(good / bad) if tool in own else log((1 - good) / (1 - bad))
    return odds


def _length(ended: Sequence[Course], course: Course) -> float:
    """Two bells of the same width, one for each end."""
    told = [[other.actions for other in ended if other.success is end] for end in (False, True)]
    bad, good = (sum(own) / len(own) for own in told)
    spread = sum((x - mean) ** 2 for own, mean in zip(told, (bad, good), strict=True) for x in own)
    return (good - bad) / (spread / len(ended)) * (course.actions - (good + bad) / 2) if spread else 0.0


def _agent(ended: Sequence[Course], course: Course) -> float:
    """Its own successes against everyone's."""
    usual = sum(other.success is True for other in ended) / len(ended)
    own = [other.success is True for other in ended if other.agent_id == course.agent_id]
    share = (sum(own) + _AGENT_PRIOR * usual) / (len(own) + _AGENT_PRIOR)
    return log(share / (1 - share)) - log(usual / (1 - usual))
