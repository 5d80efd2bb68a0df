"""What past sessions did, as it is found for one that is under way, and what they advise it."""

from itertools import permutations

import orjson
import pytest

from hmx_pipeline.advice.next_after_error import RecoveryStep
from hmx_pipeline.advice.recommendations import NOTHING, guide
from hmx_pipeline.advice.similar_sessions import course_so_far, failure, precedent_terms, sought
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Step
from hmx_pipeline.retrieval.score import FoundSource
from tests.support.segments import Script

GOAL = "Deploy the payments service to staging"


def past(name: str, goal: str, *tools: str, changed: str = "") -> list[Contribution]:
    """`!` before a tool: it failed."""
    made = Script(name)
    made.user(goal)
    for tool in tools:
        made.tool(tool.removeprefix("!"), ok=not tool.startswith("!"))
    if changed:
        made.add(Role.ACTION, name="edit", text=changed, ok=True)
    return [c for c in contributions(made.segment()) if c.pattern_type in ("course", "touched")]


def under_way(*tools: str) -> list[Step]:
    made = Script("now")
    for tool in tools:
        made.tool(tool.removeprefix("!"), ok=not tool.startswith("!"))
    return made.steps


PAST = [
    *past("a", GOAL, "build", "check", "apply", changed="deploy/staging.yaml"),
    *past("b", GOAL, "build", "!check", "create_namespace", "apply"),
    *past("c", "Rotate the keys of the vault", "read_vault", "write_vault", changed="vault/keys.py"),
]


def verbs(*tools: str, known: list[Contribution] = PAST) -> list[str]:
    return [one.verb for one in guide(GOAL, under_way(*tools), "agent", found(known)).steps]


def found(known: list[Contribution], scores: tuple[int, ...] = ()) -> list[FoundSource[Contribution]]:
    """All as alike unless told."""
    return [FoundSource(one, score) for one, score in zip(known, scores or (1,) * len(known), strict=True)]


@pytest.mark.requirement("C-18")
def test_a_session_is_advised_what_others_like_it_did_next_and_after_a_failure() -> None:
    assert verbs()[0] == "build"
    assert verbs("build")[0] == "check"
    assert verbs("build", "!check")[0] == "create_namespace"


def test_each_piece_of_advice_names_the_most_alike_session_that_did_so() -> None:
    told = {c.contribution_id: c for c in PAST}
    advice = guide(GOAL, under_way("build", "!check"), "agent", found(PAST))
    assert told[advice.steps[0].precedent].session_id == "b"
    assert advice.files is not None
    assert advice.files.paths[0] == "deploy/staging.yaml"
    assert told[advice.files.precedent].session_id == "a"
    assert 0 < advice.files.share <= 1


def test_the_more_alike_a_session_is_the_more_its_habits_count() -> None:
    known = [c for c in PAST if c.pattern_type == "course"]
    for scores, first in (((1, 1, 9), "read_vault"), ((9, 1, 9), "build")):
        (advised, *_) = guide(GOAL, [], "agent", found(known, scores)).steps
        assert advised.verb == first


def test_nothing_is_advised_where_nothing_was_done_before() -> None:
    assert guide(GOAL, under_way("build"), "agent", []) == NOTHING


def test_what_precedents_advise_does_not_depend_on_the_order_in_which_they_came() -> None:
    orders = [[c for one in order for c in one] for order in permutations([PAST[:2], PAST[2:3], PAST[3:]])]
    assert len({tuple(verbs("build", known=known)) for known in orders}) == 1


@pytest.mark.parametrize(
    ("question", "tools", "session"),
    [
        ("Deploy billing to staging", (), "a"),
        ("what now", ("read_vault",), "c"),
        ("what now", ("build", "!check"), "b"),
    ],
)
def test_precedents_are_found_by_their_goal_by_what_was_done_and_by_what_failed(
    question: str, tools: tuple[str, ...], session: str
) -> None:
    terms = set(sought(question, under_way(*tools)).courses)
    shared = {c.session_id: len(terms.intersection(precedent_terms(orjson.loads(c.to_json())))) for c in PAST[::-1]}
    assert shared[session] == max(shared.values()) > 0
    assert sum(count == shared[session] for count in shared.values()) == (2 if session == "a" else 1)


def test_an_error_that_names_no_parent_belongs_to_the_action_before_it() -> None:
    steps = [*under_way("build", "check"), Step(event_id="e", at=9, role=Role.ERROR, index=9, name="red", ok=False)]
    assert failure(course_so_far("what now", steps)) == RecoveryStep("check", "red")


def test_files_are_looked_for_by_their_names_and_by_goals() -> None:
    touched = [c for c in PAST if c.pattern_type == "touched"]
    terms = [set(precedent_terms(orjson.loads(c.to_json()))) for c in touched]
    found = [bool(terms[0] & set(sought(asked, ()).files)) for asked in ("staging.yaml", "deploy", "keys")]
    assert found == [True, True, False]


def test_what_is_withdrawn_is_not_found() -> None:
    assert precedent_terms(orjson.loads(PAST[0].model_copy(update={"withdrawn": True}).to_json())) == []
