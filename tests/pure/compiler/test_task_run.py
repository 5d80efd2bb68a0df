"""The whole actions of a segment, and which of their values were there before."""

import random
from types import SimpleNamespace
from typing import Any

from hmx_pipeline.compiler.tasks.task_run import GOAL_MESSAGES, acts_of
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.segments.commands import within
from hmx_pipeline.segments.pairing import Action

WORDS = ("t_1", "t_12", "load", "Straße", "STRASSE", "東京", "\nt_1", "t_1\n", "a b", "-x", "")


def _steps(random_: random.Random, count: int) -> list[Step]:
    steps = []
    for index in range(count):
        text = " ".join(random_.choices(WORDS, k=random_.randrange(4)))
        if random_.random() < 0.4:
            arguments = tuple((f"k{n}", random_.choice(WORDS)) for n in range(3))
            steps.append(Step(f"e{index}", index, Role.CALL, index, "", "load", text, arguments=arguments))
        else:
            steps.append(Step(f"e{index}", index, Role.MESSAGE, index, random_.choice(["user", "assistant"]), "", text))
    return steps


def _actions(steps: list[Step]) -> list[Action]:
    return [Action(at, step.name, step.role) for at, step in enumerate(steps) if step.role is Role.CALL]


def test_an_act_lists_the_values_that_stand_as_whole_words_in_an_earlier_text_but_no_wish() -> None:
    random_ = random.Random(5)
    for _ in range(300):
        steps = _steps(random_, random_.randrange(1, 12))
        users = [step.index for step in steps if step.role is Role.MESSAGE and step.actor == "user"]
        wishes = set(users[:GOAL_MESSAGES])
        actions = _actions(steps)
        for action, act in zip(actions, acts_of(steps, actions), strict=True):
            before = [step.text for step in steps[: action.position] if step.index not in wishes]
            earlier = "\n".join(before).casefold()
            values = dict.fromkeys(value for _, value in steps[action.position].arguments if value)
            assert act[5] == [value for value in values if within(value, earlier)]


class _CountedStep(SimpleNamespace):
    reads = 0

    def __getattribute__(self, name: str) -> Any:
        if name == "text":
            _CountedStep.reads += 1
        return super().__getattribute__(name)


def test_each_text_is_read_once_however_many_actions_follow_it() -> None:
    steps = _steps(random.Random(1), 200)
    counted: Any = [_CountedStep(**{name: getattr(step, name) for name in step.__struct_fields__}) for step in steps]
    acts_of(counted, _actions(steps))
    assert _CountedStep.reads <= len(steps)
