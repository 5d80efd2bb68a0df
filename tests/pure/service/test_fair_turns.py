"""Turns go round the tenants, a tenant holds its share and no more, and no place is ever lost.

`/livez` sees what is stuck.
"""

import asyncio
import random
import threading
from collections import Counter
from collections.abc import Awaitable, Callable

import anyio.to_thread
import pytest

from hmx_pipeline.service import fair_turns, liveness
from hmx_pipeline.service.body import HELD, PROCESS_BYTES, TENANT_BYTES, Bodies
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex.answer_envelope import TENANT
from hmx_pipeline.service.liveness import Liveness
from hmx_pipeline.service.problems import ProblemError, ProblemKind


class Work:
    """Asks for turns as tenants would, and notes in which order they come."""

    def __init__(self, places: int, each: int) -> None:
        self.turns = FairTurns(places, each)
        self.begun: list[str] = []
        self._ends: list[tuple[str, asyncio.Event]] = []
        self.tasks: list[asyncio.Task[None]] = []

    async def ask(self, *tenants: str) -> None:
        for tenant in tenants:
            self.tasks.append(asyncio.create_task(self._one(tenant)))
            await asyncio.sleep(0)

    async def _one(self, tenant: str) -> None:
        async with self.turns.of(tenant):
            self.begun.append(tenant)
            end = asyncio.Event()
            mine = tenant, end
            self._ends.append(mine)
            try:
                await end.wait()
            finally:
                if mine in self._ends:
                    self._ends.remove(mine)

    @property
    def under_way(self) -> Counter[str]:
        return Counter(tenant for tenant, _ in self._ends)

    async def end(self, at: int = 0) -> None:
        self._ends.pop(at)[1].set()
        for _ in range(5):
            await asyncio.sleep(0)


async def becomes(so: Callable[[], bool]) -> None:
    while not so():  # noqa: ASYNC110  it is time that makes it so
        await asyncio.sleep(0.01)


def run(test: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 20))  # type: ignore[arg-type]


def test_a_tenant_that_asks_for_much_leaves_a_place_to_others() -> None:
    async def test() -> None:
        work = Work(places=2, each=1)
        await work.ask(*["greedy"] * 45)
        assert work.begun == ["greedy"]
        await work.ask("small")
        assert work.begun == ["greedy", "small"]
        await work.end(1)
        assert work.under_way == {"greedy": 1}, "the free place is no second one for the greedy"

    run(test)


def test_tenants_get_their_turns_one_after_the_other() -> None:
    async def test() -> None:
        work = Work(places=1, each=1)
        await work.ask("a", "a", "a", "a", "b", "b", "c")
        while len(work.begun) < 7:
            await work.end()
        assert work.begun == ["a", "a", "b", "c", "a", "b", "a"]

    run(test)


def test_no_place_is_lost_or_given_twice_whoever_leaves() -> None:
    async def test() -> None:
        chance, work = random.Random(7), Work(places=3, each=2)
        for _ in range(2_000):
            match chance.randrange(3):
                case 0:
                    await work.ask(chance.choice("abcd"))
                case 1 if work.under_way:
                    await work.end(chance.randrange(work.under_way.total()))
                case _ if work.tasks:
                    work.tasks[chance.randrange(len(work.tasks))].cancel()
                    if chance.random() < 0.5:
                        await asyncio.sleep(0)
        for task in work.tasks:
            task.cancel()
        await asyncio.gather(*work.tasks, return_exceptions=True)
        assert not work.under_way
        await work.ask("a", "b", "b", "b")
        assert work.under_way == {"a": 1, "b": 2}
        assert work.turns.longest_s() > 0

    run(test)


def test_whoever_waits_too_long_is_told_and_waits_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fair_turns, "WAIT_S", 0.01)

    async def test() -> None:
        work = Work(places=1, each=1)
        await work.ask("a", "b")
        with pytest.raises(ProblemError) as refused:
            await work.tasks[1]
        assert refused.value.kind is ProblemKind.BUSY
        await work.end()
        await work.ask("c")
        assert work.begun == ["a", "c"]

    run(test)


def test_a_tenant_s_bodies_are_bounded_and_released() -> None:
    bodies, requests = Bodies(), [{TENANT: "acme"} for _ in range(3)]
    bodies.hold(requests[0], TENANT_BYTES - 1)
    with pytest.raises(ProblemError):
        bodies.hold(requests[1], 2)
    others = [{TENANT: f"t{n}"} for n in range(PROCESS_BYTES // TENANT_BYTES - 1)]
    for other in others:
        bodies.hold(other, TENANT_BYTES)
    with pytest.raises(ProblemError):
        bodies.hold({TENANT: "one more"}, 2)
    for scope in (*requests, *others):
        bodies.release(scope)
        bodies.release(scope)
    assert HELD not in requests[0]
    bodies.hold(requests[2], TENANT_BYTES)


@pytest.mark.parametrize("stuck", ["threads", "turn", "loop"])
def test_a_process_whose_requests_wait_says_so_and_is_well_again(stuck: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "EVERY_S", 0.01)
    monkeypatch.setattr(liveness, "LATE_S", 0.5)
    if stuck == "turn":
        monkeypatch.setattr(liveness, "STUCK_S", 0.1)

    async def test() -> None:
        held, end = FairTurns(1, 1), threading.Event()
        life = Liveness([held])
        beating = asyncio.create_task(life.beat())
        await asyncio.sleep(0.05)
        assert life.why_not() is None
        working = []
        if stuck == "threads":
            threads = int(anyio.to_thread.current_default_thread_limiter().total_tokens)
            working = [asyncio.create_task(anyio.to_thread.run_sync(end.wait)) for _ in range(threads)]
        elif stuck == "turn":
            working = [asyncio.create_task(held.run("acme", end.wait))]
        else:
            end.wait(1)  # the loop itself does not turn
        await becomes(lambda: life.why_not() is not None)
        end.set()
        await asyncio.gather(*working)
        await becomes(lambda: life.why_not() is None)
        beating.cancel()

    run(test)
