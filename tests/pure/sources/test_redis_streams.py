"""What a source takes from a Redis stream: what its owner trims, what others left, and never more than a batch."""

from typing import Any

from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.sources.feed import BATCH_BYTES, SOME, QueueMessage, _batch
from hmx_pipeline.sources.redis_streams import RedisStream

TRIMMED = [(b"1-0", None), (b"2-0", None)]
THERE = [(b"3-0", {b"event": b"{}"})]


class Stream:
    """Redis with a consumer's own entries, a batch at a time, and a new one."""

    def __init__(self) -> None:
        self._own = [TRIMMED, []]
        self.left = False
        self.acknowledged: list[bytes] = []

    def xgroup_create(self, *_: Any, **__: Any) -> None: ...

    def xautoclaim(self, *asked: Any, **_: Any) -> Any:
        """What others left stands behind a thousand entries that are not idle."""
        after = int(asked[4].split(b"-")[0])
        if after < 1_000:
            return [b"%d-0" % (after + 80), [], []]
        return [b"0-0", [(b"1000-0", {b"event": b"left"})] if self.left else [], []]

    def xreadgroup(self, _group: str, _consumer: str, asked: dict[str, bytes], **_: Any) -> Any:
        found = THERE if b">" in asked.values() else self._own.pop(0)
        return [(b"s", found)]

    def pipeline(self) -> "Stream":
        return self

    def xack(self, _stream: str, _group: str, *names: bytes) -> None:
        self.acknowledged += names

    def execute(self) -> None: ...


def test_a_batch_of_trimmed_entries_is_not_taken_for_an_empty_queue() -> None:
    client: Any = Stream()
    taken = RedisStream(client, "s", "hmx", "me").take(1)
    assert [one.value for one in taken] == [b"{}"]
    assert client.acknowledged == [b"1-0", b"2-0"]


def test_what_others_left_is_looked_for_to_the_end() -> None:
    client: Any = Stream()
    client.left = True
    source = RedisStream(client, "s", "hmx", "me")
    assert [source.take(1)[0].value for _ in range(2)] == [b"left", b"{}"]


def test_a_batch_is_bounded_in_bytes() -> None:
    class Endless:
        def take(self, _: float) -> list[QueueMessage]:
            return [QueueMessage("", b"x" * MB, None)] * SOME

    endless: Any = Endless()
    assert sum(len(one.value) for one in _batch(endless)) < BATCH_BYTES + SOME * MB + 1
