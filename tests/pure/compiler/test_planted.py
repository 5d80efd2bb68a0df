"""What was planted is found, noise is not, and the order of arrival is nowhere in it."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.candidate import candidate
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.options import Status
from tests.support.runs import run_of, schema, tasks
from tests.support.segments import START, Script

PROCEDURE = ("get_manifest", "check_namespace", "build_image", "apply_manifest", "run_smoke_test", "notify_team")
OPTIONAL = "run_smoke_test"
SERVICE = (("service", "checkout"),)
HOUR = 3_600_000


def script(number: int, goal: str = "Deploy the checkout service to staging") -> Script:
    made = Script(f"session-{number:03}", start=START + number * HOUR)
    made.user(goal)
    return made


def compiled(scripts: list[Script], kind: str) -> list[ArtifactCandidate]:
    said: dict[str, list[Contribution]] = {}
    for made in scripts:
        for one in contributions(made.segment()):
            if one.pattern_type == kind:
                said.setdefault(one.pattern_key, []).append(one)
    return [found for key in sorted(said) if (found := candidate(said[key])) is not None]


def procedures(scripts: list[Script]) -> list[ArtifactCandidate]:
    return list(tasks([run_of(made.segment()) for made in scripts]).values())


def deployments(count: int, noise: float = 0.0, good: int | None = None) -> list[Script]:
    """Runs of the six steps, one of them in 60 %, with stray steps and the feedback of an evaluator."""
    chance = random.Random(7)
    made = []
    for number in range(count):
        one = script(number)
        for step in PROCEDURE:
            if chance.random() < noise:
                one.tool(f"stray_{chance.randrange(30)}", arguments=SERVICE)
            if step != OPTIONAL or number % 5 < 3:
                one.tool(step, arguments=SERVICE)
        one.feedback("positive" if good is None or number < good else "negative")
        made.append(one)
    return made


@pytest.mark.requirement("A-09", "A-11")
@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_a_planted_procedure_is_recovered_with_its_optional_step(noise: float) -> None:
    (found,) = procedures(deployments(20, noise))
    steps = found.content["steps"]
    assert [step["description"] for step in steps] == [f"Run `{tool}(service=checkout)`" for tool in PROCEDURE]
    assert [(step["tool_name"], step["arguments"]) for step in steps] == [(tool, dict(SERVICE)) for tool in PROCEDURE]
    assert [step["tools_used"] for step in steps] == [[tool] for tool in PROCEDURE]
    assert [step["order"] for step in steps] == [1, 2, 3, 4, 5, 6]
    assert [step["tools_used"][0] for step in steps if step["optional"]] == [OPTIONAL]
    assert found.content["tools_used"] == list(PROCEDURE)
    assert found.content["estimated_complexity"] == "medium"
    assert found.status is Status.ACTIVE
    assert found.title == "Deploy the checkout service to staging"


@pytest.mark.requirement("A-11")
def test_states_that_most_good_runs_have_reached_are_postconditions() -> None:
    runs = []
    for number, one in enumerate(deployments(10)):
        one.add(Role.STATE, text="The service is healthy")
        one.add(Role.STATE, text=f"Build {number} is live")
        runs.append(one)
    (found,) = procedures(runs)
    assert found.content["postconditions"] == ["State: The service is healthy"]
    assert found.content["preconditions"] == []


@pytest.mark.requirement("A-11")
def test_what_differs_from_case_to_case_is_a_slot_and_stands_for_it_in_the_wish_too() -> None:
    services = ["checkout", "billing", "search", "stock", "mail", "login", "export", "feed"]
    runs = []
    for number, service in enumerate(services):
        one = script(number, f"Deploy the service {service} to staging")
        one.command(f"kube build {service}")
        one.command(f"kube apply --target staging {service}-image")
        one.feedback("positive")
        runs.append(one)
    (found,) = procedures(runs)
    commands = [step["command"] for step in found.content["steps"]]
    assert commands == ["kube build <service>", "kube apply --target staging <service>-image"]
    assert found.content["goals"] == ["Deploy the service <service> to staging"]
    assert {name: slot["source"] for name, slot in found.content["slots"].items()} == {"service": "goal"}


@pytest.mark.requirement("A-06")
def test_only_bad_runs_that_followed_the_steps_speak_against_them() -> None:
    def bad(number: int, *steps: str, failing: str = "") -> Script:
        one = script(number)
        for step in steps:
            one.tool(step, arguments=SERVICE)
        if failing:
            one.tool(failing, ok=False, error="refused", arguments=SERVICE)
        one.feedback("negative")
        return one

    def sure(*more: Script) -> float:
        (found,) = procedures([*deployments(10), *more])
        return found.confidence

    alone = sure()
    assert sure(bad(10, "get_manifest", "apply_manifest"), bad(11, "get_manifest")) == alone
    assert sure(bad(10, *PROCEDURE)) < alone
    assert sure(bad(10, *PROCEDURE[:3], failing=PROCEDURE[3])) < alone


@pytest.mark.requirement("A-16")
@pytest.mark.parametrize(("count", "status"), [(2, None), (3, Status.DRAFT), (4, Status.DRAFT), (5, Status.ACTIVE)])
def test_few_successes_make_a_draft_at_most(count: int, status: Status | None) -> None:
    found = procedures(deployments(count))
    assert [one.status for one in found] == ([] if status is None else [status])


@pytest.mark.requirement("A-16")
def test_one_session_is_not_enough_however_often_it_repeats() -> None:
    parts = [run_of(made.segment()) for made in deployments(8)]
    assert schema([part.model_copy(update={"session_id": "the-only-one"}) for part in parts]) is None
    bare = []
    for number in range(8):
        one = script(number)
        one.tools(PROCEDURE)
        one.feedback("positive")
        bare.append(run_of(one.segment()).model_copy(update={"session_id": "the-only-one"}))
    found = schema(bare)
    assert found is not None
    assert found.status is Status.DRAFT


@pytest.mark.requirement("A-06")
def test_identical_successes_raise_confidence_and_failures_lower_it() -> None:
    rising = [procedures(deployments(n))[0].confidence for n in range(3, 11)]
    assert rising == sorted(set(rising))
    falling = [procedures(deployments(n, good=10))[0].confidence for n in range(10, 16)]
    assert falling == sorted(set(falling), reverse=True)


@pytest.mark.requirement("A-09")
@pytest.mark.parametrize("seed", range(5))
def test_noise_is_no_procedure(seed: int) -> None:
    chance = random.Random(seed)
    runs = []
    for number in range(20):
        one = script(number)
        for tool in chance.sample([f"tool_{n}" for n in range(30)], 6):
            one.tool(tool, arguments=SERVICE)
        one.feedback("positive")
        runs.append(one)
    told = [run_of(made.segment()) for made in runs]
    assert schema(told) is None
    assert tasks(told) == {}


@pytest.mark.requirement("A-09")
def test_errors_that_have_nothing_in_common_are_no_playbook() -> None:
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa"]
    runs = []
    for number, word in enumerate(words):
        one = script(number)
        one.tool("apply_manifest", ok=False, error=f"the {word} went astray", kind=f"{word}Error")
        one.tool("apply_manifest")
        runs.append(one)
    assert compiled(runs, "failure_playbook") == []


def incidents(good: int = 10, bad: int = 10) -> list[Script]:
    """A timeout after which restarting works 9 of 10 times and waiting 3 of 10 times."""
    runs = []
    for number in range(good + bad):
        one = script(100 + number)
        way, works = ("restart_pod", number != 4) if number < good else ("wait_a_minute", number - good < 3)
        one.tool("get_manifest")
        one.tool(
            "apply_manifest", ok=False, values=(f"pod-{number}",), error=f"timed out after {number}s", kind="Timeout"
        )
        one.tool(way)
        failed = {"ok": False, "error": f"timed out after {number + 1}s", "kind": "Timeout"}
        one.tool("apply_manifest", values=(f"pod-{number}",), **({} if works else failed))
        runs.append(one)
    return runs


@pytest.mark.requirement("A-09", "A-12")
def test_the_better_recovery_comes_first() -> None:
    (found,) = compiled(incidents(), "failure_playbook")
    assert found.content["recovery_steps"] == [
        "Restart pod, then apply manifest again unchanged (worked in 9 of 10 sessions)",
        "Wait a minute, then apply manifest again unchanged (worked in 3 of 10 sessions)",
    ]
    assert found.content["failure_pattern"] == "Apply manifest fails: Timeout: timed out"
    assert found.content["trigger_conditions"] == [], "nothing shows that it works after anything else"
    assert found.content["severity"] == "medium"
    assert found.content["prevention_strategies"] == []
    assert found.status is Status.ACTIVE
    assert (found.observed_count, found.success_rate) == (20, 0.6)


@pytest.mark.requirement("A-12")
def test_prevention_is_what_tries_that_worked_had_before_them() -> None:
    runs = []
    for number in range(12):
        one = script(number)
        one.tool("check_quota")
        one.tool("apply_manifest")
        one.tool("apply_manifest", ok=False, error="quota exceeded", kind="Quota")
        one.tool("request_quota")
        one.tool("apply_manifest")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    (strategy,) = found.content["prevention_strategies"]
    assert strategy.startswith(
        "Check quota first: done before 12 of 12 tries to apply manifest that worked and 0 of 12"
    )


@pytest.mark.requirement("A-16")
@pytest.mark.parametrize(
    ("count", "recovered", "status"), [(2, 1, "draft"), (2, 2, "active"), (3, 1, "draft"), (3, 2, "active")]
)
def test_a_playbook_needs_two_recoveries_and_says_while_it_is_young(count: int, recovered: int, status: str) -> None:
    runs = []
    for number in range(count):
        one = script(number)
        one.tool("apply_manifest", ok=False, error="timed out", kind="Timeout")
        if number < recovered:
            one.tool("restart_pod")
            one.tool("apply_manifest")
        runs.append(one)
    (found,) = compiled(runs, "failure_playbook")
    assert found.status == status
    assert "still young" in found.content["recovery_steps"][0]


@pytest.mark.parametrize(("error", "titles"), [("[lint] 3 issues", []), ("[fmt] 3 issues", ["[fmt] issues"])])
def test_a_failure_is_not_blamed_on_another_command_of_the_line(error: str, titles: list[str]) -> None:
    runs = []
    for number in range(4):
        one = script(number)
        one.command("just fmt && just lint", ok=False, error=error)
        one.tool("write_file")
        one.command("just fmt && just lint")
        runs.append(one)
    assert [found.title.partition(" (")[0] for found in compiled(runs, "failure_playbook")] == titles


def test_playbooks_of_different_tools_and_messages_stay_apart() -> None:
    runs = []
    for number in range(4):
        one = script(number)
        for tool, message in (("apply", "not found"), ("apply", "timed out"), ("fetch_it", "not found")):
            one.tool(tool, ok=False, error=message, kind="Broken")
        runs.append(one)
    titles = [found.title for found in compiled(runs, "failure_playbook")]
    assert sorted(titles) == ["Broken: not found (apply)", "Broken: not found (fetch it)", "Broken: timed out (apply)"]


EVIDENCE = [one for run in (*deployments(7, 0.3, good=5), *incidents(4, 4)) for one in contributions(run.segment())]


@given(st.permutations(EVIDENCE))
def test_arrival_order_decides_nothing(arrived: list[Contribution]) -> None:
    for key in sorted({one.pattern for one in EVIDENCE}):
        told = candidate([one for one in arrived if one.pattern == key])
        assert told == candidate([one for one in EVIDENCE if one.pattern == key])
    assert tasks(runs_of(arrived)) == tasks(runs_of(EVIDENCE))


def runs_of(told: list[Contribution]) -> list[Contribution]:
    return [one for one in told if one.pattern_type == "run"]


@pytest.mark.requirement("A-04", "A-05")
def test_sources_are_events_of_the_segments_and_memories_their_contributions() -> None:
    runs = incidents()
    events = {step.event_id for run in runs for step in run.steps}
    (found,) = compiled(runs, "failure_playbook")
    told = [one for run in runs for one in contributions(run.segment()) if one.pattern_type == "failure_playbook"]
    assert set(found.source_events) <= events
    assert len(found.source_events) == len(set(found.source_events))
    assert sorted(found.source_memory_ids) == sorted(one.contribution_id for one in told)
