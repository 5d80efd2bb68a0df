"""What all streams of a process hold together is bounded, and no tenant's streams end for another's."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.kafka.range_reader import PassingRecord
from hmx_pipeline.service import subscriber_queue
from hmx_pipeline.service.subscriber_queue import RECORD, InboxMemory, StreamEnd, SubscriberQueue
from hmx_pipeline.topology import EPISODES

TENANTS = ("a", "b", "b", "b", "c")
"""Whose streams there are."""
ALL = 10_000
SIZES = st.integers(0, 1_500)


@given(steps=st.lists(st.tuples(st.integers(0, len(TENANTS) - 1), st.one_of(SIZES, st.none())), max_size=120))
def test_beyond_the_bound_streams_end_of_tenants_that_hold_more_than_their_share_and_of_no_other(
    steps: list[tuple[int, int | None]],
) -> None:
    async def through() -> None:
        room, held = InboxMemory(), [0] * len(TENANTS)
        inboxes = [SubscriberQueue(frozenset({EPISODES}), tenant, room) for tenant in TENANTS]
        for at, size in steps:
            one, tenant = inboxes[at], TENANTS[at]
            if one.ending is not None:
                continue
            if size is None:
                one.close()  # as whoever reads takes all there is
                held[at] = 0
            else:
                taken = one.take(PassingRecord((EPISODES, 0), 0, b"k", b"v" * size))
                held[at] += RECORD + size
                own = sum(n for n, name in zip(held, TENANTS, strict=True) if name == tenant)
                share = ALL / len({name for n, name in zip(held, TENANTS, strict=True) if n})
                assert taken == (sum(held) <= ALL or own <= share)
                if not taken:
                    assert one.ending is StreamEnd.SLOW
                    held[at] = 0
            assert room.total == sum(held) <= 2 * ALL

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subscriber_queue, "ALL_BYTES", ALL)
        asyncio.run(through())


def test_a_stream_that_has_ended_leaves_its_room() -> None:
    async def held() -> list[int]:
        room = InboxMemory()
        one = SubscriberQueue(frozenset({EPISODES}), "a", room)
        one.take(PassingRecord((EPISODES, 0), 0, b"k", b"v" * 1_000))
        totals = [room.total]
        await one.wait(0.1)
        totals.append(room.total)
        one.take(PassingRecord((EPISODES, 0), 1, b"k", b"v" * 1_000))
        one.close()
        return [*totals, room.total]

    assert asyncio.run(held()) == [RECORD + 1_000, 0, 0]
