"""What decode accepts, what it refuses, and that it names the cause."""

import json
from typing import Any

import msgspec
import orjson
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import CONTENT_BYTES, EVENT_BYTES, METADATA_BYTES, NESTING
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.bad_input import BAD
from tests.support.events import OPTIONAL, REQUIRED, encoded, event, full_event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FINITE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)


def accepted(value: bytes) -> Accepted:
    outcome = decode(value)
    assert isinstance(outcome, Accepted), outcome
    return outcome


def rejected(value: bytes | None) -> tuple[Reason, str]:
    outcome = decode(value)
    assert isinstance(outcome, Rejection), outcome
    return outcome.reason, outcome.path


@pytest.mark.parametrize("name", [name for name, bad in BAD.items() if bad.reason != Reason.RESERVED])
def test_bad_input_is_rejected_for_its_reason(name: str) -> None:
    """But not what only the pipeline may append: that is rejected by the signature, which its headers lack."""
    assert rejected(BAD[name].value) == (BAD[name].reason, BAD[name].path)


class TestNeverRaises:
    @given(st.binary())
    def test_on_any_bytes(self, value: bytes) -> None:
        assert isinstance(decode(value), Rejection)

    @given(JSON)
    def test_on_any_json(self, value: Any) -> None:
        assert isinstance(decode(json.dumps(value).encode()), Rejection)

    @given(st.data())
    def test_on_a_valid_event_with_one_field_replaced(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([*REQUIRED, *OPTIONAL, "other"]))
        outcome = decode(json.dumps(full_event(**{name: data.draw(JSON)})).encode())
        assert isinstance(outcome, Accepted | Rejection)

    @given(st.data())
    def test_on_a_valid_event_with_bytes_replaced(self, data: st.DataObject) -> None:
        value = bytearray(encoded(full_event(content={"n": [1.0, {"a": "\\u0022é"}], "token": "x"})))
        for _ in range(data.draw(st.integers(1, 3))):
            start = data.draw(st.integers(0, len(value)))
            value[start : start + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        assert isinstance(decode(bytes(value)), Accepted | Rejection)


class TestAccepted:
    @given(FINITE, FINITE)
    def test_holds_what_the_producer_sent(self, one: Any, two: Any) -> None:
        sent = event(content={"x": one}, metadata={"y": two})
        outcome = accepted(encoded(sent))
        if not outcome.redacted:
            assert outcome.fields == sent
        assert orjson.loads(bytes(outcome.event.content)) == outcome.fields["content"]
        assert orjson.loads(outcome.value) == outcome.fields

    def test_with_every_field(self) -> None:
        outcome = accepted(encoded(full_event()))
        assert outcome.fields == full_event()
        assert orjson.loads(msgspec.json.encode(outcome.event)) == full_event()

    @pytest.mark.requirement("E-18", "E-19", "E-20", "E-21", "E-22", "X01")
    @pytest.mark.parametrize(
        "name",
        ["message", "tool_call", "feedback", "state_change", "decision.made", "foo", "x-acme", "x--y", "x-acme-a_b"],
    )
    @given(content=st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), FINITE, max_size=4))
    def test_whatever_its_type_and_the_shape_of_its_content(self, name: str, content: dict[str, Any]) -> None:
        assert accepted(encoded(event(event_type=name, content=content))).event.event_type == name

    @pytest.mark.requirement("E-03", "E-05", "X31")
    @pytest.mark.parametrize("text", ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "a/b", "é🦆", "a\nb", " "])
    @pytest.mark.parametrize("name", ["event_id", "agent_id", "tenant_id", "session_id"])
    def test_with_any_non_empty_id(self, name: str, text: str) -> None:
        assert accepted(encoded(event(**{name: text}))).fields[name] == text

    @pytest.mark.requirement("E-07", "Y02")
    @pytest.mark.parametrize("number", [0, 2**53 + 1, 2**63, 2**64 - 1])
    def test_with_any_sequence_of_64_bits(self, number: int) -> None:
        assert accepted(encoded(event(sequence=number))).event.sequence == number

    @pytest.mark.requirement("Y16")
    def test_with_a_float_that_is_an_integer_as_that_integer(self) -> None:
        outcome = accepted(encoded(event(sequence=8.0, ttl_seconds=60.0)))
        assert (outcome.event.sequence, outcome.event.ttl_seconds) == (8, 60)
        assert encoded([outcome.fields["sequence"], outcome.fields["ttl_seconds"]]) == b"[8,60]"

    @pytest.mark.requirement("E-31")
    def test_with_references_to_events_never_seen(self) -> None:
        accepted(encoded(event(parent_event_id="nowhere", correlation_id="nothing")))

    @pytest.mark.requirement("E-06", "E-26", "X06")
    @pytest.mark.parametrize(
        ("text", "instant"),
        [
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01t00:00:00.000000001z", 1),
            ("1970-01-01T14:00:00+14:00", 0),
            ("2016-12-31T23:59:60Z", 1483228800 * 10**9),
        ],
    )
    def test_timestamp_as_an_instant_and_as_written(self, text: str, instant: int) -> None:
        outcome = accepted(encoded(event(timestamp=text)))
        assert (outcome.instant, outcome.fields["timestamp"]) == (instant, text)

    @pytest.mark.parametrize(
        ("fields", "control"),
        [
            ({}, False),
            ({"tenant_id": "_hmx"}, True),
            ({"event_type": "x-hmx-tick"}, True),
            ({"tenant_id": "_hmx", "event_type": "x-hmx-tick"}, True),
            ({"event_type": "x-hmxtick"}, False),
        ],
    )
    def test_says_whether_it_claims_to_be_the_pipelines_own(self, fields: dict[str, str], control: bool) -> None:
        assert accepted(encoded(event(**fields))).control is control


class TestVersions:
    @pytest.mark.requirement("E-02", "V-01")
    @pytest.mark.parametrize("text", ["HMX-1.0\n", "HMX-1.٠", "hmx-1.0", "HMX-1", "1.0", "", "HMX-1.0.0", "HMX--1.0"])
    def test_that_are_misspelt_are_refused(self, text: str) -> None:
        assert rejected(encoded(event(hmx_version=text))) == (Reason.BAD_VERSION, "$.hmx_version")

    @pytest.mark.requirement("V-02")
    @pytest.mark.parametrize("text", ["HMX-2.0", "HMX-0.9", "HMX-10.0"])
    def test_of_another_major_are_refused_before_other_fields_are_looked_at(self, text: str) -> None:
        value = encoded({"hmx_version": text, "other": 1})
        assert rejected(value) == (Reason.UNSUPPORTED_VERSION, "$.hmx_version")
        assert "HMX-1" in Reason.UNSUPPORTED_VERSION.advice

    @pytest.mark.requirement("V-03", "E-23", "X02")
    @pytest.mark.parametrize("text", ["HMX-1.1", "HMX-1.37"])
    def test_of_a_later_minor_keep_their_new_fields_aside(self, text: str) -> None:
        sent = event(hmx_version=text)
        outcome = accepted(encoded(sent | {"mood": {"a": [1]}, "extensions": "theirs"}))
        assert outcome.fields == sent | {"extensions": {"mood": {"a": [1]}, "extensions": "theirs"}}

    @pytest.mark.requirement("E-23", "X02")
    def test_the_first_minor_has_no_other_fields(self) -> None:
        assert rejected(encoded(event(mood=1))) == (Reason.UNKNOWN_FIELD, "$.mood")


MISTYPED: dict[str, Any] = dict.fromkeys((*REQUIRED, *OPTIONAL), 3) | dict.fromkeys(
    ("sequence", "ttl_seconds", "salience", "embeddings", "tags"), "3"
)


class TestFields:
    @pytest.mark.requirement("E-01", "E-09")
    @pytest.mark.parametrize("name", REQUIRED)
    def test_dropped_is_named(self, name: str) -> None:
        value = event()
        del value[name]
        assert rejected(encoded(value)) == (Reason.MISSING_FIELD, f"$.{name}")

    @pytest.mark.requirement("E-01", "E-09")
    @pytest.mark.parametrize("name", [*REQUIRED, *OPTIONAL])
    @pytest.mark.parametrize("what", ["mistyped", None, True])
    def test_mistyped_is_named(self, name: str, what: Any) -> None:
        wrong = MISTYPED[name] if what == "mistyped" else what
        assert rejected(encoded(full_event(**{name: wrong}))) == (Reason.WRONG_TYPE, f"$.{name}")

    @pytest.mark.requirement("E-09")
    @pytest.mark.parametrize("name", ["content", "metadata"])
    @pytest.mark.parametrize("wrong", [None, [], "x", 3])
    def test_content_and_metadata_are_objects(self, name: str, wrong: Any) -> None:
        assert rejected(encoded(event(**{name: wrong}))) == (Reason.WRONG_TYPE, f"$.{name}")

    @pytest.mark.requirement("E-01")
    @pytest.mark.parametrize("name", ["event_id", "event_type", "agent_id", "tenant_id", "session_id"])
    def test_empty_is_named(self, name: str) -> None:
        assert rejected(encoded(event(**{name: ""}))) == (Reason.EMPTY_FIELD, f"$.{name}")

    @pytest.mark.requirement("E-06", "E-07", "E-10", "E-11", "X05", "X06")
    @pytest.mark.parametrize(
        ("name", "wrong", "reason", "path"),
        [
            ("timestamp", "2026-03-14T03:00:00", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("timestamp", "2026-02-30T03:00:00Z", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("timestamp", "20260314T030000Z", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("timestamp", "2026-03-14", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("timestamp", "2026-03-14T12:59:60Z", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("timestamp", "", Reason.BAD_TIMESTAMP, "$.timestamp"),
            ("sequence", -1, Reason.BAD_SEQUENCE, "$.sequence"),
            ("sequence", 1.5, Reason.BAD_SEQUENCE, "$.sequence"),
            ("sequence", -1.0, Reason.BAD_SEQUENCE, "$.sequence"),
            ("salience", -0.01, Reason.BAD_SALIENCE, "$.salience"),
            ("salience", 1.01, Reason.BAD_SALIENCE, "$.salience"),
            ("embeddings", [], Reason.BAD_EMBEDDINGS, "$.embeddings"),
            ("embeddings", [0.5, True], Reason.BAD_EMBEDDINGS, "$.embeddings[1]"),
            ("embeddings", [0.5, 1, "x"], Reason.BAD_EMBEDDINGS, "$.embeddings[2]"),
            ("embeddings", [0.0] * 4097, Reason.BAD_EMBEDDINGS, "$.embeddings"),
            ("tags", ["a", "b", "c", 4], Reason.BAD_TAGS, "$.tags[3]"),
            ("tags", ["a"] * 65, Reason.BAD_TAGS, "$.tags"),
            ("ttl_seconds", -1, Reason.BAD_TTL, "$.ttl_seconds"),
            ("ttl_seconds", 1.5, Reason.BAD_TTL, "$.ttl_seconds"),
        ],
    )
    def test_out_of_bounds_is_named(self, name: str, wrong: Any, reason: Reason, path: str) -> None:
        assert rejected(encoded(full_event(**{name: wrong}))) == (reason, path)

    @pytest.mark.requirement("E-10", "E-33")
    @pytest.mark.parametrize(
        ("name", "right"),
        [
            ("salience", 0),
            ("salience", 1),
            ("salience", 1.0),
            ("embeddings", [0.5] * 4096),
            ("tags", ["é"] * 64),
            ("tags", []),
            ("ttl_seconds", 0),
        ],
    )
    def test_at_a_bound_passes(self, name: str, right: Any) -> None:
        assert accepted(encoded(event(**{name: right}))).fields[name] == right

    @given(st.sets(st.sampled_from(REQUIRED[1:]), min_size=1), st.sets(st.sampled_from(OPTIONAL)))
    def test_the_first_one_at_fault_is_named(self, dropped: set[str], nulls: set[str]) -> None:
        value = {name: item for name, item in full_event(**dict.fromkeys(nulls)).items() if name not in dropped}
        assert rejected(encoded(value))[1] == f"$.{min(dropped, key=REQUIRED.index)}"

    @given(st.sets(st.sampled_from(OPTIONAL), min_size=1))
    def test_optional_ones_are_absent_and_never_null(self, nulls: set[str]) -> None:
        first = min(nulls, key=OPTIONAL.index)
        assert rejected(encoded(full_event(**dict.fromkeys(nulls)))) == (Reason.WRONG_TYPE, f"$.{first}")

    @given(st.text(min_size=12), st.sampled_from([*REQUIRED, *OPTIONAL]))
    def test_no_value_is_repeated_in_the_rejection(self, secret: str, name: str) -> None:
        canary = f"canary{secret}"
        outcome = decode(json.dumps(full_event(**{name: [[canary]]})).encode())
        assert isinstance(outcome, Rejection)
        assert "canary" not in outcome.path + outcome.detail


def nested(levels: int) -> dict[str, Any]:
    """An event in which that many objects stand in each other."""
    inner: dict[str, Any] = {}
    for _ in range(levels - 2):
        inner = {"a": inner}
    return event(content=inner)


def padded(name: str, size: int) -> dict[str, Any]:
    """An event whose field `name` is `size` bytes in canonical form; é takes two of them."""
    rest = size - len(b'{"x":""}')
    return event(**{name: {"x": "é" * (rest // 2) + "a" * (rest % 2)}})


class TestRecords:
    @pytest.mark.requirement("E-33", "Y02", "Y16")
    @pytest.mark.parametrize(
        ("value", "reason"),
        [
            (None, Reason.NULL_VALUE),
            (b"", Reason.NOT_JSON),
            (b"{", Reason.NOT_JSON),
            (b"{}x", Reason.NOT_JSON),
            (b'{"a":NaN}', Reason.NOT_A_NUMBER),
            (b'{"a":[1, -Infinity]}', Reason.NOT_A_NUMBER),
            (b'{"a":Name}', Reason.NOT_JSON),
            (b'{"a":"\\ud800"}', Reason.LONE_SURROGATE),
            (b'{"a":"\\udc00\\ud800"}', Reason.LONE_SURROGATE),
            (b'{"a":"\xed\xa0\x80"}', Reason.NOT_UTF8),
            (b'{"a":"\xff"}', Reason.NOT_UTF8),
            (b"\xef\xbb\xbf{}", Reason.BYTE_ORDER_MARK),
            (b"[]", Reason.NOT_AN_OBJECT),
            (b"null", Reason.NOT_AN_OBJECT),
            (b'{"a":1,"a":1}', Reason.DUPLICATE_KEY),
            (b'{"a":1,"\\u0061":1}', Reason.DUPLICATE_KEY),
            (b'{"a":[{"b" :1,"b":2}]}', Reason.DUPLICATE_KEY),
            (b'{"a":"\\u0022\\u0022","b":1,"b":2}', Reason.DUPLICATE_KEY),
            (b"[" * 100_000, Reason.TOO_DEEP),
            (b'{"a":' * 1_000 + b"1" + b"}" * 1_000, Reason.TOO_DEEP),
        ],
    )
    def test_that_are_no_event_are_refused(self, value: bytes | None, reason: Reason) -> None:
        assert rejected(value) == (reason, "$")

    @pytest.mark.requirement("E-33", "X30")
    def test_of_1_mb_pass_and_of_a_byte_more_do_not(self) -> None:
        value = encoded(event())
        assert isinstance(decode(value.ljust(EVENT_BYTES)), Accepted)
        assert rejected(value.ljust(EVENT_BYTES + 1)) == (Reason.TOO_LARGE, "$")

    @pytest.mark.requirement("E-33", "X30")
    @pytest.mark.parametrize(
        ("name", "limit", "reason"),
        [("content", CONTENT_BYTES, Reason.CONTENT_TOO_LARGE), ("metadata", METADATA_BYTES, Reason.METADATA_TOO_LARGE)],
    )
    def test_parts_are_measured_in_canonical_form(self, name: str, limit: int, reason: Reason) -> None:
        at_limit, over = padded(name, limit), padded(name, limit + 1)
        assert [len(rfc8785.dumps(value[name])) for value in (at_limit, over)] == [limit, limit + 1]
        for write in (encoded, lambda value: json.dumps(value, indent=1).encode()):
            if len(write(over)) <= EVENT_BYTES:
                accepted(write(at_limit))
                assert rejected(write(over)) == (reason, f"$.{name}")

    @pytest.mark.requirement("E-33")
    @pytest.mark.parametrize("number", [1e20, 1.0, 123456789.0, 1e-7, 1.5e300, 0.00001, 1e16])
    def test_numbers_are_measured_in_canonical_form(self, number: float) -> None:
        one = len(rfc8785.dumps(number)) + 1
        numbers = [number] * ((METADATA_BYTES - len('{"x":[],"y":""}') + 1) // one)
        pad = METADATA_BYTES - len(rfc8785.dumps({"x": numbers, "y": ""}))
        accepted(encoded(event(metadata={"x": numbers, "y": "a" * pad})))
        over = event(metadata={"x": numbers, "y": "a" * (pad + 1)})
        assert rejected(encoded(over)) == (Reason.METADATA_TOO_LARGE, "$.metadata")

    @pytest.mark.requirement("Y02")
    def test_of_any_size_with_integers_that_canonical_json_knows_not_pass(self) -> None:
        accepted(encoded(event(content={"n": [2**64 - 1] * 4_000})))

    def test_nested_to_the_limit_pass_and_deeper_do_not(self) -> None:
        accepted(encoded(nested(NESTING)))
        assert rejected(encoded(nested(NESTING + 1))) == (Reason.TOO_DEEP, "$")
        for levels in (254, 255, 900):  # what a writer stops at, and a parser does not
            assert rejected(json.dumps(nested(levels)).encode()) == (Reason.TOO_DEEP, "$")

    @pytest.mark.parametrize(
        "number",
        ["1e5", "1E+5", "1e-3", "12e-8", "12E-4", "1e-400", "0.00001", "-0", "-0.0", "5E1", "0e5", "1.5e-5", "1e15",
         "18446744073709551616", "123456789012345678.5", "123456789012345678.0", " 1e5", "\n\t1E-3", "-10e4"],
    )  # fmt: skip
    def test_a_key_given_twice_is_found_however_short_numbers_are_written(self, number: str) -> None:
        """Dumped, such a number may be longer, and make up for what the lost key took."""
        for room in range(48):
            numbers = ",".join([number] * room)
            value = encoded(event(content={"n": 0})).replace(b'"n":0', f'"n":0,"n":0,"m":[{numbers}]'.encode())
            assert rejected(value)[0] in (Reason.DUPLICATE_KEY, Reason.NUMBER_OUT_OF_RANGE)

    @pytest.mark.parametrize("text", ['"}{', 'say "x": {"a":1}', '\\"', "[[[[", "{" * 500])
    def test_brackets_and_quotes_in_texts_mislead_nobody(self, text: str) -> None:
        assert accepted(encoded(event(content={"text": text, text: 1}))).fields["content"] == {"text": text, text: 1}


class TestDigest:
    def digest(self, value: bytes) -> bytes:
        return accepted(value).digest

    @given(FINITE, st.randoms())
    def test_is_one_for_all_spellings(self, value: Any, shuffled: Any) -> None:
        sent = full_event(content={"x": value})
        names = list(sent)
        shuffled.shuffle(names)
        respelt = json.dumps({name: sent[name] for name in names}, indent=2).encode()
        assert self.digest(encoded(sent)) == self.digest(respelt)
        assert len(self.digest(respelt)) == 16

    @pytest.mark.requirement("Y13")
    @given(st.integers(-(2**53), 2**53) | st.integers(1, 9).map(lambda exponent: 10 ** (exponent + 7)))
    def test_takes_a_float_for_the_integer_that_it_equals(self, number: int) -> None:
        one, other = ([number], {"n": number}), ([float(number)], {"n": float(number)})
        assert self.digest(encoded(event(content={"x": one}))) == self.digest(encoded(event(content={"x": other})))

    @pytest.mark.requirement("Y13")
    @given(FINITE, FINITE)
    def test_differs_where_values_differ(self, one: Any, other: Any) -> None:
        outcomes = [accepted(encoded(event(content={"x": value}))) for value in (one, other)]
        same = rfc_like(outcomes[0].fields["content"]) == rfc_like(outcomes[1].fields["content"])
        assert (outcomes[0].digest == outcomes[1].digest) is same


def rfc_like(value: Any) -> Any:
    """Values that compare as JSON's do: true isn't 1, and 1.0 is."""
    if isinstance(value, dict):
        return {key: rfc_like(item) for key, item in value.items()}
    if isinstance(value, list):
        return [rfc_like(item) for item in value]
    return (isinstance(value, bool), value)
