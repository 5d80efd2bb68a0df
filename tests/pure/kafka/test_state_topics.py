"""What a table is made of is not held beyond a bound, by number and by bytes."""

from typing import Any

import pytest

from hmx_pipeline.runtime import state_topics


class OfKafka:
    def __init__(self, size: int) -> None:
        self._value = b"x" * size

    def key(self) -> bytes:
        return b"s/acme/s"

    def value(self) -> bytes:
        return self._value

    def timestamp(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.parametrize(("count", "size", "held"), [(20, 50, True), (21, 0, False), (20, 51, False), (0, 0, True)])
def test_older_records_are_held_only_where_they_are_few_and_small(
    monkeypatch: pytest.MonkeyPatch, count: int, size: int, held: bool
) -> None:
    monkeypatch.setattr(state_topics, "BEFORE_BYTES", 1_000)
    messages: list[Any] = [OfKafka(size) for _ in range(count)]
    found = state_topics._all(messages, 20)
    assert (found is not None and len(found) == count) is held
