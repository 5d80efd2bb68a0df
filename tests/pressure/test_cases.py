"""The page about pressure: every test that it names is there, and every name that is counted has its meaning."""

import ast
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest

from hmx_pipeline.contracts.effects import Effect
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.service.completeness_header import MEMORY_COMPLETE
from tests.support.cases import CASES, Case
from tests.support.documents import ROOT

_NAMES = {*map(str, chain(Effect, Outcome, Reason))}
_NO_NAMES = {"sampled", "/readyz", MEMORY_COMPLETE}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
def test_every_test_of_a_case_exists(case: Case) -> None:
    assert case.tests
    for path, names in case.tests.items():
        text = (ROOT / "tests" / path).read_text()
        assert names
        assert all(f"def {name}(" in text for name in names), path


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.case)
def test_every_name_of_a_case_is_one_that_is_counted(case: Case) -> None:
    metrics = {metric._name for metric in vars(METRICS).values() if hasattr(metric, "_name")}
    known = _NAMES | _NO_NAMES | metrics
    assert {name.partition("{")[0].removesuffix("_total") for name in re.findall(r"`([^`]+)`", case.shows)} <= known


def counted(path: Path) -> Iterator[str]:
    """Names that a module gives to `count`, `attempt` and what is counted later; of an f-string its beginning."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            place = {"count": node.args[:1], "attempt": node.args[1:2], "Surplus": node.args[1:2]}.get(called, [])
            for part in chain.from_iterable(map(ast.walk, place)):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def test_every_name_that_a_stage_counts_has_a_meaning_and_every_name_is_counted() -> None:
    found = set(chain.from_iterable(map(counted, (ROOT / "pipeline" / "hmx_pipeline" / "stages").glob("*.py"))))
    found -= {".", "control", "rejected."}
    statuses = ("artifact_", "knowledge_", "forgotten_by_")  # what follows is a status or a policy's rule
    by_status = {name for name in Effect if name.startswith(statuses) and not name.endswith("_erased")}
    assert found - {*statuses} == set(Effect) - by_status
