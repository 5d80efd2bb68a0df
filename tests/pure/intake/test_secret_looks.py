"""The looks that spare most events the search for secrets miss nothing that the search would find."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import Accepted, decode
from hmx_pipeline.intake.redaction import redact
from hmx_pipeline.intake.scan import REDACTED, finder, free
from hmx_pipeline.intake.secret_kinds import KINDS, SecretKind
from hmx_pipeline.intake.secret_rules import FIRST_LOOK, in_other_letters, suspicious
from hmx_pipeline.intake.secret_tokens import ANCHORS, holds_token, taker, without_tokens
from tests.pure.intake.test_secret_kinds import FOUND, LEFT, V, spelled
from tests.support.events import encoded, event

first_look = finder(*FIRST_LOOK)
any_token = finder(*ANCHORS)
AROUND = [
    "",
    " ",
    "\n",
    "_",
    "-",
    ".",
    "=",
    ":",
    '"',
    "\\n",
    "\\x3d",
    "%3D",
    "\x1b[0m",
    "\\",
    "é",
    "x",
    "7",
    "/",
    "\u200b",
    "{}",
    "\\\\n",
]
NAMES = [
    "password",
    "DB_PASS",
    "smtpPass",
    "api key",
    "Token",
    "signing_key_2",
    "_auth",
    "PW",
    "pin",
    "cookie",
    "Basic",
    "my password is",
]
VALUES = [
    V,
    "hunter2",
    "4111 1111 1111 1111",
    "https://a:b@c",
    "pass: x1",
    "curl -u a:b",
    "--pass x1y2z3",
    "\uff50\uff41\uff53\uff53",
]
pieces = st.sampled_from([*(spelled(kind.example) for kind in KINDS), *(spelled(kind.counter) for kind in KINDS)])
texts = st.lists(
    pieces
    | st.sampled_from([*AROUND, *NAMES, *VALUES, *(form.format(V) for form in FOUND), *LEFT])
    | st.text(max_size=4),
    max_size=6,
).map("".join)
values = st.recursive(
    texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(texts, inner, max_size=3)
        | inner.map(json.dumps)
    ),
    max_leaves=4,
)  # fmt: skip


def tried(text: str) -> str:
    """Every kind on the whole text."""
    for kind in KINDS:
        text = taker(kind).whole.sub(REDACTED, text)
    return text


@given(texts)
def test_each_kind_that_a_text_holds_is_asked(text: str) -> None:
    assert without_tokens(text, free) == tried(text)


@pytest.mark.parametrize("kind", KINDS, ids=[kind.id for kind in KINDS])
@pytest.mark.parametrize(
    "before", ["", "é", *(one for one in AROUND if one not in ("x", "7", "_", "-", "\\", "\\\\n"))]
)
def test_each_kind_is_seen_behind_whatever_stands_before_it(kind: SecretKind, before: str) -> None:
    example = spelled(kind.example)
    assert tried(before + example) == without_tokens(before + example, free)
    if tried(before + example) != before + example:
        assert holds_token(json.dumps(before + example, ensure_ascii=False).encode())


@given(texts.map(lambda text: json.dumps(text, ensure_ascii=False).encode()))
def test_the_first_look_sees_what_another_sees(dump: bytes) -> None:
    assert first_look(dump) or in_other_letters(dump) or not suspicious(dump)
    assert holds_token(dump) == any_token(dump)


@given(values)
def test_an_event_keeps_no_secret_that_the_search_of_all_its_texts_finds(content: Any) -> None:
    fields = {**event(), "content": {"a": content}}
    outcome = decode(encoded(fields))
    assert isinstance(outcome, Accepted)
    searched, paths = redact(fields)
    assert (outcome.fields, outcome.redacted) == (searched, paths)


def test_a_text_in_which_every_kind_has_to_be_looked_for_is_refused() -> None:
    """The work counts, not only the characters: each kind means another pass."""
    kinds = " ".join(spelled(kind.example) for kind in KINDS)
    filled = "the quick brown fox jumps " * 18_000
    assert isinstance(decode(encoded(event(content={"text": kinds}))), Accepted)
    assert isinstance(decode(encoded(event(content={"text": filled + spelled(KINDS[0].example)}))), Accepted)
    refused = decode(encoded(event(content={"text": filled + kinds})))
    assert isinstance(refused, Rejection)
    assert refused.reason is Reason.TOO_COSTLY
