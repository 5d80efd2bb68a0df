"""What an operator is told of an artifact that is there, and of one that is not."""

from typing import Any

import orjson
import pytest

from hmx_pipeline.audit.artifact_reasons import explain, missing, needs_as_json, words_of
from hmx_pipeline.compiler.evidence_kind import Need
from hmx_pipeline.compiler.lifecycle import DECAYED_MS
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.state_tables import StateRecord
from hmx_pipeline.topology import ARTIFACTS
from tests.support.evidence import archive_record, control, records, success, task_of
from tests.support.inprocess import run
from tests.support.records import START_MS


def told(*contributions: Contribution, archived: bool = False) -> list[StateRecord]:
    """The state topic, once the patterns have spoken."""
    log = records(contributions)
    if archived:
        log.append(archive_record(contributions[0], 0, len(log), "no longer wanted"))
    log.append(control("barrier", 1, len(log)))
    state = run(PatternsFold, log).state
    fold = PatternsFold()
    return [StateRecord(key, fold.encode(key, value), START_MS) for key, value in state.items()]


def failure(number: int) -> Contribution:
    return success(number).model_copy(update={"outcome": SegmentOutcome.FAILURE})


def absent(*contributions: Contribution, **how: Any) -> str:
    (found,) = missing("deploy", told(*contributions, **how), "acme")
    return found.said


def test_what_is_lacking_is_said_in_numbers() -> None:
    assert "2 of 5 successes" in absent(success(0), success(1))
    alone = [success(n).model_copy(update={"session_id": "one"}) for n in range(6)]
    assert (
        absent(*alone) == "1 of 2 sessions with a success; bound of success where it was followed 0.3784, at least 0.5"
    )
    unlike = [run_with(n, f"do_thing_{n}") for n in range(6)]
    assert absent(*unlike).endswith("steps that could be done from what is known 0, at least 1")


def run_with(number: int, tool: str) -> Contribution:
    """Known by the same features as the others, but what was done is another thing."""
    told = success(number)
    return told.model_copy(update={"body": {**told.body, "acts": [["", tool, [], 1, "", []]]}})


def test_why_else_there_is_none_is_said_too() -> None:
    many = [success(n) for n in range(8)]
    assert absent(*many).startswith("not missing: ")
    assert absent(*many, archived=True) == "it is archived by an operator: no longer wanted"
    assert absent(*many, *map(failure, range(8, 20))).startswith("contradicted: it went well in 0 of the last 10 ")


def test_only_patterns_that_hold_half_of_the_words_are_explained_and_no_other_tenants() -> None:
    state, rotated = told(success(0), success(1, "rotate")), task_of(success(1, "rotate"))
    assert [found.pattern.key for found in missing("rotate keys", state, "acme")] == [rotated.key]
    assert not missing("something else entirely", state, "acme")
    assert not missing("deploy", state, "globex")
    assert not missing("", state, "acme")


def test_what_one_other_subject_did_is_not_there_and_what_several_did_is() -> None:
    def of(number: int, subject: str) -> Contribution:
        return success(number).model_copy(update={"subject": subject})

    own = told(of(0, "ann"), of(1, "ann"))
    assert missing("deploy", own, "acme", "ann")
    assert not missing("deploy", own, "acme", "bob")
    assert not missing("deploy", own, "acme")
    assert missing("deploy", told(of(0, "ann"), success(1)), "acme")
    (found,) = missing(success(0).pattern_key, told(of(0, "ann"), of(1, "bob")), "acme", "carol")
    assert found.contributions == 2


def test_what_only_mentions_the_words_is_not_proposed() -> None:
    mentions = [success(n) for n in range(6)]
    mentions = [each.model_copy(update={"body": {**each.body, "said": "rotate keys"}}) for each in mentions]
    rotated = success(10, "rotate")
    found = missing("rotate keys", told(*mentions, rotated), "acme")
    assert [each.pattern.key for each in found] == [task_of(rotated).key]


def test_a_title_is_never_the_key_of_a_group() -> None:
    nameless = [success(n).model_copy(update={"body": {**success(n).body, "goal": "", "goals": []}}) for n in range(2)]
    assert all(":" not in found.title for found in missing("deploy", told(*nameless), "acme"))


@pytest.mark.parametrize(
    ("need", "said"),
    [
        (Need("successes", 2, 5), "2 of 5 successes"),
        (Need("bound", 0.38123, 0.5), "bound 0.3812, at least 0.5"),
        (Need("chance", 0.3, 0.05, at_most=True), "chance 0.3, at most 0.05"),
        (Need("effects", 0, 1), "effects 0, at least 1"),
    ],
)
def test_a_need_is_said_as_a_person_would(need: Need, said: str) -> None:
    assert words_of(need) == said


def test_what_is_met_says_what_is_enough() -> None:
    assert words_of(Need("successes", 7, 5)) == "7 successes, 5 are enough"


def artifact(contributions: list[Contribution]) -> dict[str, Any]:
    log = records(contributions)
    (output,) = run(PatternsFold, [*log, control("barrier", 1, len(log))]).on(ARTIFACTS)
    found: dict[str, Any] = orjson.loads(output.value or b"")
    return found


def test_an_artifact_is_explained_by_its_evidence_its_needs_and_its_versions() -> None:
    rests_on = [success(n) for n in range(6)]
    active = artifact(rests_on)
    known = [orjson.loads(c.to_json()) for c in rests_on]
    reasons = explain(active, [active], [*known[:5], None], START_MS)
    assert [e.session_id for e in reasons.evidence] == [f"session-{n}" for n in reversed(range(5))]
    assert reasons.unresolved == 1
    assert all(need.met for need in reasons.needs)
    assert [(t.version, t.status, t.cause) for t in reasons.versions] == [(1, "active", "validation passed")]
    assert not reasons.decayed
    assert explain(active, [active], known, START_MS + DECAYED_MS + 1_000).decayed
    assert orjson.loads(orjson.dumps(reasons.as_json()))["needs"] == needs_as_json(reasons.needs)
