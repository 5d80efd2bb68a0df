"""Where a session stands in a procedure, what blocks it and what is next (HMX-C §6), and the rules that hold (§7)."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Step
from hmx_pipeline.contracts.limits import PACK_CONSTRAINTS, PACK_NEXT_STEPS
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.packs.vocabulary import in_overview
from hmx_pipeline.retrieval.score import FoundSource, MemorySnapshot
from tests.pure.packs.test_assemble import ask
from tests.pure.packs.test_drops import knowing, record
from tests.support.memory import T0, artifact, episode, fetched, procedure
from tests.support.segments import Script

STEPS = ("check it", "apply it", "wait for it", "verify it", "report it")


def act(name: str, index: int, ok: bool | None = None, role: Role = Role.CALL, text: str = "") -> Step:
    return Step(event_id=f"x{index}", at=T0, role=role, index=index, name=name, ok=ok, text=text)


def played(*names: str) -> list[Step]:
    """Each a call with its result; `!` before a name: it failed."""
    steps = []
    for number, name in enumerate(names):
        tool, ok = name.removeprefix("!"), not name.startswith("!")
        steps.append(act(tool, 2 * number))
        steps.append(act(tool, 2 * number + 1, ok, Role.RESULT, "" if ok else f"{tool} said no"))
    return steps


def hints(*names: str, steps: tuple[str, ...] = STEPS, **memory: Any) -> Any:
    schema = artifact("a1", content=procedure(*steps))
    found = fetched([], [schema, *memory.pop("more", ())], session=tuple(played(*names)))
    return ask(found, session_id="s1").workflow_hints


@pytest.mark.requirement("C-18")
@pytest.mark.parametrize(
    ("names", "current"),
    [
        ((), 1),
        (("check",), 2),
        (("check", "apply", "wait"), 4),
        (("check", "check", "check"), 2),
        (("check", "wait"), 4),
        (("check", "apply", "check", "wait"), 4),
        (("check", "ls", "apply", "cat"), 3),
        (("check", "!apply"), 2),
        (("check", "!apply", "apply"), 3),
        (("check", "apply", "wait", "verify", "report"), 5),
        (("check", "apply", "wait", "verify", "report", "check"), 2),
        (("wait", "verify"), 5),
    ],
)
def test_the_current_step_is_the_one_after_what_was_done(names: tuple[str, ...], current: int) -> None:
    found = hints(*names)
    assert (found.current_step, found.total_steps) == (current, 5)
    through = names[-1:] == ("report",)
    assert [step.description for step in found.suggested_next_steps] == list(
        STEPS[current - 1 :] if not through else ()
    )


@pytest.mark.requirement("C-18")
def test_a_step_that_comes_twice_is_not_taken_for_its_second_time() -> None:
    steps = ("check it", "apply it", "wait for it", "check it again")
    assert hints("check", "check", steps=steps).current_step == 2
    assert hints("check", "apply", "wait", "check", steps=steps).suggested_next_steps == []


@pytest.mark.requirement("C-18")
@given(st.lists(st.sampled_from(["keep", "skip", "repeat", "other"]), min_size=5, max_size=5))
def test_with_one_step_skipped_or_repeated_and_others_between_the_place_is_found(plan: list[str]) -> None:
    if plan.count("skip") > 1:
        return
    names, last = [], 0
    for number, (step, what) in enumerate(zip(STEPS, plan, strict=True), 1):
        tool = step.split()[0]
        if what == "skip":
            continue
        names += [tool, tool] if what == "repeat" else [tool, "ls"] if what == "other" else [tool]
        last = number
    assert hints(*names).current_step == min(last + 1, 5)


def test_two_commands_of_one_tool_are_two_steps() -> None:
    steps = [
        {"order": 1, "description": "Run `git commit`", "tools_used": ["git"]},
        {"order": 2, "description": "Run `git push`", "tools_used": ["git"]},
        {"order": 3, "description": "Run `gh pr`", "tools_used": ["gh"]},
    ]
    pushed = (act("git push", 0, True, Role.ACTION),)
    found = ask(fetched([], [artifact("a1", content={"steps": steps})], session=pushed), session_id="s1")
    assert found.workflow_hints is not None
    assert found.workflow_hints.current_step == 3


def test_a_failure_blocks_until_the_same_has_worked() -> None:
    assert hints("check", "!apply", "ls").blockers == ["apply: apply said no"]
    assert hints("!check", "!apply", "check").blockers == ["apply: apply said no"]
    assert hints("!apply", "apply").blockers == []
    lone = (act("KeyError", 0, None, Role.ERROR, "no such key"),)
    pack = ask(fetched([episode("e1")], session=lone), session_id="s1")
    assert pack.workflow_hints is not None
    assert pack.workflow_hints.blockers == ["KeyError: no such key"]
    assert (pack.workflow_hints.active_task_schema, pack.workflow_hints.current_step) == (None, None)


def test_what_has_helped_with_an_open_failure_is_suggested_first() -> None:
    content = {"failure_pattern": "Apply fails: apply said no", "recovery_steps": ["Create the namespace", "Wait"]}
    playbook = artifact("p1", "Said no", artifact_type="failure_playbook", content=content)
    other = artifact(
        "p2", "Time", artifact_type="failure_playbook", content={**content, "failure_pattern": "timed out"}
    )
    found = hints("check", "!apply", more=[playbook, other])
    first, second, *_ = found.suggested_next_steps
    assert (first.description, first.artifact_id) == ("Create the namespace", "p1")
    assert (second.description, second.artifact_id) == ("apply it", "a1")
    assert [s.artifact_id for s in hints("check", "apply", more=[playbook, other]).suggested_next_steps] == ["a1"] * 3
    long = tuple(f"step{i} do" for i in range(30))
    assert len(hints(steps=long).suggested_next_steps) == PACK_NEXT_STEPS


def test_what_past_sessions_did_stands_before_the_procedure_and_says_nothing_twice() -> None:
    def past(number: int) -> list[Contribution]:
        made = Script(f"past-{number}")
        made.user("deploy staging")
        for tool in ("check", "apply", "report"):
            made.tool(tool)
        made.add(Role.ACTION, name="edit", text="deploy/staging.yaml", ok=True)
        return [c for c in contributions(made.segment()) if c.pattern_type in ("course", "touched")]

    told = [c for number in range(4) for c in past(number)]
    precedents = tuple(FoundSource(one, 1000) for one in told)
    memory = fetched([], [artifact("a1", content=procedure("wait for it"))], session=tuple(played("check", "apply")))
    pack = ask(replace(memory, precedents=precedents), session_id="s1")
    assert pack.workflow_hints is not None
    first, *others, files, last = pack.workflow_hints.suggested_next_steps
    assert (first.description, first.tools) == ("Report", ["report"])
    assert all(step.confidence < first.confidence / 2 for step in others)
    assert files.description == "Look at deploy/staging.yaml"
    assert last.description == "wait for it"
    sessions = {c.contribution_id: {"session_id": c.session_id} for c in told}
    assert pack.metadata["precedents"] == {
        step.artifact_id: sessions[step.artifact_id] for step in (first, *others, files)
    }
    agreeing = replace(memory, artifacts=(FoundSource(artifact("a1", content=procedure("Report")), 1000),))
    hints = ask(replace(agreeing, precedents=precedents), session_id="s1").workflow_hints
    assert hints is not None
    assert [step.description for step in hints.suggested_next_steps] == [files.description, "Report"]


def policy(name: str, text: str, by: str = "user") -> Any:
    return record(name, text, kind="policy", body={"memory": "policy", "said_by": [by]})


@pytest.mark.requirement("C-05", "C-19", "X20")
def test_a_users_standing_rule_must_not_be_overridden_and_what_was_learnt_may() -> None:
    decided = artifact(
        "d1", "Which tool", artifact_type="decision_policy",
        content={"condition": "Which tool for migrations?", "recommendation": "Choose the online tool"},
    )  # fmt: skip
    memory = MemorySnapshot(
        "v1",
        T0,
        artifacts=(FoundSource(decided, 1000),),
        policies=(policy("r1", "When deploying, do not skip the tests"), policy("r2", "Always sign", by="event")),
    )
    pack = ask(memory, query="something else")
    told = {each.artifact_id: each for each in pack.decision_constraints or ()}
    assert [(name, one.override_allowed) for name, one in told.items()] == [("r1", False), ("d1", True), ("r2", True)]
    assert (told["r1"].condition, told["r1"].constraint) == ("When deploying", "When deploying, do not skip the tests")
    assert told["r2"].condition == "always"
    assert (told["d1"].condition, told["d1"].constraint) == ("Which tool for migrations?", "Choose the online tool")
    assert {e.source_id for e in pack.entries if e.section is Section.CORE} == {"r1", "r2"}
    assert ask(memory, sections=["episodes"]).decision_constraints is None


@pytest.mark.requirement("C-19", "C-25")
def test_there_are_at_most_twenty_constraints_and_none_that_does_not_hold() -> None:
    many = knowing(*(policy(f"r{i:02}", f"Always do thing{i}") for i in range(30)))
    assert len(ask(many).decision_constraints or ()) == PACK_CONSTRAINTS
    gone = record("r1", "Always rebase", kind="policy", body={"said_by": ["user"]}, end=T0)
    assert ask(knowing(gone)).decision_constraints is None


def test_temporal_questions_rank_what_lies_in_the_time_that_they_name() -> None:
    day = 86_400_000
    said = [episode(f"e{i}", f"word{i} release", at=T0 - i * 30 * day, index=i) for i in range(6)]
    entries = ask(fetched(said), query="what did we release in December", weights={"relevance": 0.0, "recency": 1.0,
                  "provenance": 0.0, "salience": 0.0}).entries  # fmt: skip
    assert entries[0].source_id == "e3", "2025-12-14"
    assert entries[0].relevance_score == 1.0


@pytest.mark.requirement("X13")
def test_in_the_overviews_words_only_the_types_of_sources_are_others() -> None:
    memory = fetched([episode("e1")], [artifact("a1")])
    pack = ask(memory, token_budget=60)
    told = in_overview(pack)
    assert {e.source_type.value for e in (*told.entries, *(told.dropped_entries or ()))} == {"event", "artifact"}
    plain, other = pack.model_dump(mode="json"), told.model_dump(mode="json")
    for fields in (plain, other):
        for one in (*fields["entries"], *fields["dropped_entries"]):
            del one["source_type"]
    assert plain == other
