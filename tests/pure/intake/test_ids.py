"""No id is longer than 512 bytes, however it is spelt, and whichever way decode goes."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.event_types import AGENT_TYPES, EVENT_TYPES
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake import decode as intake
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.bad_input import AT_LIMIT, BAD, LINKED
from tests.support.events import full_event

PLACES = [f"$.{name}" for name in LINKED] + ["$.content.call_id", "$.metadata.subject_id"]
"""In the order in which they are looked at."""
IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).flatmap(
    lambda text: st.integers(1, ID_BYTES).map(lambda times: text * times)
)


def with_ids(ids: dict[str, str]) -> dict[str, Any]:
    call_id, subject = ids.get("$.content.call_id", "c"), ids.get("$.metadata.subject_id", "s")
    fields = {place.removeprefix("$."): text for place, text in ids.items() if place.count(".") == 1}
    return full_event(
        event_type="tool_call",
        content={"tool_name": "t", "arguments": {}, "call_id": call_id},
        metadata={"subject_id": subject},
        **fields,
    )


@pytest.mark.requirement("Y20", "E-03", "E-05")
@pytest.mark.parametrize("name", [name for name, bad in BAD.items() if bad.reason == "id_too_long"])
def test_a_longer_one_is_refused_by_its_path_and_its_text_is_not_told(name: str) -> None:
    outcome = decode(BAD[name].value)
    assert isinstance(outcome, Rejection)
    assert (outcome.reason, outcome.path) == (Reason.ID_TOO_LONG, BAD[name].path)
    assert outcome.detail.endswith("bytes, at most 512")


@pytest.mark.parametrize("name", [name for name in AT_LIMIT if f"of {ID_BYTES} bytes" in name])
def test_one_of_exactly_so_many_bytes_passes(name: str) -> None:
    assert isinstance(decode(AT_LIMIT[name]), Accepted)


@pytest.mark.parametrize("ascii_only", [False, True])
@given(ids=st.dictionaries(st.sampled_from(PLACES), IDS, max_size=3))
def test_what_counts_is_bytes_of_utf8_and_not_how_they_are_spelt(ids: dict[str, str], ascii_only: bool) -> None:
    """With escapes, and without."""
    outcome = decode(json.dumps(with_ids(ids), ensure_ascii=ascii_only).encode())
    refused = [place for place in PLACES if len(ids.get(place, "").encode()) > ID_BYTES]
    assert (refused[:1] == [outcome.path]) if isinstance(outcome, Rejection) else not refused


@given(st.dictionaries(st.sampled_from(PLACES), IDS, max_size=2))
def test_the_fast_path_vouches_for_no_event_that_the_checks_refuse(ids: dict[str, str]) -> None:
    value = orjson.dumps({k: v for k, v in with_ids(ids).items() if k not in ("embeddings", "salience", "ttl_seconds")})
    if isinstance(decode(value), Rejection):
        read = intake._read(value)
        assert read is None or intake._plain(*read, wanted=True, token=True) is None


def test_a_custom_types_own_member_of_that_name_is_no_id() -> None:
    sent = full_event(event_type="x-acme-phone", content={"call_id": "c" * 2_000})
    assert isinstance(decode(orjson.dumps(sent)), Accepted)


def test_every_row_has_its_call_id_where_intake_measures_it() -> None:
    rows = [row.call_id for row in (*EVENT_TYPES.values(), *AGENT_TYPES.values()) if row.call_id]
    assert len(rows) == 3
    assert set(rows) == {("call_id",)}
