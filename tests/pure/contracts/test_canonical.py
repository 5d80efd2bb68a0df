"""Canonical JSON is RFC 8785's, and goes on where the RFC has no answer."""

import hashlib
import json
import struct
from typing import Any

import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.canonical import canonical_json, content_hash

# RFC 8785 appendix B: the bits of a double, and how it is written.
NUMBERS = [
    ("0000000000000000", "0"),
    ("8000000000000000", "0"),
    ("0000000000000001", "5e-324"),
    ("8000000000000001", "-5e-324"),
    ("7fefffffffffffff", "1.7976931348623157e+308"),
    ("ffefffffffffffff", "-1.7976931348623157e+308"),
    ("4340000000000000", "9007199254740992"),
    ("c340000000000000", "-9007199254740992"),
    ("4430000000000000", "295147905179352830000"),
    ("44b52d02c7e14af5", "9.999999999999997e+22"),
    ("44b52d02c7e14af6", "1e+23"),
    ("44b52d02c7e14af7", "1.0000000000000001e+23"),
    ("444b1ae4d6e2ef4e", "999999999999999700000"),
    ("444b1ae4d6e2ef4f", "999999999999999900000"),
    ("444b1ae4d6e2ef50", "1e+21"),
    ("3eb0c6f7a0b5ed8c", "9.999999999999997e-7"),
    ("3eb0c6f7a0b5ed8d", "0.000001"),
    ("41b3de4355555553", "333333333.3333332"),
    ("41b3de4355555554", "333333333.33333325"),
    ("41b3de4355555555", "333333333.3333333"),
    ("41b3de4355555556", "333333333.3333334"),
    ("41b3de4355555557", "333333333.33333343"),
    ("becbf647612f3696", "-0.0000033333333333333333"),
    ("43143ff3c1cb0959", "1424953923781206.2"),
]

# RFC 8785 §3.2.2: a document, and its canonical form in hexadecimal (§3.2.4).
DOCUMENT = r"""{
  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
  "literals": [null, true, false]
}"""
CANONICAL = """
7b 22 6c 69 74 65 72 61 6c 73 22 3a 5b 6e 75 6c 6c 2c 74 72 75 65 2c 66 61 6c 73 65 5d 2c 22 6e 75 6d 62 65 72 73 22 3a
5b 33 33 33 33 33 33 33 33 33 2e 33 33 33 33 33 33 33 2c 31 65 2b 33 30 2c 34 2e 35 2c 30 2e 30 30 32 2c 31 65 2d 32 37
5d 2c 22 73 74 72 69 6e 67 22 3a 22 e2 82 ac 24 5c 75 30 30 30 66 5c 6e 41 27 42 5c 22 5c 5c 5c 5c 5c 22 2f 22 7d
"""

# RFC 8785 §3.2.3: keys are sorted by UTF-16 code units, so an astral one comes before a private use one.
KEYS = r"""{
  "\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh", "1": "One",
  "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"
}"""
IN_ORDER = [
    "Carriage Return", "One", "Control", "Latin Small Letter O With Diaeresis", "Euro Sign", "Emoji: Grinning Face",
    "Hebrew Letter Dalet With Dagesh",
]  # fmt: skip

TEXT = st.text(st.characters(codec="utf-8"))
DOMAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.requirement("A-28")
@pytest.mark.parametrize(("bits", "text"), NUMBERS)
def test_doubles_are_written_as_the_rfc_lists_them(bits: str, text: str) -> None:
    (number,) = struct.unpack(">d", bytes.fromhex(bits))
    assert canonical_json([number]) == f"[{text}]".encode()


@pytest.mark.requirement("A-28")
@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(rfc8785.CanonicalizationError):
        canonical_json([number])


@pytest.mark.requirement("A-28")
def test_the_documents_of_the_rfc() -> None:
    assert canonical_json(json.loads(DOCUMENT)) == bytes.fromhex(CANONICAL)
    assert list(json.loads(canonical_json(json.loads(KEYS))).values()) == IN_ORDER


@pytest.mark.requirement("A-28")
@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"), (-0.0, "0"), (1e21, "1e+21"), (2**53 + 1, "9007199254740993"), (2**64 - 1, "18446744073709551615"),
        (-(2**63), "-9223372036854775808"), (1e16, "10000000000000000"), (1e-7, "1e-7"), (None, "null"),
        ({"b": None, "a": 1.50}, '{"a":1.5,"b":null}'), ("\x7f\u2028\b\x1f", '"\x7f\u2028\\b\\u001f"'),
        ({"\U0001f600": 1, "\uffff": 2, "a": {"\ue000": 1, "\U00010000": 2}},
         '{"a":{"\U00010000":2,"\ue000":1},"\U0001f600":1,"\uffff":2}'),
    ],
)  # fmt: skip
def test_edges(value: Any, text: str) -> None:
    assert canonical_json({"x": value}) == b'{"x":' + text.encode() + b"}"


@pytest.mark.requirement("A-28")
@given(DOMAIN)
def test_it_is_what_another_implementation_writes(value: Any) -> None:
    assert canonical_json(value) == rfc8785.dumps(value)


@pytest.mark.requirement("A-28")
@given(st.integers(-(2**63), 2**64 - 1))
def test_integers_stay_as_they_are(number: int) -> None:
    assert orjson.loads(canonical_json({"n": [number]})) == {"n": [number]}


@pytest.mark.requirement("A-27")
@given(st.dictionaries(TEXT, DOMAIN, max_size=4))
def test_a_content_hash_is_the_lower_case_sha_256_of_it(content: dict[str, Any]) -> None:
    assert content_hash(content) == hashlib.sha256(rfc8785.dumps(content)).hexdigest()
