"""Receipts of erasures: signed as RFC 8032 says, and no longer genuine once anything is altered."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts import ed25519
from hmx_pipeline.contracts.erasure import ErasedScope
from hmx_pipeline.contracts.receipt import Receipt, is_genuine, seed_of, signed

VECTORS = [  # RFC 8032 §7.1: seed, public key, message, signature
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
    ),
]


@pytest.mark.parametrize(("seed", "key", "message", "signature"), VECTORS)
def test_signatures_are_those_of_the_standard(seed: str, key: str, message: str, signature: str) -> None:
    assert ed25519.public_key(bytes.fromhex(seed)).hex() == key
    assert ed25519.sign(bytes.fromhex(seed), bytes.fromhex(message)).hex() == signature
    assert ed25519.verify(bytes.fromhex(key), bytes.fromhex(message), bytes.fromhex(signature))


@given(at=st.integers(0, 63), flipped=st.integers(1, 255))
def test_no_altered_signature_is_one(at: int, flipped: int) -> None:
    seed, message = b"s" * 32, b"m"
    signature = bytearray(ed25519.sign(seed, message))
    signature[at] ^= flipped
    assert not ed25519.verify(ed25519.public_key(seed), message, bytes(signature))


@given(key=st.binary(max_size=40), signature=st.binary(max_size=70))
def test_bytes_that_are_no_key_and_no_signature_are_refused(key: bytes, signature: bytes) -> None:
    assert not ed25519.verify(key, b"m", signature)


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
    made = signed(receipt(), seed_of("secret"))
    assert is_genuine(Receipt.model_validate_json(made.to_json()))
    assert is_genuine(made, made.key)
    assert not is_genuine(made, "00" * 32)
    for change in ({"name": "bob"}, {"gone": {"events": 4}}, {"signature": "zz"}, {"signature": ""}, {"key": "00"}):
        assert not is_genuine(made.model_copy(update=change))
    other = signed(receipt(), seed_of("another"))
    assert not is_genuine(made.model_copy(update={"key": other.key}))
