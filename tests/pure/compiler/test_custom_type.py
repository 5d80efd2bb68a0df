"""A custom artifact type is one more row of the registry, and its artifacts come out of the stages like all others."""

import subprocess
import sys
from pathlib import Path

from hmx_pipeline.compiler import registry

ROW = "        strategy_template.TYPE,\n"
WITH_ROW = f"""
import sys, types
from dataclasses import replace
from pathlib import Path

made = types.ModuleType("hmx_pipeline.compiler.registry")
sys.modules[made.__name__] = made
made.replace = replace
text = Path({registry.__file__!r}).read_text(encoding="utf-8")
with_row = text.replace({ROW!r}, {ROW!r} + '        replace(failure_playbook.TYPE, name="x-acme-runbook"),\\n')
assert with_row != text
exec(with_row, vars(made))

from hmx_pipeline.contracts.artifact import Artifact
from tests.support.inprocess import artifacts_of
from tests.support.sessions import interleaved, session

for published in artifacts_of(interleaved([session(number) for number in range(20)], 7)):
    artifact = Artifact.model_validate(published)
    print(artifact.artifact_type, artifact.status)
"""


def test_a_custom_type_that_is_registered_publishes_artifacts() -> None:
    run = subprocess.run(
        [sys.executable, "-c", WITH_ROW],
        cwd=Path(__file__).parents[3],
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    found = set(run.stdout.splitlines())
    assert "x-acme-runbook active" in found
    assert "failure_playbook active" in found
