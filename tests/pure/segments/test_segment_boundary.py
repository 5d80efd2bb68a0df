"""Only clear evidence opens a segment."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.limits import SEGMENT_EVENTS, SEGMENT_IDLE_MS
from hmx_pipeline.segments.intent import GOAL_TURNS
from hmx_pipeline.segments.segment_boundary import SegmentHead, advance, open_head, starts_new
from tests.support.segments import Script


def cuts(script: Script) -> list[int]:
    """Positions at which a segment opens."""
    head: SegmentHead | None = None
    opened = []
    texts = {step.index: step.text for step in script.steps}
    for position, step in enumerate(script.steps):
        if head is None or starts_new(head, step, texts.__getitem__):
            opened.append(position)
            head = open_head(step)
        else:
            head = advance(head, step)
    return opened


def finished(goal: str = "Cancel my order") -> Script:
    script = Script("s")
    script.user(goal)
    script.tool("cancel_order")
    script.agent("It is cancelled. Is there anything else I can help with?")
    return script


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "Yes, go ahead",
        "ok",
        "continue",
        "No, that's the wrong order, refactor it instead",
        "And deploy it too",
        "My zip is 12345",
        "I'd also like to deploy the service",
    ],
)
def test_answers_acknowledgements_and_corrections_stay(text: str) -> None:
    script = finished()
    script.user(text)
    assert cuts(script) == [0]


def test_another_wish_without_thanks_stays() -> None:
    script = finished()
    script.user("Deploy the service to production")
    assert cuts(script) == [0]


def test_another_wish_after_thanks_opens() -> None:
    script = finished()
    script.user("Great, thank you!")
    script.agent("You're welcome! Is there anything else I can help with?")
    script.user("Deploy the service to production")
    assert cuts(script) == [0, 6]


def test_another_wish_after_positive_feedback_opens() -> None:
    script = finished()
    script.feedback("positive")
    script.user("Deploy the service to production")
    assert cuts(script) == [0, 5]


def test_the_same_wish_after_thanks_stays() -> None:
    script = finished()
    script.user("Thanks!")
    script.user("Please cancel this order: 77")
    assert cuts(script) == [0]


def test_what_answers_a_question_stays_even_after_thanks() -> None:
    script = finished()
    script.user("Thanks!")
    script.agent("Which environment shall I use?")
    script.user("Deploy the service to production")
    assert cuts(script) == [0]


def test_a_user_who_says_so_opens() -> None:
    script = Script("s")
    script.user("Cancel my order")
    script.tool("cancel_order")
    script.agent("It is cancelled.")
    script.user("New task: cancel the subscription")
    assert cuts(script) == [0, 4]


def test_half_an_hour_of_silence_cuts_but_not_a_millisecond_less() -> None:
    for silence, expected in ((SEGMENT_IDLE_MS, [0]), (SEGMENT_IDLE_MS + 1, [0, 1])):
        script = Script("s")
        script.user("Cancel my order")
        script.add(Role.MESSAGE, after_ms=silence, actor="user", text="yes")
        assert cuts(script) == expected


@pytest.mark.parametrize("role", [Role.RESULT, Role.ERROR, Role.FEEDBACK])
def test_what_answers_something_before_never_opens(role: Role) -> None:
    script = finished()
    script.add(role, after_ms=10 * SEGMENT_IDLE_MS)
    assert cuts(script) == [0]


def test_system_messages_never_open() -> None:
    script = finished()
    script.add(Role.STATE, name="finished", text="finished")
    script.add(Role.MESSAGE, after_ms=10 * SEGMENT_IDLE_MS, actor="system", text="Deploy everything")
    assert cuts(script) == [0]


def test_work_after_an_explicit_end_opens_and_feedback_does_not() -> None:
    script = finished()
    script.add(Role.STATE, name="finished", text="finished")
    script.feedback("positive")
    script.user("yes")
    assert cuts(script) == [0, 6]


STEPS = st.builds(
    Step,
    event_id=st.text(max_size=3),
    at=st.integers(0, 10 * SEGMENT_IDLE_MS),
    role=st.sampled_from(list(Role)),
    actor=st.sampled_from(["user", "assistant", "system", ""]),
    name=st.sampled_from(["", "finished", "positive", "get_order", "cd /x && git commit -m y"]),
    text=st.text(max_size=40) | st.sampled_from(["thanks", "Deploy it", "What now?"]),
)


@given(st.lists(STEPS, min_size=1, max_size=30))
def test_a_head_is_small_state_and_asks_for_texts_of_its_segment_only(unnumbered: list[Step]) -> None:
    steps = [msgspec.structs.replace(step, index=index) for index, step in enumerate(unnumbered)]
    head = open_head(steps[0])
    for step in steps[1:]:
        texts = {known.index: known.text for known in steps[: step.index]}
        starts_new(head, step, texts.__getitem__)
        head = advance(head, step)
        assert msgspec.json.decode(msgspec.json.encode(head), type=SegmentHead) == head
        assert len(msgspec.json.encode(head)) < 200
        assert len(head.goal) <= GOAL_TURNS


def test_a_full_segment_closes_whatever_comes() -> None:
    script = Script("s")
    for _ in range(SEGMENT_EVENTS + 1):
        script.add(Role.RESULT, name="t")
    assert cuts(script) == [0, SEGMENT_EVENTS]
