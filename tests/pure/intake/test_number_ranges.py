"""A number that fits neither in 64 bits nor in a double is named by its path."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import EVENT_BYTES, REDACTED_PATH
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.intake.json_paths import path_of

TOO_MUCH = ["1e400", "-1e999", "18446744073709551616", "-9223372036854775809", "1" + "0" * 300, "1" + "0" * 5_000]
KEYS = st.text(st.characters(codec="utf-8"), max_size=8)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | KEYS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def refused(value: bytes) -> tuple[Reason, str]:
    found = decode(value)
    assert isinstance(found, Rejection)
    return found.reason, found.path


@pytest.mark.parametrize("number", TOO_MUCH)
@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"a":%s}', "$.a"),
        ('{"sequence" : %s }', "$.sequence"),
        ('{"content":{"a":[1,"x",{},%s]}}', "$.content.a[3]"),
        ('{"content":{"odd key":[[],[%s,1e999]]}}', "$.content['odd key'][1][0]"),
        ('{"a":{"b":[1]},"c":[{"d":null},{"e":%s}]}', "$.c[1].e"),
        ('{"text":"1e999 18446744073709551616","n":%s}', "$.n"),
    ],
)  # fmt: skip
def test_a_number_out_of_range_is_named_by_its_path(number: str, text: str, path: str) -> None:
    assert refused((text % number).encode()) == (Reason.NUMBER_OUT_OF_RANGE, path)


@given(st.data(), st.sampled_from(TOO_MUCH))
def test_wherever_it_stands(data: st.DataObject, number: str) -> None:
    made: Any = "@here@"
    parts: list[str | int] = []
    for _ in range(data.draw(st.integers(1, 6))):
        if data.draw(st.booleans()):
            before = data.draw(st.lists(PLAIN, max_size=3))
            made, step = [*before, made, *data.draw(st.lists(PLAIN, max_size=3))], len(before)
        else:
            step = data.draw(KEYS)
            made = {
                **{key: value for key, value in data.draw(st.dictionaries(KEYS, PLAIN)).items() if key != step},
                step: made,
            }
        parts.insert(0, step)
    value = orjson.dumps({"content": made}).replace(b'"@here@"', number.encode())
    assert refused(value) == (Reason.NUMBER_OUT_OF_RANGE, path_of(["content", *parts])[:REDACTED_PATH])


def test_a_path_is_short_however_deep_it_stands() -> None:
    deep = b'{"%s":' % ("ü" * 64).encode() * 900 + b"1e999" + b"}" * 900
    assert len(refused(deep)[1]) == REDACTED_PATH


@pytest.mark.parametrize("rest", [b"", b",", b'"x'])
def test_where_the_text_ends_early_no_path_is_named(rest: bytes) -> None:
    assert refused(b'{"a":1e999' + rest) == (Reason.NUMBER_OUT_OF_RANGE, "$")


def test_of_a_key_that_occurs_twice_both_values_are_looked_at() -> None:
    assert refused(b'{"a":1e999,"a":1}') == (Reason.NUMBER_OUT_OF_RANGE, "$.a")


def test_the_largest_event_is_looked_through() -> None:
    value = b'{"a":[' + b"[]," * ((EVENT_BYTES - 20) // 3) + b"1e999]}"
    assert len(value) <= EVENT_BYTES
    assert refused(value) == (Reason.NUMBER_OUT_OF_RANGE, f"$.a[{(EVENT_BYTES - 20) // 3}]")
