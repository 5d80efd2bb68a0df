"""Traffic of unpleasant shapes: events as large as they may be, and one tenant that sends nearly all of it."""

from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.limits import CONTENT_BYTES, EVENT_BYTES, KB, METADATA_BYTES, OUTPUT_BYTES
from hmx_pipeline.contracts.outcomes import Outcome
from tests.support.inprocess import artifacts_of, law_five, run, sessions_fold
from tests.support.records import event, log
from tests.support.sessions import interleaved, session


def as_large_as_can_be(session_id: str, sequence: int) -> bytes:
    """All that may be large is, and what is left is white space."""
    item = event(
        session_id,
        sequence,
        content={"text": "x" * (CONTENT_BYTES - KB)},
        metadata={"note": "y" * (METADATA_BYTES - KB)},
        tags=["t" * 6 * KB + str(n) for n in range(64)],
    )
    return orjson.dumps(item).ljust(EVENT_BYTES)


@pytest.mark.requirement("E-30")
def test_events_of_one_megabyte_come_out_whole_and_in_order_and_one_byte_more_is_rejected() -> None:
    values = [as_large_as_can_be("s", n) for n in (0, 2, 1, 3)]
    ran = run(sessions_fold, log([*enumerate(values), (4, as_large_as_can_be("s", 4) + b" ")]))
    assert ran.released == ["s-0", "s-1", "s-2", "s-3"]
    assert [len(episode["payload"]["text"]) for episode in ran.episodes] == [CONTENT_BYTES - KB] * 4
    assert ran.counts[Outcome.REJECTED] == ran.counts["rejected.too_large"] == 1
    assert all(len(output.value or b"") < OUTPUT_BYTES for output in ran.outputs)


def test_beside_a_tenant_with_nine_tenths_of_the_traffic_another_learns_what_it_would_learn_alone() -> None:
    few = [session(number, "globex") for number in range(12)]
    many = [session(number) for number in range(12, 120)]
    mixed = interleaved([*many, *few], 7)

    def theirs(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [row for row in rows if row[0] == "globex"]

    alone = law_five(artifacts_of(interleaved(few, 3)))
    assert alone
    assert theirs(law_five(artifacts_of(mixed))) == theirs(alone)
