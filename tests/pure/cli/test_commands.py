"""The command line imports only what the command asked for needs, and offers the same commands either way."""

import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from hmx_pipeline.cli.app import MODULES, application

WHOLE = typer.main.get_command(application())


def test_the_table_names_every_command_and_no_other() -> None:
    assert sorted(name for names in MODULES.values() for name in names) == sorted(WHOLE.commands)


@pytest.mark.parametrize("name", [name for names in MODULES.values() for name in names])
def test_a_command_that_is_imported_alone_is_the_same(name: str) -> None:
    help_text = [CliRunner().invoke(app, [name, "--help"]).output for app in (application(), application(name))]
    assert help_text[0] == help_text[1] != ""


def test_help_of_one_command_does_not_load_the_compiler() -> None:
    code = "import sys; from hmx_pipeline.cli.app import application; application('pack'); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert "hmx_pipeline.cli.memory" in loaded
    assert [name for name in loaded if name.startswith(("hmx_pipeline.compiler", "hmx_pipeline.worker", "numpy"))] == []
