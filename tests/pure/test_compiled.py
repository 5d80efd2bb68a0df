"""What is compiled, where it is compiled, does the same as its source: `make test-compiled`."""

import ast
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.intake import decode

ROOT = Path(__file__).parents[2]
MODULES: list[str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hmx"]["compiled"]
COMPILED = ROOT / "build" / "compiled"


@pytest.mark.parametrize("module", MODULES)
def test_a_compiled_module_defines_no_class_whose_options_would_be_lost(module: str) -> None:
    """mypyc leaves out what stands on the line of a class beside its bases: `omit_defaults=True`."""
    classes = [
        node for node in ast.walk(ast.parse((ROOT / module).read_text("utf-8"))) if isinstance(node, ast.ClassDef)
    ]
    assert not [node.name for node in classes if node.keywords]


@pytest.mark.skipif(not COMPILED.exists(), reason="nothing is compiled here: `make test-compiled` does it first")
def test_what_is_compiled_writes_the_same_bytes() -> None:
    ours, compiled = folded(ROOT), folded(COMPILED)
    assert ours[2].endswith(".py")
    assert not compiled[2].endswith(".py")
    assert compiled[:2] == ours[:2]


def folded(root: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": f"{root / 'pipeline'}{os.pathsep}{root}"}
    return subprocess.check_output(
        [sys.executable, "-m", "tests.support.alike"], cwd=root, env=environment, text=True
    ).split()


def test_the_command_says_which_of_the_two_runs() -> None:
    answer = CliRunner().invoke(application(), ["--version"])
    assert answer.exit_code == 0
    assert ("pure Python" if decode.__file__.endswith(".py") else "compiled") in answer.output
