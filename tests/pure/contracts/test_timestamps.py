"""Instants that any valid timestamp gives can be written as a timestamp again."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.timestamps import NS_PER_MS, format_ms, parse_instant


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("2026-03-14T03:00:00.123456Z", "2026-03-14T03:00:00.123Z"),
        ("0500-01-01T00:00:00Z", "0500-01-01T00:00:00.000Z"),
        ("0001-01-01T00:00:00+23:59", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999-23:59", "9999-12-31T23:59:59.999Z"),
    ],
)
def test_every_valid_timestamp_has_a_written_moment(text: str, written: str) -> None:
    instant = parse_instant(text)
    assert instant is not None
    assert format_ms(instant // NS_PER_MS) == written


@given(st.integers(-62_135_596_800_000, 253_402_300_799_999))
def test_what_is_written_is_read_back(ms: int) -> None:
    assert parse_instant(format_ms(ms)) == ms * NS_PER_MS
