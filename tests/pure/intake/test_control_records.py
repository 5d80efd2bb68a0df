"""Headers that claim to be the pipeline's own: whatever they hold, nobody is misled and nothing raises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.headers import AUTHENTICATION, REROUTED_FROM
from hmx_pipeline.intake.control_records import (
    authentic,
    is_rerouted_copy,
    reroute_header,
    rerouted_from,
    signature,
    tick,
)

KEY = "control-key"
CLAIMS = st.binary(max_size=40) | st.lists(
    st.integers(0, 2**70).map(b"%d".__mod__) | st.sampled_from([b"", b"-1", b"1" * 5_000, b"\xd9\xa1", b"x"]),
    max_size=4,
).map(b":".join)


@pytest.mark.requirement("Y15")
@given(CLAIMS, st.binary(max_size=20))
def test_a_forged_header_is_no_claim_that_holds(claimed: bytes, value: bytes) -> None:
    place = rerouted_from([(REROUTED_FROM, claimed)])
    assert place is None or all(0 <= number < 10**19 for number in place)
    assert is_rerouted_copy(KEY, value, [(REROUTED_FROM, claimed)]) is False
    assert not authentic(KEY, value, [(AUTHENTICATION, claimed)])


@pytest.mark.requirement("Y14", "Y15")
@given(st.integers(0, 10_000), st.integers(0, 2**63 - 1), st.binary(max_size=20))
def test_our_own_holds_for_its_value_place_and_key_only(partition: int, offset: int, value: bytes) -> None:
    ours = reroute_header(KEY, partition, offset, value)
    assert is_rerouted_copy(KEY, value, [(REROUTED_FROM, b"0:0:forged"), ours]) is True
    assert rerouted_from([ours]) == (partition, offset)
    assert is_rerouted_copy("another key", value, [ours]) is False
    assert is_rerouted_copy(KEY, value + b" ", [ours]) is False
    moved = (REROUTED_FROM, ours[1].replace(b"%d:" % partition, b"%d:" % (partition + 1), 1))
    assert is_rerouted_copy(KEY, value, [moved]) is False
    assert is_rerouted_copy(KEY, value, []) is None


@pytest.mark.requirement("Y15")
def test_a_tick_is_authentic_with_the_key_that_it_was_signed_with() -> None:
    value = tick(3, 1_760_000_000_000)
    headers = [(AUTHENTICATION, signature(KEY, value))]
    assert authentic(KEY, value, headers)
    assert not authentic("another key", value, headers)
    assert not authentic(KEY, value, [])
