"""The tags of events, kept through a contribution to its artifact: lineage is of a tag where every event is."""

import msgspec
import pytest

from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.lifecycle import step
from hmx_pipeline.contracts.evidence import Pattern, Segment
from tests.support.runs import COMMANDS, HOUR, run_of, schema
from tests.support.segments import START, Script

TASK = Pattern("task_schema", "deploy")


def deployment(number: int, *tags: str) -> Segment:
    made = Script(f"session-{number}", start=START + number * HOUR, tags=tags)
    made.user("Deploy the checkout service to staging")
    for line in COMMANDS:
        made.command(line)
    made.feedback("positive")
    return made.segment()


def compiled(*tags: tuple[str, ...]) -> ArtifactCandidate:
    found = schema([run_of(deployment(number, *carried)) for number, carried in enumerate(tags)])
    assert found is not None
    return found


@pytest.mark.requirement("E-17")
def test_a_contribution_has_the_tags_that_each_of_its_events_carries() -> None:
    whole = deployment(0, "staging", "eu")
    assert run_of(whole).lineage_tags == ["eu", "staging"]
    used = run_of(whole).source_events
    for i, event in enumerate(whole.steps):
        steps = list(whole.steps)
        steps[i] = msgspec.structs.replace(event, tags=("staging",))
        kept = ["staging"] if event.event_id in used else ["eu", "staging"]
        assert run_of(msgspec.structs.replace(whole, steps=tuple(steps))).lineage_tags == kept


@pytest.mark.requirement("E-17")
def test_an_artifact_has_the_tags_of_all_its_lineage() -> None:
    one, other = ("staging", "eu"), ("staging", "us")
    assert list(compiled(one, other, one).lineage_tags) == ["staging"]
    assert list(compiled(one, other, ()).lineage_tags) == []
    found = compiled(one, one, one)
    _, (artifact,) = step(None, found, "acme", TASK, 0)
    assert artifact.metadata["lineage_tags"] == ["eu", "staging"]
    assert artifact.tags == ["eu", "staging", *compiled((), (), ()).tags]
    _, (bare,) = step(None, compiled((), (), ()), "acme", TASK, 0)
    assert "lineage_tags" not in bare.metadata


def test_what_the_users_words_were_is_told_whatever_the_tags() -> None:
    assert compiled(("a",), ("b", "c"), ()).title == compiled((), (), ()).title


def test_lineage_tags_do_not_depend_on_the_order_of_contributions() -> None:
    several = [run_of(deployment(n, *tags)) for n, tags in enumerate([("b", "a"), ("a", "b", "c"), ("c", "a", "b")])]
    assert schema(several) == schema(several[::-1])
