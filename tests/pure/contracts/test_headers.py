"""Headers of what is written: CloudEvents whose source and id name one record, and traces that are passed on."""

import re
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.headers import (
    CE_ID,
    CE_SOURCE,
    CE_SPECVERSION,
    CE_TYPE,
    CONTENT_TYPE,
    CONTRIBUTION,
    DEAD_LETTER,
    EPISODE,
    JSON,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    TRACEPARENT,
    Headers,
    event_headers,
    fingerprint,
    header,
    output_headers,
    traceparent,
)

IDS = st.text(min_size=1, max_size=8)
NAMED = ("/", ":", "\n", "é", "a/b", "a", "b", "%2F", " ", "\x00")


def name(headers: Headers) -> tuple[bytes | None, bytes | None]:
    return header(headers, CE_SOURCE), header(headers, CE_ID)


def assert_is_a_cloud_event(headers: Headers) -> None:
    """CloudEvents 1.0 §3.1: the required attributes, as the Kafka protocol binding names them in binary mode."""
    said = dict(headers)
    assert len(said) == len(headers), "no name twice"
    assert said[CE_SPECVERSION] == b"1.0"
    assert said[CONTENT_TYPE] == b"application/json"
    assert said[CE_TYPE].startswith(b"hmx.")
    for attribute in (CE_ID, CE_SOURCE):
        assert said[attribute]
        assert re.fullmatch(rb"[!-~]+", said[attribute]), "no control characters, a URI reference"


@given(IDS, IDS, IDS)
def test_an_event_is_a_cloud_event_whatever_its_ids_are(tenant: str, session: str, event: str) -> None:
    assert_is_a_cloud_event(event_headers(tenant, session, event))


def test_events_of_different_ids_have_different_names() -> None:
    places = list(product(NAMED, repeat=3))
    assert len({name(event_headers(*ids)) for ids in places}) == len(places)


def test_ids_too_long_for_a_header_stay_out() -> None:
    assert event_headers("t", "s" * 2_000, "e") != [JSON]
    assert event_headers("t", "s" * 2_048, "e") == event_headers("t", "s", "\n" * 700) == [JSON]


def test_outputs_of_different_origins_or_contents_have_different_names() -> None:
    made = [
        output_headers(EPISODE, "hmx.events.v1", partition, offset) for partition, offset in product((0, 1), (0, 7))
    ]
    made += [output_headers(CONTRIBUTION, "hmx.events.v1", 0, 7, fingerprint(value)) for value in (b"a", b"b")]
    made += [output_headers(DEAD_LETTER, "hmx.evidence.v1", 0, 7)]
    assert len({name(headers) for headers in made}) == len(made)
    for headers in made:
        assert_is_a_cloud_event(headers)


def test_an_output_says_where_it_comes_from_and_says_it_again() -> None:
    headers = output_headers(EPISODE, "hmx.events.v1", 3, 41)
    assert (header(headers, ORIGIN_PARTITION), header(headers, ORIGIN_OFFSET)) == (b"3", b"41")
    assert name(headers) == (b"/hmx.events.v1/3", b"41")
    assert output_headers(EPISODE, "hmx.events.v1", 3, 41) == headers


TRACE = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.mark.parametrize("value", [TRACE, TRACE[:-2] + b"00", b"cc" + TRACE[2:] + b"-what-comes-later"])
def test_a_trace_is_read_as_it_was_written(value: bytes) -> None:
    assert traceparent([("mine", b"1"), (TRACEPARENT, value)]) == value


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"00",
        TRACE.upper(),
        TRACE + b"-more",
        TRACE + b"\n",
        b"ff" + TRACE[2:],
        b"cc" + TRACE[2:] + b"-" + b"x" * 100,
        b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01",
        b"00-0af7651916cd43dd8448eb211c80319c-" + b"0" * 16 + b"-01",
    ],
)
def test_what_is_no_trace_is_none(value: bytes) -> None:
    assert traceparent([(TRACEPARENT, value)]) is None


def test_of_several_traces_the_last_counts_and_without_headers_there_is_none() -> None:
    assert traceparent([(TRACEPARENT, b"no"), (TRACEPARENT, TRACE)]) == TRACE
    assert traceparent(()) is None
