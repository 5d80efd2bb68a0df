"""The artifact type that the how-to page shows: one more row of the registry, and the stages publish its artifacts."""

import re
import subprocess
import sys

from hmx_pipeline.compiler import registry
from tests.support.documents import DOCS, ROOT

ROW = "        strategy_template.TYPE,\n"
WITH_ROW = f"""
import sys, types
from pathlib import Path

review = types.ModuleType("hmx_pipeline.compiler.review")
exec(sys.argv[1], vars(review))
made = types.ModuleType("hmx_pipeline.compiler.registry")
sys.modules[made.__name__] = made
made.review = review
text = Path({registry.__file__!r}).read_text(encoding="utf-8")
with_row = text.replace({ROW!r}, {ROW!r} + "        review.TYPE,\\n")
assert with_row != text
exec(with_row, vars(made))

from hmx_pipeline.contracts.artifact import Artifact
from tests.support.inprocess import artifacts_of
from tests.support.sessions import interleaved, session

def asking(number):
    events = session(number)
    for event in events:
        content = event["content"]
        if content.get("tool_name") in ("apply_manifest", "write_vault"):
            content["tool_name"] = "request_review"
    return events

for published in artifacts_of(interleaved([asking(number) for number in range(20)], 7)):
    artifact = Artifact.model_validate(published)
    lines = [*review.lines(artifact.content)] if artifact.artifact_type == review.NAME else []
    print(artifact.artifact_type, artifact.status, *lines)
"""


def test_the_type_that_the_page_shows_publishes_artifacts() -> None:
    page = (DOCS / "how-to" / "extend" / "artifact-type.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    run = subprocess.run(
        [sys.executable, "-c", WITH_ROW, example], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    found = run.stdout.splitlines()
    assert any(re.fullmatch(r"x-acme-review active Reviews requested: \d+ % approved", line) for line in found), found
    assert "failure_playbook active" in found
