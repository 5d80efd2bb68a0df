"""What is known about some words, and how the rest would be learnt: in sentences, of every kind of thing."""

from dataclasses import replace

from hmx_pipeline.audit.artifact_reasons import missing
from hmx_pipeline.audit.coverage import Coverage, lessons
from tests.pure.audit.test_artifact_reasons import success, told
from tests.pure.packs.test_assemble import ask
from tests.pure.packs.test_drops import knowing, record
from tests.support.memory import artifact, fetched, procedure

NOTHING = fetched()


def by_kind(found: list[Coverage]) -> dict[str, Coverage]:
    return {lesson.kind: lesson for lesson in found}


def test_of_what_is_not_known_each_kind_says_how_it_would_be_learnt() -> None:
    found = by_kind(lessons("deploys", ask(NOTHING), []))
    assert set(found) == {"procedure", "fix", "rule", "fact"}
    assert not any(lesson.known for lesson in found.values())
    assert found["rule"].said.startswith(
        "No rule about “deploys” is known. Rules are read from users' messages such as “Never deploy on Fridays.”"
    )
    assert all(lesson.said.endswith((".", ".”")) for lesson in found.values())


def test_what_is_known_is_named_with_its_id() -> None:
    rule = record("r1", "Never deploy staging on Fridays", kind="policy", body={"subject": "deploy", "negated": True})
    memory = replace(fetched([], [artifact("a1")]), knowledge=knowing(rule).knowledge)
    found = by_kind(lessons("deploy staging", ask(memory), []))
    assert found["procedure"] == Coverage("procedure", True, "A procedure is known: Deploy staging (a1)")
    assert found["rule"] == Coverage("rule", True, "A rule is known: Never deploy staging on Fridays (r1)")
    assert not found["fix"].known


def test_a_rule_about_something_else_is_none_about_these_words() -> None:
    rule = record("r1", "Never push to main", kind="policy", body={"subject": "push to main", "negated": True})
    assert not by_kind(lessons("deploy staging", ask(knowing(rule)), []))["rule"].known


def test_what_is_being_learnt_says_what_it_lacks() -> None:
    growing = missing("deploy", told(success(0), success(1)), "acme")
    procedure = by_kind(lessons("deploy", ask(NOTHING), growing))["procedure"]
    assert not procedure.known
    assert procedure.said.startswith("A procedure is being learnt: ")
    assert "2 of 5 successes" in procedure.said


def test_what_is_active_is_known_and_not_being_learnt() -> None:
    active = missing("deploy", told(*(success(n) for n in range(6))), "acme")
    procedure = by_kind(lessons("deploy", ask(NOTHING), active))["procedure"]
    assert procedure.known
    assert procedure.said == f"A procedure is known: {active[0].title} ({active[0].artifact_id})"


def test_a_thing_that_has_half_of_the_words_is_not_what_was_asked_for() -> None:
    memory = fetched([], [artifact("a1", "Deploy staging")])
    assert not by_kind(lessons("deploy scanner", ask(memory), []))["procedure"].known
    growing = missing("deploy scanner", told(success(0), success(1)), "acme")
    assert "being learnt" not in by_kind(lessons("deploy scanner", ask(NOTHING), growing))["procedure"].said


def test_the_way_out_of_a_procedure_is_a_fix_for_its_error() -> None:
    way = {"step": "push", "error": "registry denied the image", "run": ["login"], "worked": 2, "sessions": 3}
    memory = fetched([], [artifact("a1", content={**procedure("push"), "recovery": [way]})])
    found = by_kind(lessons("registry denied", ask(memory, query="registry denied"), []))
    assert found["fix"] == Coverage("fix", True, "A fix is known: Deploy staging (a1)")
    assert not by_kind(lessons("deploy staging", ask(memory), []))["fix"].known
