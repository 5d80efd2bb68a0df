"""Every event of the real sessions is accepted, whole, and shows mining a step."""

import gzip
import os
from pathlib import Path

import orjson
import pytest

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.steps import step_of

DATA = Path(os.environ.get("HMX_DATA", Path(__file__).parents[4] / "shared" / "data"))


@pytest.mark.parametrize("name", ["tau", "swe", "claude_code", "locomo"])
def test_are_accepted_to_the_last(name: str) -> None:
    path = DATA / f"{name}.ndjson.gz"
    if not path.exists():
        pytest.skip(f"{path} is not there; set HMX_DATA to the folder of the real sessions")
    with gzip.open(path) as lines:
        for line in lines:
            outcome = decode(line)
            assert isinstance(outcome, Accepted), outcome
            assert outcome.redacted or outcome.fields == orjson.loads(line)
            step = step_of(outcome.fields, outcome.instant // 1_000_000, 0)
            assert step.text or step.name or step.role in (Role.MESSAGE, Role.RESULT)
