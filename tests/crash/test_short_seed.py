"""`make crash` in small: three brokers, two of everything, and what the verifier finds afterwards."""

import os
from pathlib import Path

import pytest

from tests.harness.run import Plan, run

KINDS = (
    "worker killed", "leading broker killed", "transactional id taken", "Redis emptied", "materialiser killed",
    "service killed",
)  # fmt: skip
SEED, EVENTS = 20, 2_000
PAUSE_S = (3.0, 6.0)
"""Between two things that an operator asks for: each is looked for in every answer of the service afterwards."""
SLOWEST = 30.0
"""Events a second: what a fault waits for is one in each partition, and all that come are verified."""
PARTITIONS = 4
"""Two for each worker: each one more costs three brokers and a worker a transaction many times a second."""


@pytest.mark.requirement(
    "E-05", "E-08", "E-24", "E-25", "E-26", "E-28", "E-30", "X03", "X04", "X29", "Y01", "Y11", "Y12", "Y13", "Y14",
    "Y17",
)  # fmt: skip
def test_nothing_is_lost_doubled_or_different_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("HMX_") and name != "HMX_DATA"]:
        monkeypatch.delenv(name)
    monkeypatch.setattr("tests.harness.operators.PAUSE_S", PAUSE_S)
    only = f"^({'|'.join(KINDS)})$"
    plan = Plan(SEED, EVENTS, len(KINDS), tmp_path / "crash", only, slowest=SLOWEST, partitions=PARTITIONS, forks=True)
    result = run(plan, print)
    assert result.verdict.clean, result.verdict.details[:20]
    assert result.verdict.records >= EVENTS
    assert {row.kind for row in result.rows} == {*KINDS}
    met = {"released", "released_late", "duplicate", "rerouted", "control", "rejected.event_id_reused"}
    assert met <= result.verdict.outcomes.keys()
