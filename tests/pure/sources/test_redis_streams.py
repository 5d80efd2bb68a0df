"""What a source takes from a Redis stream that its owner trims."""

from typing import Any

from hmx_pipeline.sources.redis_streams import RedisStream

TRIMMED = [(b"1-0", None), (b"2-0", None)]
THERE = [(b"3-0", {b"event": b"{}"})]


class Stream:
    """Redis with a consumer's own entries, a batch at a time, and a new one."""

    def __init__(self) -> None:
        self._own = [TRIMMED, []]
        self.acknowledged: list[bytes] = []

    def xgroup_create(self, *_: Any, **__: Any) -> None: ...

    def xautoclaim(self, *_: Any, **__: Any) -> Any:
        return [b"0-0", [], []]

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
    taken = RedisStream(client, "s", "hmx", "me").take()
    assert [one.value for one in taken] == [b"{}"]
    assert client.acknowledged == [b"1-0", b"2-0"]
