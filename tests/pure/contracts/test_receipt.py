"""Receipts of erasures: no longer genuine once anything is altered."""

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.receipt import Receipt, is_genuine, key_of, public, signed


def receipt() -> Receipt:
    return Receipt(
        erasure_id="e-1",
        tenant_id="acme",
        scope=ErasedScope.SUBJECT,
        name="ada",
        at="2026-03-14T03:00:00.000Z",
        issued_at="2026-03-14T03:00:05.000Z",
        gone={"events": 3},
        positions={"hmx.events.v1/0": 7},
        last_copy={"hmx.events.v1": "2026-04-13T03:00:00.000Z"},
    )


def test_a_receipt_is_genuine_until_it_is_altered() -> None:
    made = signed(receipt(), key_of("secret"))
    assert is_genuine(Receipt.model_validate_json(made.to_json()))
    assert is_genuine(made, made.key)
    assert not is_genuine(made, "00" * 32)
    for change in ({"name": "bob"}, {"gone": {"events": 4}}, {"signature": "zz"}, {"signature": ""}, {"key": "00"}):
        assert not is_genuine(made.model_copy(update=change))
    other = signed(receipt(), key_of("another"))
    assert not is_genuine(made.model_copy(update={"key": other.key}))


@given(key=st.binary(max_size=40), signature=st.binary(max_size=70))
def test_bytes_that_are_no_key_and_no_signature_are_refused(key: bytes, signature: bytes) -> None:
    assert not is_genuine(receipt().model_copy(update={"key": key.hex(), "signature": signature.hex()}))


def test_an_installation_keeps_its_key() -> None:
    """Receipts that were given out stay genuine: the key follows from the control key alone."""
    assert public(key_of("secret")) == "614a644993249e45d3de1863dd288b242cd47a007e057cb225ed1492f57a467b"
