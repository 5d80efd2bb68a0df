"""A process and the sessions that it appends captures to, where what it shares with others is a double."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, cast

import pytest

from hmx_pipeline.service import fair_turns
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.hippocortex import minting
from hmx_pipeline.service.hippocortex.minting import Holds
from hmx_pipeline.service.problems import ProblemError, ProblemKind
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError


class Shared:
    """Redis' part: one process a session."""

    def __init__(self) -> None:
        self.by: dict[str, str] = {}
        self.last: dict[str, int] = {}
        self.entered = 0
        self.away = False

    def enter(self, tenant: str, token: str, sessions: Sequence[str]) -> dict[str, int]:
        if self.away:
            raise StoreUnavailableError("away")
        if any(self.by.get(session, token) != token for session in sessions):
            return {}
        self.entered += 1
        self.by |= dict.fromkeys(sessions, token)
        return {session: self.last.get(session, 0) + 1 for session in sessions}

    def leave(self, tenant: str, token: str, last: Mapping[str, int]) -> None:
        if self.away:
            raise StoreUnavailableError("away")
        for session, at in last.items():
            assert self.by.pop(session) == token
            self.last[session] = at


def holds(shared: Shared, places: FairTurns | None = None) -> Holds:
    return Holds(cast("Any", shared), places or FairTurns(4, 4))


async def numbers(process: Holds, *sessions: str, waits: float = 0.0) -> dict[str, int]:
    async with process.of("acme", sessions) as held:
        given = {session: held[session].next().sequence for session in sessions}
        await asyncio.sleep(waits)
    return given


def test_captures_at_the_same_time_share_a_hold_and_leave_it_together() -> None:
    async def test() -> None:
        shared = Shared()
        process = holds(shared)
        given = await asyncio.gather(*(numbers(process, "s", waits=0.01) for _ in range(20)))
        assert sorted(one["s"] for one in given) == list(range(1, 21))
        assert shared.entered == 1
        assert not shared.by

    asyncio.run(test())


@pytest.mark.requirement("Y25")
def test_processes_that_take_sessions_together_never_wait_for_each_other_for_ever() -> None:
    async def test() -> None:
        shared = Shared()
        processes = [holds(shared) for _ in range(3)]
        asked = [("s", "t"), ("t", "s"), ("s",), ("t", "u"), ("u", "s", "t")]
        given = await asyncio.gather(*(numbers(processes[n % 3], *asked[n % 5]) for n in range(60)))
        for session in ("s", "t", "u"):
            all_given = [one[session] for one in given if session in one]
            assert len(set(all_given)) == len(all_given) == shared.last[session]
        assert not shared.by

    asyncio.run(asyncio.wait_for(test(), 30))


def test_what_stands_in_the_log_is_not_answered_with_what_went_wrong_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fair_turns, "WAIT_S", 0.01)

    async def test() -> None:
        shared, places = Shared(), FairTurns(1, 1)
        async with AsyncExitStack() as busy, holds(shared, places).of("acme", ["s"]):
            await busy.enter_async_context(places.of("acme"))  # nobody gets a turn to leave any more
        async with holds(shared).of("acme", ["t"]):
            shared.away = True

    asyncio.run(test())


def test_whoever_waits_too_long_for_another_process_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minting, "WAIT_S", 0.02)

    async def test() -> None:
        shared = Shared()
        shared.by["s"] = "another process"
        with pytest.raises(ProblemError) as refused:
            await numbers(holds(shared), "s")
        assert refused.value.kind is ProblemKind.BUSY
        assert (await numbers(holds(shared), "t"))["t"] == 1

    asyncio.run(test())


@pytest.mark.requirement("Y25")
def test_while_redis_is_away_no_sequence_is_minted_for_a_session_that_is_not_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(minting, "WAIT_S", 0.05)
    monkeypatch.setattr(minting, "AWAY_S", 0.01)

    async def test() -> None:
        shared = Shared()
        process = holds(shared)
        async with process.of("acme", ["s"]) as held:
            shared.away = True
            held["s"].next()
            assert await numbers(process, "s") == {"s": 2}, "it holds this one already"
            with pytest.raises(ProblemError) as refused:
                await numbers(process, "t")
            shared.away = False
        assert refused.value.kind is ProblemKind.REDIS_UNAVAILABLE
        assert refused.value.headers is not None
        assert "Retry-After" in refused.value.headers
        assert await numbers(process, "t") == {"t": 1}

    asyncio.run(test())


@pytest.mark.requirement("Y25")
def test_a_capture_waits_for_a_redis_that_is_soon_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minting, "AWAY_S", 0.01)

    async def test() -> None:
        shared = Shared()
        shared.away = True
        waiting = asyncio.create_task(numbers(holds(shared), "s"))
        await asyncio.sleep(0.05)
        assert not waiting.done()
        shared.away = False
        assert await waiting == {"s": 1}

    asyncio.run(test())


def test_a_hold_that_may_have_ended_is_renewed_before_anything_is_minted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(minting, "RENEW_S", 0.0)

    async def test() -> None:
        shared = Shared()
        process = holds(shared)
        async with process.of("acme", ["s", "t"]) as held:
            shared.by.clear()  # the hold ends
            shared.enter("acme", "another", ["s"])
            waits = asyncio.create_task(process.renew("acme", held))
            await asyncio.sleep(0.02)
            assert not waits.done(), "another process appends"
            shared.leave("acme", "another", {"s": 70})
            monkeypatch.setattr(minting, "RENEW_S", 60.0)
            await waits
            assert held["s"].next().sequence == 71
            assert held["t"].next().sequence == 1

    asyncio.run(asyncio.wait_for(test(), 30))
