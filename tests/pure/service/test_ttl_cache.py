"""A value that takes long is computed once for all who wait, and who gives up takes it from nobody."""

import asyncio
import threading
from typing import Any

import pytest

from hmx_pipeline.service import memory
from hmx_pipeline.service.ttl_cache import TtlCache


class SlowAnswers:
    """Answers its number, or fails, once it may."""

    def __init__(self, fails: bool = False) -> None:
        self.asked = 0
        self.fails = fails
        self.may = threading.Event()
        self.begins = threading.Semaphore(0)

    def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        self.begins.release()
        assert self.may.wait(60)
        if self.fails:
            raise TimeoutError
        return number


async def begun(asking: SlowAnswers, cache: TtlCache[int], count: int) -> list[asyncio.Task[int]]:
    """Callers that wait for one answer."""
    callers = [asyncio.create_task(cache.get()) for _ in range(count)]
    assert await asyncio.to_thread(asking.begins.acquire, timeout=60)
    return callers


def test_a_failure_reaches_all_who_wait_for_it_and_is_not_kept() -> None:
    async def run() -> None:
        asking = SlowAnswers(fails=True)
        cache = TtlCache(asking, 60)
        callers = await begun(asking, cache, 5)
        asking.may.set()
        failed = await asyncio.gather(*callers, return_exceptions=True)
        assert [type(each) for each in failed] == [TimeoutError] * 5
        assert asking.asked == 1
        asking.fails = False
        assert await cache.get() == 2

    asyncio.run(run())


def test_who_gives_up_neither_ends_the_question_nor_asks_it_again() -> None:
    async def run() -> None:
        asking = SlowAnswers()
        cache = TtlCache(asking, 60)
        first, second = await begun(asking, cache, 2)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        third = asyncio.create_task(cache.get())
        await asyncio.sleep(0)
        asking.may.set()
        assert await asyncio.gather(second, third) == [1, 1]
        assert asking.asked == 1

    asyncio.run(run())


def test_what_was_asked_before_it_was_to_be_forgotten_is_not_kept() -> None:
    async def run() -> None:
        asking = SlowAnswers()
        cache = TtlCache(asking, 60)
        (early,) = await begun(asking, cache, 1)
        cache.forget()
        late = asyncio.create_task(cache.get())
        assert await asyncio.to_thread(asking.begins.acquire, timeout=60)
        asking.may.set()
        assert await asyncio.gather(early, late, cache.get()) == [1, 2, 2]

    asyncio.run(run())


def test_an_event_that_is_not_there_is_said_so_while_kafka_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without what retention has taken, which only Kafka knows."""
    asking: Any = SlowAnswers()
    plain = memory.ProblemError(memory.ProblemKind.NOT_FOUND, "no event")
    monkeypatch.setattr(memory, "missing", lambda *_: plain)
    monkeypatch.setattr(memory, "FORGOTTEN_S", 0.0, raising=False)

    async def run() -> None:
        request: Any = type("Asked", (), {"app": type("App", (), {"state": type("State", (), {})})})
        request.app.state.erased = TtlCache(asking, 60)
        gone = [asyncio.create_task(memory._gone(request, "acme")) for _ in range(3)]
        done, waiting = await asyncio.wait(gone, timeout=10)
        asking.may.set()
        assert not waiting
        assert {each.result() for each in done} == {plain}

    asyncio.run(run())
