"""Bounds hold, and what is left out at them does not depend on arrival."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import candidate, rank
from hmx_pipeline.compiler.confidence import tally, wilson
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.lifecycle import step
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution, Pattern, SegmentOutcome
from hmx_pipeline.contracts.limits import ARTIFACT_BYTES, ARTIFACT_SOURCES, PATTERN_COMPILED, PATTERN_CONTRIBUTIONS
from tests.pure.compiler.test_planted import deployments
from tests.pure.segments.test_pairing import STEPS
from tests.support.runs import run_of, schema, tasks
from tests.support.segments import Script

ONE = run_of(deployments(1)[0].segment())
TASK = Pattern("task_schema", "deploy")


def many(count: int, sources: int = 3, id_length: int = 8) -> list[Contribution]:
    return [
        ONE.model_copy(
            update={
                "contribution_id": f"c-{n}",
                "segment_id": f"seg-{n}",
                "session_id": f"ses-{n}",
                "first_at": n,
                "last_at": n + 1,
                "source_events": [f"{n}-{k}".ljust(id_length, "x") for k in range(sources)],
                "outcome": SegmentOutcome.SUCCESS,
            }
        )
        for n in range(count)
    ]


@pytest.mark.requirement("A-30")
def test_a_sample_says_of_about_how_many_it_is_one_and_counts_itself_only() -> None:
    everything = sorted(many(5 * PATTERN_CONTRIBUTIONS, sources=1), key=rank)
    whole, sampled = schema(everything[:PATTERN_COMPILED]), schema(everything[:PATTERN_CONTRIBUTIONS])
    assert whole is not None
    assert sampled is not None
    assert "sampled" not in whole.checked
    assert sampled.checked["sampled"]["kept"] == sampled.observed_count == PATTERN_COMPILED
    assert sampled.checked["sampled"]["of_about"] == pytest.approx(len(everything), rel=0.1)


@pytest.mark.requirement("A-30", "X28")
@pytest.mark.parametrize(("sources", "length"), [(40, 36), (5, 200)])
def test_an_artifact_of_very_much_evidence_keeps_every_limit(sources: int, length: int) -> None:
    evidence = many(PATTERN_CONTRIBUTIONS, sources, length)
    found = schema(evidence)
    assert found is not None
    assert found == schema(evidence[::-1])
    assert 0 < len(found.source_events) <= ARTIFACT_SOURCES
    omitted = found.checked["source_events_omitted"]
    assert omitted + len(found.source_events) == sources * PATTERN_COMPILED
    _, (artifact,) = step(None, found, "acme", TASK, 0)
    assert len(artifact.to_json()) <= ARTIFACT_BYTES


def test_withdrawn_contributions_count_for_nothing() -> None:
    evidence = many(6)
    gone = [
        one.model_copy(update={"withdrawn": True, "contribution_id": f"w-{n}"}) for n, one in enumerate(many(9)[6:])
    ]
    assert schema(evidence) is not None
    assert schema(evidence + gone) == schema(evidence)
    assert tasks(evidence + gone) == tasks(evidence)
    assert schema(gone) is None
    assert tasks(gone) == {}


def test_the_bound_is_wilsons() -> None:
    known = {(3, 3): 0.646, (5, 5): 0.753, (4, 5): 0.514, (8, 10): 0.602, (10, 10): 0.859, (0, 4): 0.0, (0, 0): 0.0}
    assert {counts: round(wilson(*counts), 3) for counts in known} == known


@given(st.integers(0, 500), st.integers(0, 500))
def test_the_bound_lies_below_the_rate_and_grows_with_success(successes: int, failures: int) -> None:
    total = successes + failures
    bound = wilson(successes, total)
    assert 0.0 <= bound <= (successes / total if total else 0.0) + 1e-6
    assert wilson(successes + 1, total + 1) >= bound


def test_a_session_counts_once() -> None:
    assert tally([("a", True), ("a", False), ("b", True)]) == (1, 2)


@given(st.lists(STEPS, min_size=1, max_size=30))
def test_any_segment_can_be_told_and_compiled(steps: list) -> None:  # type: ignore[type-arg]
    script = Script("s")
    script.steps = steps
    for one in contributions(script.segment()):
        assert Contribution.model_validate_json(one.to_json()) == one
        copies = [
            one.model_copy(update={"session_id": str(n), "segment_id": str(n), "outcome": SegmentOutcome.SUCCESS})
            for n in range(6)
        ]
        made = tasks(copies) if one.pattern_type == "run" else {one.pattern: candidate(copies)}
        for pattern, found in made.items():
            if found is None:
                continue
            _, published = step(None, found, "acme", pattern, 0)
            assert len(published) == (not found.contradicted)
            for artifact in published:
                assert Artifact.model_validate_json(artifact.to_json()) == artifact


def by_agents(*runs: tuple[str, SegmentOutcome]) -> list[Contribution]:
    return [
        one.model_copy(update={"agent_id": agent, "outcome": outcome})
        for one, (agent, outcome) in zip(many(len(runs)), runs, strict=True)
    ]


@pytest.mark.requirement("Y04")
def test_agents_are_named_only_where_it_works_for_them_and_has_failed_for_the_others() -> None:
    well, badly = SegmentOutcome.SUCCESS, SegmentOutcome.FAILURE
    apart = schema(by_agents(*[("able", well)] * 5, *[("other", badly)] * 3))
    assert apart is not None
    assert apart.validity_scope is not None
    assert apart.validity_scope.agent_ids == ["able"]
    assert apart.validity_scope.time_range is None
    for runs in (
        [*[("able", well)] * 5, *[("other", badly)] * 2],
        [*[("able", well)] * 5, *[("other", badly)] * 3, ("third", well)],
        [*[("able", well)] * 2, *[("other", badly)] * 3],
        [("able", well)] * 8,
    ):
        found = schema(by_agents(*runs))
        assert found is None or found.validity_scope is None
