"""`hmx …` within a test, as part of its own pipeline and in a terminal of 80 columns."""

import os
import signal
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from hmx_pipeline.cli.app import application
from hmx_pipeline.settings import Settings
from tests.support.pipeline import environment


def hmx(
    settings: Settings, *arguments: object, more: Mapping[str, str] = MappingProxyType({}), **options: Any
) -> Result:
    """Nothing of the caller's own settings reaches the command but its folder; `more` are variables of its own. What it
    does at a signal ends with it."""
    given = {"HMX_STATE": os.environ["HMX_STATE"], **environment(settings), "COLUMNS": "80", **more}
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("HMX_")]:
            patch.delenv(name)
        try:
            return CliRunner().invoke(application(), list(map(str, arguments)), env=given, **options)
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
