"""Small budgets: what decides stays whole, and what only helps to find or to fill it in goes first."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.packs.entry_lines import EntryLines
from hmx_pipeline.packs.render import MARKER
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.terms import terms
from tests.pure.packs.test_assemble import ask
from tests.support.memory import artifact, episode, fetched, procedure

ERROR = "ImagePullBackOff: Back-off pulling image"
FIX = f"If `kubectl rollout status` fails with “{ERROR}”: run `kubectl create secret regcred`, then try again"
OTHER = "If `helm upgrade` fails with “timed out”: run `helm rollback`, then try again"
STEPS = [f"{n}. Run `step-{n} --with several --options that take --some tokens`" for n in range(1, 9)]
LINES = [
    "Deploy <service> to staging", "Goal: Deploy <service> to staging", "Goal: Bring <service> to staging",
    "<service>: ledger, cart", "Before: the checks are green", *STEPS, OTHER, FIX, "Done when: it is rolled out",
]  # fmt: skip
FAILS = "The staging deploy fails with image pull errors, what now?"


def forms(question: str, *, fails: bool) -> list[str]:
    return list(EntryLines("\n".join(LINES), frozenset(terms(question)), fails=fails).shorter())


def test_each_form_has_whole_lines_and_fewer_of_them() -> None:
    for question, fails in ((FAILS, True), ("Deploy the ledger", False)):
        found = [form.splitlines() for form in forms(question, fails=fails)]
        assert all(line in (*LINES, "… [truncated]") for form in found for line in form)
        assert all(set(shorter) < set(longer) for longer, shorter in pairwise(found))
        assert all(form[0] == LINES[0] and form[-1].endswith(MARKER) for form in found)


def test_the_fix_that_is_asked_for_stays_longest_and_else_the_steps() -> None:
    assert forms(FAILS, fails=True)[-1].splitlines()[1:-1] == [FIX]
    assert forms(f"kubectl rollout status: {ERROR} nginx", fails=False)[-1].splitlines()[1:-1] == [FIX]
    assert forms("Deploy the ledger to staging", fails=False)[-1].splitlines()[1:-1] == STEPS
    assert forms("The printer fails", fails=True)[-1].splitlines()[1:-1] == STEPS, "no fix here is for printers"


def test_of_slots_only_those_are_told_that_the_lines_have() -> None:
    lines = [
        "Deploy",
        "<a>: 1, 2",
        "<b> stands in the wish",
        "1. Run `x <a>`",
        "If `x <b>` fails with “timeout”: run `y <b>`",
    ]
    forms = [*EntryLines("\n".join(lines), frozenset(terms("a timeout")), fails=True).shorter()]
    assert [form.splitlines()[1:-1] for form in forms] == [[lines[2], lines[4]], [lines[4]]]


def test_a_playbook_keeps_its_recovery() -> None:
    text = "\n".join(
        ["Rollout fails", f"Fails as: {ERROR}", "When: in staging", "Recover: Run `x` (worked in 2)", "Prevent: y"]
    )
    found = [*EntryLines(text, frozenset(terms(FAILS)), fails=True).shorter()]
    assert found[-1].splitlines()[1:-1] == ["Recover: Run `x` (worked in 2)"]


def _memory() -> Any:
    content = procedure(*(line.partition(". ")[2] for line in STEPS))
    way = {
        "step": "kubectl rollout status",
        "error": ERROR,
        "run": ["kubectl create secret regcred"],
        "worked": 4,
        "sessions": 6,
    }
    whole = artifact("a1", content={**content, "recovery": [way]})
    known = {
        "failure_pattern": f"Rollout fails: {ERROR}",
        "recovery_actions": ["Run `kubectl create secret regcred` (worked in 4 of 6 sessions)"],
    }
    playbook = artifact("p1", f"Rollout: {ERROR}", artifact_type="failure_playbook", content=known)
    said = [
        episode(f"e{n}", f"Deploy the {name} service, please, and {'say ' * 9}when", index=n)
        for n, name in enumerate("abc")
    ]
    return fetched(said, [whole, playbook])


def _shown(pack: ContextPack) -> str:
    return "\n".join(entry.content for entry in pack.entries)


@pytest.mark.parametrize("budget", [120, 160, 200, 300, 400])
def test_a_small_pack_says_the_fix_whole(budget: int) -> None:
    pack = ask(_memory(), query=FAILS, token_budget=budget)
    assert "`kubectl create secret regcred`" in _shown(pack)


@given(st.integers(60, 500))
def test_no_pack_shows_half_of_the_steps_where_all_fit(budget: int) -> None:
    shown = _shown(ask(_memory(), query="Deploy the ledger to staging", token_budget=budget))
    told = sum(step.partition(". ")[2] in shown for step in STEPS)
    needed = estimate("\n".join([LINES[0], *STEPS])) + 60
    assert told in (0, len(STEPS)) or budget < needed
