"""What `make conformance` says of the rows of the requirements is what the tests are marked with."""

import io

import pytest
from rich.console import Console

from tests.conftest import pytest_runtest_setup
from tests.support.conformance import Collected, proofs_of, show
from tests.support.requirements import GROUPS, REQUIREMENTS


def test_a_test_whose_row_is_not_listed_fails(request: pytest.FixtureRequest) -> None:
    request.node.add_marker(pytest.mark.requirement("Z-99"))
    with pytest.raises(pytest.fail.Exception, match="Z-99"):
        pytest_runtest_setup(request.node)


def test_every_row_stands_once() -> None:
    assert len(REQUIREMENTS) == sum(map(len, GROUPS.values()))
    assert all(0 < len(words) <= 80 for words in REQUIREMENTS.values())


def test_a_function_s_parameters_are_one_proof_that_failed_where_one_of_them_did() -> None:
    nodes = ["tests/pure/a.py::test_it_holds[1]", "tests/pure/a.py::test_it_holds[2]", "tests/b.py::test_more"]
    outcomes = {nodes[0]: "passed", nodes[1]: "failed"}
    first, second = proofs_of(nodes, outcomes)
    assert (first.file, first.sentence, first.runs, first.failed) == ("pure/a.py", "it holds", 2, True)
    assert (second.failed, second.passed) == (False, False)


def said(collected: Collected) -> tuple[bool, str]:
    console = Console(file=io.StringIO(), width=80)
    complete = show(collected, console)
    assert isinstance(console.file, io.StringIO)
    return complete, console.file.getvalue()


def test_a_row_without_a_proof_is_open_and_one_whose_proof_failed_is_not_proven() -> None:
    collected = Collected()
    collected.proofs.update({row: [f"tests/a.py::test_{n}"] for n, row in enumerate(REQUIREMENTS)})
    assert said(collected)[0]
    collected.outcomes["tests/a.py::test_0"] = "failed"
    complete, text = said(collected)
    assert (complete, "failed: E-01\n" in text) == (False, True)
    collected.outcomes.clear()
    del collected.proofs["E-02"]
    complete, text = said(collected)
    assert (complete, "open: E-02\n" in text) == (False, True)
    assert f"{len(REQUIREMENTS) - 1} of {len(REQUIREMENTS)} rows proven" in text


def test_a_marker_that_names_no_row_is_named() -> None:
    collected = Collected()
    collected.proofs.update({row: ["tests/a.py::test_it"] for row in [*REQUIREMENTS, "Z-99"]})
    complete, text = said(collected)
    assert (complete, "unknown rows: Z-99\n" in text) == (False, True)


def test_every_line_fits_the_terminal() -> None:
    collected = Collected()
    collected.proofs["E-01"] = [f"tests/pure/intake/test_decode.py::test_{'long_' * 40}"]
    assert max(map(len, said(collected)[1].splitlines())) <= 80
