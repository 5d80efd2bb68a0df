"""Tasks of one kind have phases in common, whatever they are about; one task alone is no strategy."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import candidate
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.strategy_template import TYPE
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.segments.action_names import phase_of
from tests.support.segments import START, Script

HOUR = 3_600_000
TASKS = {
    "Change the address of order 17": ("get_order", "search_address", "modify_address"),
    "Change the payment of order 23": ("get_order", "list_cards", "modify_payment"),
}


def told(goal: str, number: int, good: bool = True, tests: bool = True) -> list[Contribution]:
    made = Script(f"{goal}-{number}", start=START + number * HOUR)
    made.user(goal)
    for tool in TASKS[goal]:
        made.tool(tool, arguments=(("kind", "order"),))
    if tests:
        made.add(Role.TEST, name="pytest", ok=True)
    made.tool("send_receipt")
    made.feedback("positive" if good else "negative")
    return [one for one in contributions(made.segment()) if one.pattern_type == TYPE.name]


def history(counts: tuple[int, int], good: bool = True) -> list[Contribution]:
    return [
        one for goal, n in zip(TASKS, counts, strict=True) for number in range(n) for one in told(goal, number, good)
    ]


def strategy(contributions: list[Contribution]) -> ArtifactCandidate | None:
    assert len({one.pattern for one in contributions}) == 1
    return candidate(contributions)


@pytest.mark.requirement("A-09", "A-15")
def test_two_schemas_of_one_verb_class_share_their_phases() -> None:
    found = strategy(history((6, 5)))
    assert found is not None
    assert found.status is Status.ACTIVE
    assert found.title == "Modify address or payment: inspect, then modify, then verify, then report"
    assert found.content["goal"] == "Modify address or payment"
    assert [(phase["order"], phase["name"]) for phase in found.content["phases"]] == [
        (1, "inspect"), (2, "modify"), (3, "verify"), (4, "report"),
    ]  # fmt: skip
    inspect, modify, verify, report = found.content["phases"]
    assert inspect["description"] == "Get order, search address, list cards"
    assert inspect["tools_used"] == ["get_order", "search_address", "list_cards"]
    assert inspect["success_criteria"] == []
    assert modify["tools_used"] == ["modify_address", "modify_payment"]
    assert verify["success_criteria"] == ["Run `pytest` has succeeded"]
    assert report["success_criteria"] == ["Send receipt has succeeded"]
    assert found.content["applicability_conditions"] == ["Modify address", "Modify payment"]
    assert found.content["estimated_complexity"] == "medium"
    assert (found.observed_count, found.success_rate) == (11, 1.0)


@pytest.mark.requirement("A-16")
@pytest.mark.parametrize(
    ("counts", "status"), [((6, 0), None), ((6, 2), None), ((6, 4), "draft"), ((5, 5), "active"), ((8, 5), "active")]
)
def test_one_proven_task_alone_is_no_strategy(counts: tuple[int, int], status: str | None) -> None:
    found = strategy(history(counts))
    assert (found and found.status) == status


@pytest.mark.parametrize("phases", [["inspect", "modify"], ["inspect", "modify", "verify"]])
def test_to_look_to_change_and_to_check_is_no_strategy_worth_showing(phases: list[str]) -> None:
    found = strategy([c.saying(phases=c.body["phases"][: len(phases)]) for c in history((6, 5))])
    assert found is not None
    assert [phase["name"] for phase in found.content["phases"]] == phases
    assert found.status is Status.DRAFT


def test_tasks_that_fail_prove_nothing() -> None:
    assert strategy(history((6, 6), good=False)) is None


def test_a_phase_that_only_one_of_the_tasks_has_is_not_shared() -> None:
    first, second = TASKS
    parts = [told(first, n) for n in range(6)] + [told(second, n, tests=False) for n in range(6)]
    found = strategy([one for part in parts for one in part])
    assert found is not None
    assert [phase["name"] for phase in found.content["phases"]] == ["inspect", "modify", "report"]


@pytest.mark.parametrize(
    ("verb", "phase"),
    [
        ("get_order", "inspect"),
        ("TodoWrite", "plan"),
        ("edit", "modify"),
        ("exchange_items", "modify"),
        ("run python", "execute"),
        ("run kubectl rollout", "deploy"),
        ("check_namespace", "verify"),
        ("run pytest", "verify"),
        ("run npm test", "verify"),
        ("rollback_release", "recover"),
        ("restart_pod", "recover"),
        ("notify_team", "report"),
        ("request POST /orders", "modify"),
    ],
)
def test_what_is_done_belongs_to_a_phase(verb: str, phase: str) -> None:
    assert phase_of(verb) == phase


EVIDENCE = history((5, 5))


def test_a_strategy_that_rests_on_one_subjects_tasks_alone_is_private_to_it() -> None:
    own = [one.model_copy(update={"subject": "ann"}) for one in history((6, 5))]
    (once,) = told(next(iter(TASKS)), 99)
    others = once.saying(task="another").model_copy(update={"subject": "bob"})
    found = strategy([*own, others])
    assert found is not None
    assert (found.subject, found.observed_count) == ("ann", 11)


@given(st.permutations(EVIDENCE))
def test_arrival_order_decides_nothing(arrived: list[Contribution]) -> None:
    assert candidate(arrived) == candidate(EVIDENCE)


def test_packs_show_phases_with_what_ends_them() -> None:
    found = strategy(history((5, 5)))
    assert found is not None
    assert list(TYPE.lines(found.content))[:4] == [
        "1. Inspect: Get order, list cards, search address",
        "2. Modify: Modify address, modify payment",
        "3. Verify: Run `pytest`",
        "   until: Run `pytest` has succeeded",
    ]
