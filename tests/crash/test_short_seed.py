"""`make crash` in small: three brokers, two of everything, and what the verifier finds afterwards."""

import os
from pathlib import Path

import pytest

from tests.harness.run import Plan, run

QUICK = "^(worker killed|leading broker killed|transactional id taken|Redis emptied)$"
SEED, EVENTS, FAULTS = 20, 8_000, 4
FAULT_S = 16.0
"""About what one takes beside other tests; were it less, the traffic would grow until nobody keeps up with it."""


def test_nothing_is_lost_doubled_or_different_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("HMX_") and name != "HMX_DATA"]:
        monkeypatch.delenv(name)
    result = run(Plan(SEED, EVENTS, FAULTS, tmp_path / "crash", QUICK, fault_s=FAULT_S), print)
    assert result.verdict.clean, result.verdict.details[:20]
    assert result.verdict.records >= EVENTS
    assert len({row.kind for row in result.rows}) == FAULTS
    assert {"released", "released_late", "duplicate", "rerouted", "control"} <= result.verdict.outcomes.keys()
