"""`make bench` at a tiny size: its cheapest lines run, check what they measure, and leave what they promise."""

import json
import statistics
from pathlib import Path

import pytest

from tests.bench.__main__ import main
from tests.bench.report import Bar, Line


def test_the_lines_without_a_broker_leave_a_table_and_a_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "build" / "bench.json"
    main(["patterns", "live", "--many", "200", "--events", "600", "--rounds", "1", "--out", str(file)])
    written = json.loads(file.read_text())
    assert written["machine"]["cores"] >= 1
    assert {"cpu", "memory_gb", "python", "confluent-kafka"} <= written["machine"].keys()
    names = [line["line"] for line in written["lines"]]
    assert [name.split(",")[0] for name in names[:2]] == ["sessions", "patterns"], "in the report's order"
    for line in written["lines"]:
        assert {"line", "value", "unit", "baseline", "ratio", "bar", "met", "low", "high"} <= line.keys()
        assert line["low"] <= line["ratio"] <= line["high"]
    shown = capsys.readouterr().out.splitlines()
    assert all(len(row) <= 100 for row in shown)
    assert any("bars met" in row for row in shown)


def test_a_bar_is_held_against_the_median_of_ratios_of_the_same_round() -> None:
    line = Line("ours", "µs", [10, 30, 90], "theirs", [10, 10, 100], Bar("≤", 1.0))
    assert statistics.median(line.values) / statistics.median(line.baselines) > 1
    assert line.ratios == [1.0, 3.0, 0.9]
    assert line.met


def test_a_bar_on_the_value_leaves_the_baseline_aside() -> None:
    assert not Line("ours", "s", [4.0], "bare read", [100.0], Bar("≤", 3, ratio=False)).met
    assert Line("ours", "s", [2.0], "bare read", [0.1], Bar("≤", 3, ratio=False)).met
