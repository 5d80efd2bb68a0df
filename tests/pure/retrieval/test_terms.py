"""Words and stems: what is compared."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.bounded_cache import ShortTextCache
from hmx_pipeline.retrieval import terms as module
from hmx_pipeline.retrieval.terms import STOP_WORDS, stems, terms, words


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The rollouts were failing", ["rollouts", "failing"]),
        ("TimeoutError in get_user_details", ["timeout", "error", "user", "details"]),
        ("src/app/HTTPServer.py:42", ["src", "app", "http", "server", "py", "42"]),
        ("don't", []),
        ("Überprüfen café", ["überprüfen", "café"]),
        ("ﬁle ＡＢＣ", ["file", "abc"]),
        ("检查命名", ["检查", "查命", "命名"]),
        ("pod検査", ["pod", "検査"]),
        ("査", ["査"]),
        ("the検査", ["検査"]),
        ("", []),
    ],
)
def test_words_come_apart(text: str, expected: list[str]) -> None:
    assert words(text) == expected


def test_forms_of_a_word_are_one_term() -> None:
    assert set(terms("deploy deploys deployed deploying")) == {"deploy"}


@given(st.text())
def test_any_text_has_words_and_none_is_a_stop_word(text: str) -> None:
    found = words(text)
    assert not STOP_WORDS & set(found)
    assert all(word and len(word) <= 192 for word in found)
    assert len(terms(text)) == len(found)


@given(st.text(st.characters(codec="ascii")))
def test_plain_text_has_the_same_words_alone_and_beside_other_text(text: str) -> None:
    assert [*words(text), "éa"] == words(f"{text} éa")


@given(st.lists(st.text(st.sampled_from("aBé_ 1査"), max_size=80)))
def test_what_is_remembered_changes_no_term(texts: list[str]) -> None:
    """Of two runs at most."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_KNOWN", ShortTextCache(lambda run: stems(words(run)), 2))
        for text in texts:
            assert terms(text) == stems(words(text))
            assert len(module._KNOWN) <= 2
