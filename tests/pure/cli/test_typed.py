"""Commands in hints can be typed again as the user typed the one that gives them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hmx_pipeline.cli import console
from hmx_pipeline.cli.console import as_typed, command


@pytest.mark.parametrize(
    ("called", "typed"),
    [
        (".venv/bin/hmx", ".venv/bin/hmx"),
        ("{here}/.venv/bin/hmx", ".venv/bin/hmx"),
        ("/opt/my tools/hmx", "'/opt/my tools/hmx'"),
        ("{path}/hmx", "hmx"),
        ("/usr/bin/pytest", "hmx"),
    ],
)
def test_a_command_is_called_as_this_one_was(
    called: str, typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "on_path").mkdir()
    (tmp_path / "on_path/hmx").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "on_path"))
    monkeypatch.setattr(sys, "argv", [called.format(here=tmp_path, path=tmp_path / "on_path"), "wait"])
    monkeypatch.setattr(console, "command", command.__wrapped__)
    assert as_typed("run `hmx wait`, then `hmx dlq`") == f"run `{typed} wait`, then `{typed} dlq`"
    assert as_typed("hmx up") == f"{typed} up"
    assert as_typed("the hmx service, `hmx.events.v1`") == "the hmx service, `hmx.events.v1`"


def test_as_a_module_it_names_the_interpreter(tmp_path: Path) -> None:
    asked = [sys.executable, "-m", "hmx_pipeline.cli", "status"]
    environment = {**os.environ, "HMX_STATE": str(tmp_path / "none")}
    said = subprocess.run(asked, capture_output=True, text=True, env=environment, cwd=tmp_path).stderr
    assert f"`{sys.executable} -m hmx_pipeline.cli up`" in said
