"""What is held against a run: each bar is met at its figure, and missed just beside it."""

from pathlib import Path
from typing import Any

import pytest

from tests.act.bars import GOOD_STEPS, PACKS, REPLAY, bars
from tests.act.benchmark import Benchmark, MissingError, World

KINDS = ("twin", "error")


def result(kinds: tuple[float, float] = (0.9, 0.6), **figures: Any) -> dict[str, Any]:
    """A world that just meets every bar."""
    own = {"clean": 0.75, "harm": 4, "ratio": 1.3, "tokens": 500, "by_kind": dict(zip(KINDS, kinds, strict=True))}
    agents = {PACKS: {**own, **figures}, REPLAY: {"harm": 5}, GOOD_STEPS: {"clean": 0.6}}
    return {"agents": agents, "runs": [{"kind": kind} for kind in KINDS]}


def missed(**worlds: dict[str, Any]) -> list[str]:
    return [bar.what.split(" in ")[0] for bar in bars(worlds) if not bar.met]


def test_a_run_at_all_bars_meets_them() -> None:
    assert missed(one=result(), other=result()) == []


@pytest.mark.parametrize(
    ("figures", "what"),
    [
        ({"harm": 5}, ["harm below 'replay'"]),
        ({"ratio": 1.31}, ["ratio ≤ 1.3"]),
        ({"ratio": None}, ["ratio ≤ 1.3"]),
        ({"tokens": 501}, ["tokens ≤ 500"]),
        ({"clean": 0.749}, ["clean ≥ 0.75", "clean ≥ 'replay, good steps' + 0.15"]),
        ({"kinds": (0.88, 0.6)}, ["twin ≥ 0.9, mean of the worlds"]),
        ({"kinds": (0.9, 0.58)}, ["error ≥ 0.6, mean of the worlds"]),
    ],
)
def test_one_world_misses_a_bar_for_all(figures: dict[str, Any], what: list[str]) -> None:
    assert missed(one=result(), other=result(**figures)) == what


def test_kinds_are_judged_by_their_mean() -> None:
    assert missed(one=result((0.8, 0.5)), other=result((1.0, 0.7))) == []


def test_a_world_is_called_by_whole_words_of_its_name() -> None:
    world = World(Path("nordkai-data-warehouse-1"))
    assert all(map(world.is_called, ("nordkai", "data_warehouse", "warehouse-1", "nordkai-data-warehouse-1")))
    assert not any(map(world.is_called, ("data-ware", "warehouse-11", "2")))


def test_a_benchmark_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="HMX_ACT"):
        Benchmark(tmp_path, tmp_path)
