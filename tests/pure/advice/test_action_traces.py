"""What a contribution tells of a session is what the session's own steps tell."""

import random

from hmx_pipeline.advice.action_traces import courses, under_way
from hmx_pipeline.compiler.extract import contributions
from tests.support.segments import START, Script

HOUR = 3_600_000


def returned(number: int, good: bool = True) -> Script:
    made = Script(f"session-{number}", start=START + number * HOUR)
    made.user("I want to return my order")
    made.agent("Let me look at it")
    made.tool("get_order", found=("status=delivered",))
    made.user("Yes, please")
    made.tool("return_order", ok=good, error="" if good else "too late", kind="" if good else "Refused")
    made.feedback("positive" if good else "negative")
    return made


def test_a_course_is_the_same_from_memory_and_from_the_sessions_own_steps() -> None:
    made = returned(1)
    (remembered,) = courses(c for c in contributions(made.segment()) if c.pattern_type == "course")
    seen = under_way(made.steps)
    assert remembered._replace(session_id="", success=None) == seen
    assert remembered.success
    assert [act.verb for act in seen.acts] == ["get_order", "return_order"]


def test_courses_do_not_depend_on_the_order_of_the_contributions() -> None:
    said = [c for n in range(6) for c in contributions(returned(n, n % 2 == 0).segment()) if c.pattern_type == "course"]
    mixed = random.Random(1).sample(said, len(said))
    assert courses(mixed) == courses(said)
    assert [course.success for course in courses(said)] == [True, False] * 3
