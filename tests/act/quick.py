"""Worlds played without Kafka and HTTP, some at the same time. Enters: worlds. Leaves: what `run.py play` would write.
Nothing fails."""

from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

from hmx_pipeline.queries.context_pack import read_tables
from tests.act.benchmark import Benchmark, World
from tests.act.served import serving

Results = dict[str, Any]
"""By world: the figures of every agent, and every task that was played with packs."""


def play(benchmark: Benchmark, worlds: Sequence[World], budget: int, jobs: int) -> Results:
    """Each job has a memory of its own."""
    shares = [share for at in range(jobs) if (share := worlds[at::jobs])]
    if len(shares) <= 1:
        played = [_play(benchmark, worlds, budget)]
    else:
        read_tables()  # before the processes part, so that they share what is read
        with ProcessPoolExecutor(len(shares), get_context("fork")) as pool:
            running = [pool.submit(_play, benchmark, share, budget) for share in shares]
            played = [one.result() for one in running]
    results = {name: result for one in played for name, result in one.items()}
    return {world.name: results[world.name] for world in worlds}


def _play(benchmark: Benchmark, worlds: Sequence[World], budget: int) -> Results:
    run, truth = benchmark.module("run"), benchmark.module("worlds")
    results = {}
    with serving(benchmark, budget) as served:
        for world in worlds:
            true = truth.World(truth.load(world.folder / "truth.json"))
            results[world.name] = run._play_world(true, world.folder, served.learnt(world), False)
    return results
