"""Contributions are read by msgspec where they look usual, with the same result as by their model."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from hmx_pipeline.contracts.evidence import Contribution, read_contribution
from hmx_pipeline.contracts.limits import NESTING
from tests.support.evidence import success

ODD: tuple[Any, ...] = (
    None, True, 0, -1, 1.0, 0.5, 1e300, -0.0, 2**63, 2**64, 10**30, "", "x", "unknown", "Unknown", "HMX-1.7",
    "\x00", "é😀",
    [], [""], ["x"], [None], [1], {}, {"x": None}, {"x": 1e16, "y": [5e-324, 2**70, -0.0, "\u2028\x7f"]},
)  # fmt: skip
WRITTEN = success(1).to_json()
USUAL = json.loads(WRITTEN)
RAW = (
    b"", b"{", b"[]", b"null", b"\xef\xbb\xbf{}", b'{"x": 1}', b"%s " % WRITTEN, b"%s\x00" % WRITTEN,
    WRITTEN.replace(b'"body":{', b'"body":{"x":NaN,'),
    WRITTEN.replace(b'"body":{', b'"body":{"x":1e400,'),
    WRITTEN.replace(b'"body":{', b'"body":{"x":"\\ud800",'),
    WRITTEN.replace(b'"body":{', b'"body":{"x":"\xff",'),
    WRITTEN.replace(b'"body":{', b'"body":{"x":1,"x":2,'),
    WRITTEN.replace(b'"withdrawn":', b'"withdrawn":true,"withdrawn":'),
)  # fmt: skip


def nested(levels: int) -> bytes:
    return WRITTEN.replace(b'"body":{', b'"body":{"x":%s%s,' % (b"[" * levels, b"]" * levels))


def outcome(read: Any, value: bytes) -> Any:
    try:
        found = read(value)
    except ValidationError as error:
        return [(one["type"], one["loc"]) for one in error.errors()]
    return found.to_json(), list(found.__dict__), found.model_copy(update={"tags": []}).to_json()


@pytest.mark.parametrize("name", [*Contribution.model_fields, "unknown"])
def test_each_field_is_taken_and_refused_as_the_model_takes_and_refuses_it(name: str) -> None:
    missing = {field: value for field, value in USUAL.items() if field != name}
    for fields in (missing, *({**USUAL, name: odd} for odd in ODD)):
        value = json.dumps(fields).encode()
        assert outcome(read_contribution, value) == outcome(Contribution.model_validate_json, value), value


@pytest.mark.parametrize(
    "value", [*RAW, *map(nested, (NESTING - 3, NESTING - 2, NESTING - 1, NESTING, NESTING + 1, 2_000))]
)
def test_odd_json_is_taken_and_refused_as_the_model_takes_and_refuses_it(value: bytes) -> None:
    assert outcome(read_contribution, value) == outcome(Contribution.model_validate_json, value)


def test_what_was_read_is_equal_to_what_the_model_reads() -> None:
    value = WRITTEN
    assert read_contribution(value) == Contribution.model_validate_json(value)
    assert hash(read_contribution(value)) == hash(Contribution.model_validate_json(value))
