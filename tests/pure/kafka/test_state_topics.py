"""What a table is made of is not held beyond a bound, by number and by bytes."""

import pytest

from hmx_pipeline.runtime import state_topics
from hmx_pipeline.stages.state_tables import StateRecord


@pytest.mark.parametrize(("count", "size", "held"), [(20, 50, True), (21, 0, False), (20, 51, False), (0, 0, True)])
def test_older_records_are_held_only_where_they_are_few_and_small(
    monkeypatch: pytest.MonkeyPatch, count: int, size: int, held: bool
) -> None:
    monkeypatch.setattr(state_topics, "BEFORE_BYTES", 1_000)
    found = state_topics._all([StateRecord("s/acme/s", b"x" * size, 1)] * count, 20)
    assert (found is not None and len(found) == count) is held
