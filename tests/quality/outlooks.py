"""Can memory tell how a session ends? Asked at its end, its verdict withheld; beside: the fewer calls, the better."""

from collections.abc import Iterator, Sequence
from typing import Final

from pipeline.advice.courses import under_way
from pipeline.advice.experience import Experience
from pipeline.advice.outlook import outlook
from pipeline.contracts.event_types import Role
from tests.quality.desks import DESKS, splits
from tests.quality.figures import Bar, Figure, drawn
from tests.quality.sessions import Sessions

TASK: Final = "outcome"


def task(sessions: Sessions) -> Iterator[Figure]:
    for desk in DESKS:
        told: list[tuple[str, bool, float, float]] = []
        for train, test in splits(sessions, desk):
            known = Experience(train)
            for asked in test:
                unjudged = [step for step in asked.session.steps if step.role is not Role.FEEDBACK]
                course = under_way(unjudged, asked.session.agent_id)
                told.append((asked.task, asked.success, outlook(known, course) or 0.0, -float(course.actions)))

        def areas(places: Sequence[int], told: Sequence[tuple[str, bool, float, float]] = told) -> tuple[float, float]:
            drawn = [told[place] for place in places]
            return tuple(area([(case[score], case[1]) for case in drawn]) for score in (2, 3))  # type: ignore[return-value]

        yield drawn(TASK, desk, "AUC", [case[0] for case in told], areas, Bar(over=0.0))


def area(scores: Sequence[tuple[float, bool]]) -> float:
    """The share of pairs of a success and a failure in which the success has the higher score; ties count half."""
    ordered = sorted(scores)
    good = sum(success for _, success in ordered)
    won = lost = place = 0
    while place < len(ordered):
        end = place
        while end < len(ordered) and ordered[end][0] == ordered[place][0]:
            end += 1
        successes = sum(success for _, success in ordered[place:end])
        failures = end - place - successes
        won += successes * (2 * lost + failures)
        lost += failures
        place = end
    return won / (2 * good * lost) if good and lost else 0.5
