"""What an action is done to, and by what names it is found again."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.segments.targets import Height, Target, names_in, target_of, target_of_action


def height(target: Target, query: str) -> int:
    """The highest at which a query names it; 0 where it does not."""
    named = set(names_in(query))
    return max((name[0] for name in target.names if name in named), default=0)


@pytest.mark.parametrize(
    ("tool", "values", "name"),
    [
        ("Edit", ("/home/me/shop/cmd/cart/totals.go", "12"), "cmd/cart/totals.go"),
        ("Read", ("./totals.go",), "totals.go"),
        ("Bash", ("git commit -m 'totals'", "Commit"), "git commit"),
        ("Bash", ("cd /srv && python3 -m pytest tests/unit",), "pytest"),
        ("run_shell", ("ls",), "ls"),
        ("mcp__tracker__create_issue", ("Totals are wrong",), "mcp__tracker__create_issue"),
        ("ExitPlanMode", (), "ExitPlanMode"),
        ("", ("git push",), "git push"),
    ],
)
def test_a_call_is_about_a_file_else_a_command_else_its_tool(tool: str, values: tuple[str, ...], name: str) -> None:
    target = target_of(tool, values)
    assert target is not None
    assert target.name == name


@pytest.mark.parametrize(
    ("tool", "values"),
    [
        ("Edit", (f"src/{'x' * 50_000}.go",)),
        ("Edit", (f"{'x' * 50_000}/totals.go",)),
        ("T" * 50_000, ()),
        ("Bash", ("run-" + "x" * 50_000,)),
        ("", ("x" * 50_000,)),
    ],
)
def test_however_long_a_name_is_its_target_is_short_and_found_by_it(tool: str, values: tuple[str, ...]) -> None:
    target = target_of(tool, values)
    assert target is not None
    assert max(map(len, target)) <= 400
    assert height(target, f"{tool} {' '.join(values)}".strip()) is Height.EXACT


@pytest.mark.parametrize(
    "step",
    [
        Step("e", 0, Role.ACTION, name="edit", text=f"src/{'x' * 50_000}.go"),
        Step("e", 0, Role.ACTION, name="x" * 50_000),
        Step("e", 0, Role.CALL, name="x" * 50_000),
    ],
)
def test_an_action_with_a_long_name_has_a_short_target_too(step: Step) -> None:
    target = target_of_action(step)
    assert target is not None
    assert max(map(len, target)) <= 400


def test_a_call_that_names_nothing_has_no_target() -> None:
    assert target_of("", ()) is None


@pytest.mark.parametrize(
    ("role", "name", "text", "expected"),
    [
        (Role.ACTION, "edit", "src/cart/totals.py", "src/cart/totals.py"),
        (Role.ACTION, "git rebase main", "output", "git rebase"),
        (Role.TEST, "npm run test:unit -- --watch", "output", "npm run test:unit"),
    ],
)
def test_an_action_of_its_own_is_named_likewise(role: Role, name: str, text: str, expected: str) -> None:
    target = target_of_action(Step("e", 0, role, name=name, text=text))
    assert target is not None
    assert target.name == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Edit /elsewhere/cmd/cart/totals.go", Height.EXACT),
        ("why do we change totals.go?", Height.FILE),
        ("write cmd/cart/totals_test.go first", Height.FILE),
        ("look at cmd/cart/taxes.go", Height.NEAR),
        ("Edit the taxes", Height.TOOL),
        ("what are our totals?", 0),
    ],
)
def test_a_file_is_named_exactly_or_by_its_test_its_directory_its_tool(query: str, expected: int) -> None:
    assert height(Target("cmd/cart/totals.go", "Edit"), query) == expected


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Bash git commit --amend", Height.EXACT),
        ("may I run `git commit -a` here?", Height.EXACT),
        ("how should git commit messages look", Height.EXACT),
        ("Bash: git push origin", Height.NEAR),
        ("Bash ls", Height.TOOL),
        ("commit to the plan", 0),
    ],
)
def test_a_command_is_named_exactly_or_by_its_program_or_tool(query: str, expected: int) -> None:
    assert height(Target("git commit", "Bash"), query) == expected


def test_a_text_of_any_length_names_a_bounded_number_of_things() -> None:
    assert len(names_in(" ".join(f"a{n}/b{n}.py" for n in range(5_000)))) <= 128


@given(st.text())
@example("你好吗")
@example("?")
def test_any_text_can_be_looked_at_for_names(text: str) -> None:
    assert all(name for _, name in names_in(text))
