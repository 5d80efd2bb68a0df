"""The soak's judge: what it calls growth, and what it does not."""

import ast
import inspect
import random

import pytest

from tests.soak import bounded
from tests.soak.judge import LIMITS, MB, Sample, judged

SECONDS = 1_200


def run_of(**curves: list[float]) -> list[Sample]:
    flat = [200.0 * MB] * (SECONDS // 5)
    rows = {name: curves.get(name, flat) for name in LIMITS}
    if "redis" not in curves:
        rows["redis"] = [50 * MB + 600 * 100 * 5 * n for n in range(SECONDS // 5)]
    return [
        Sample(5.0 * n, 500 * n, {name: int(curve[n]) for name, curve in rows.items()}) for n in range(SECONDS // 5)
    ]


def failed(samples: list[Sample]) -> list[str]:
    return [verdict.name for verdict in judged(samples) if verdict.failure]


def test_a_process_that_fills_its_caches_and_then_stays_is_bounded() -> None:
    dice = random.Random(1)
    curve = [(150 + min(n, 80) * 2 + dice.uniform(-6, 6)) * MB for n in range(SECONDS // 5)]
    assert failed(run_of(worker=curve)) == []


@pytest.mark.parametrize("name", ["worker", "materialiser", "service"])
def test_a_process_that_keeps_500_bytes_of_each_new_name_fails(name: str) -> None:
    names_a_second = 300
    curve = [150 * MB + 500.0 * names_a_second * 5 * n for n in range(SECONDS // 5)]
    assert failed(run_of(**{name: curve})) == [name]


def test_redis_may_grow_by_what_events_take_and_by_no_more() -> None:
    steady = [50.0 * MB + 3_000 * 500 * n for n in range(SECONDS // 5)]
    assert failed(run_of(redis=steady)) == []
    dearer = [50.0 * MB + 600 * 500 * n + 12_000 * n * n for n in range(SECONDS // 5)]
    assert failed(run_of(redis=dearer)) == ["redis"]


def test_whoever_exceeds_its_limit_fails_though_it_comes_down_again() -> None:
    curve = [200.0 * MB] * (SECONDS // 5)
    curve[20] = LIMITS["service"] + 1.0
    assert failed(run_of(service=curve)) == ["service"]
    with pytest.raises(ValueError, match="too short"):
        judged(run_of()[:5])


def test_every_bound_that_a_soak_lowers_is_looked_up_there() -> None:
    lowered = [
        (node.value.id, node.attr)
        for node in ast.walk(ast.parse(inspect.getsource(bounded.lower)))
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)
    ]
    assert len(lowered) > 5
    assert not [name for module, name in lowered if not hasattr(getattr(bounded, module), name)]
