"""What has turned bad: told by the last sessions, of event time and not of arrival, for all types that give advice."""

from collections.abc import Iterable, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import candidate
from hmx_pipeline.compiler.confidence import RECENT, Tally, contradicted, recent
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.lifecycle import LastPublished, step
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome
from hmx_pipeline.contracts.options import Status
from tests.pure.compiler.test_candidate import TASK, by_agents, many
from tests.pure.compiler.test_planted import script
from tests.support.runs import schema

GOOD, BAD, UNKNOWN = SegmentOutcome.SUCCESS, SegmentOutcome.FAILURE, SegmentOutcome.UNKNOWN


def ended(outcomes: Iterable[SegmentOutcome]) -> list[Contribution]:
    """One session each, in this order."""
    told = list(outcomes)
    return [c.model_copy(update={"outcome": outcome}) for c, outcome in zip(many(len(told)), told, strict=True)]


def recovered(ways: Iterable[tuple[str, bool]]) -> list[Contribution]:
    """One session each, in this order: the same error, what was done about it, and whether the next try worked."""
    told = []
    for number, (way_out, worked) in enumerate(ways):
        made = script(number)
        made.tool("apply_manifest", ok=False, error="quota is used up", kind="QuotaError")
        made.tool(way_out)
        made.tool("apply_manifest", ok=worked)
        told += [c for c in contributions(made.segment()) if c.pattern_type == "failure_playbook"]
    return told


def lived(*maps: Sequence[Contribution]) -> list[Artifact]:
    """What a pattern publishes whose map is one after the other."""
    said: LastPublished | None = None
    log: list[Artifact] = []
    for now, known in enumerate(maps):
        pattern = TASK if known[0].pattern_type == "run" else known[0].pattern
        said, out = step(said, candidate(known, pattern.type), "acme", pattern, now)
        log += out
    return log


def test_the_last_sessions_are_those_whose_last_verdicts_are_the_newest() -> None:
    told = [("again", True), *((f"s{n}", True) for n in range(RECENT)), ("again", False)]
    assert recent(told) == Tally(RECENT - 1, RECENT)
    assert recent(told[:-1]) == Tally(RECENT, RECENT)


@pytest.mark.parametrize(
    ("well", "of", "speaks_against"), [(4, 10, True), (5, 10, False), (2, 5, True), (3, 5, False), (0, 4, False)]
)
def test_less_than_half_of_enough_sessions_speak_against_it(well: int, of: int, speaks_against: bool) -> None:
    assert contradicted(recent((f"s{n}", n < well) for n in range(of))) == speaks_against


@pytest.mark.requirement("A-18", "A-16")
def test_a_procedure_that_stops_working_is_deprecated_although_it_worked_more_often() -> None:
    before, after = ended([GOOD] * 20), ended([GOOD] * 20 + [BAD] * 6)
    active, gone = lived(before, after)
    assert (active.status, gone.status) == (Status.ACTIVE, Status.DEPRECATED)
    assert gone.artifact_id == active.artifact_id
    cause = "contradicted: it went well in 4 of the last 10 sessions only: bound 0.23, less than 0.3"
    assert gone.metadata["transition"] == {"from": "active", "to": "deprecated", "cause": cause}
    assert gone.metadata["checked"]["recent"] == {"successes": 4, "sessions": 10, "bound": 0.22956}
    assert gone.metadata["checked"]["failures"] == 6


@pytest.mark.requirement("A-18", "X11")
def test_a_draft_that_is_contradicted_is_deprecated_and_opens_again_only_when_it_works() -> None:
    draft, bad, good = [GOOD] * 3, [GOOD] * 3 + [BAD] * 3, [GOOD] * 3 + [BAD] * 3 + [GOOD] * 8
    first, gone, again = lived(ended(draft), ended(bad), ended([*bad, BAD]), ended(good))
    assert [a.status for a in (first, gone, again)] == [Status.DRAFT, Status.DEPRECATED, Status.ACTIVE]
    assert (again.metadata["chain"], again.supersedes) == (2, None)


def test_unknown_ends_speak_neither_for_nor_against_it() -> None:
    found = schema(ended([GOOD] * 6 + [UNKNOWN] * 30))
    assert found is not None
    assert not found.contradicted


@given(st.lists(st.sampled_from([GOOD, BAD]), min_size=6, max_size=25), st.randoms(use_true_random=False))
def test_whether_it_is_contradicted_does_not_depend_on_arrival(outcomes: list[SegmentOutcome], dice: Random) -> None:
    told = ended(outcomes)
    assert schema(dice.sample(told, len(told))) == schema(told)


@pytest.mark.requirement("Y04")
def test_the_failures_of_agents_that_it_is_not_for_do_not_speak_against_it() -> None:
    found = schema(by_agents(*[("able", GOOD)] * 6, *[("other", BAD)] * 8))
    assert found is not None
    assert found.validity_scope is not None
    assert not found.contradicted


def test_a_recovery_that_works_no_more_stands_behind_one_that_does() -> None:
    old, new = "create_namespace", "ask_for_quota"
    runs = [(old, True)] * 12 + [(old, False)] * 6 + [(new, True)] * 4
    found = candidate(recovered(runs))
    assert found is not None
    first, second = found.content["recovery_steps"]
    assert "quota" in first
    assert "12 of 18" in second
    assert not found.contradicted


@pytest.mark.requirement("A-18")
def test_a_playbook_none_of_whose_recoveries_works_any_more_is_deprecated() -> None:
    works = [("create_namespace", True)] * 12
    active, gone = lived(recovered(works), recovered([*works, *[("create_namespace", False)] * 6]))
    assert (active.status, gone.status) == (Status.ACTIVE, Status.DEPRECATED)
