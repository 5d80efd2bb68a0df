"""`hmx …` within a test, as part of its own pipeline."""

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.settings import Settings
from tests.support.pipeline import environment


def hmx(settings: Settings, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Result:
    for name, value in environment(settings).items():
        if name.startswith("HMX_"):
            monkeypatch.setenv(name, value)
    return CliRunner().invoke(application(), list(arguments))
