"""Search by the linear engine agrees with Python's."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.knowledge import forms
from hmx_pipeline.compiler.knowledge.language import TONGUES
from hmx_pipeline.compiler.knowledge.plain_statements import _CONTRACTED, _PARTS
from hmx_pipeline.intake.scan import Prefiltered, shape
from hmx_pipeline.languages.cues import cue

CUES = ("sources", "quotes", "handles", "declares", "shows", "unsure")
USED: dict[str, list[Prefiltered]] = {
    **{code: [tongue.says[name] for name in sorted(tongue.says.texts)] for code, tongue in TONGUES.items()},
    "cues": [Prefiltered(cue(name)) for name in CUES],
    "forms": [forms.RELATED, forms.FROM_NOW, _CONTRACTED, _PARTS],
}
WORDS = re.compile(r"[^\W\d_]+")
BETWEEN = (" ", ", ", "; ", "\n", "\x1c", "'", "’", "-", ".", ": ", "", "?", "\t", "_", "1", "(", "[", " — ")


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        (r"a(?=b(?:c)d)e", "ae"),
        (r"(?<![\w'])(?:x|y)(?!z)", "(?:x|y)"),
        (r"[\s[(]\s++\S+?", r"[\t-\r\x1c-\x20\[(][\t-\r\x1c-\x20]+[^\t-\r\x1c-\x20]+?"),
        (r"\(?=\[", r"\(?=\["),
        (r"[^\S\n]x$", r"[^[^\t-\r\x1c-\x20]\n]x\n?$"),
    ],
)
def test_a_shape_leaves_out_what_looks_around(pattern: str, found: str) -> None:
    assert shape(pattern) == found


@pytest.mark.parametrize("where", USED)
@given(st.data())
def test_what_the_linear_engine_rules_out_python_does_not_find(where: str, data: st.DataObject) -> None:
    expression = data.draw(st.sampled_from(USED[where]))
    words = sorted(set(WORDS.findall(re.sub(r"\\.", " ", expression.pattern)))) or ["word"]
    pieces = st.one_of(st.sampled_from(words), st.sampled_from([*BETWEEN, "The", "it", "is", "x"]), st.text(max_size=2))
    plain = re.compile(expression.pattern, re.IGNORECASE)
    text = data.draw(st.lists(pieces, max_size=12).map("".join) | st.from_regex(plain))
    assert _span(expression.search(text)) == _span(plain.search(text))
    assert _span(expression.match(text)) == _span(plain.match(text))
    assert _span(expression.fullmatch(text)) == _span(plain.fullmatch(text))
    assert expression.sub("-", text) == plain.sub("-", text)
    assert expression.split(text) == plain.split(text)
    assert [*map(_span, expression.finditer(text))] == [*map(_span, plain.finditer(text))]


@pytest.mark.parametrize(
    ("expression", "text"), [(r"^(?:is|are)$", "is\n"), (r"[^\S\n]x", "\x1cx"), (r"a\Sb\Wc", "a.b-c"), ("ſo", "so")]
)
def test_what_python_finds_in_a_plain_text_is_found(expression: str, text: str) -> None:
    python = re.compile(expression, re.IGNORECASE)
    assert python.search(text)
    assert _span(python.search(text)) == _span(Prefiltered(python).search(text))


@pytest.mark.parametrize("expression", [re.compile("a.b", re.DOTALL), re.compile("k\u0131", re.IGNORECASE)])
def test_what_the_engines_read_differently_is_refused(expression: re.Pattern[str]) -> None:
    with pytest.raises(ValueError, match="no flag but IGNORECASE"):
        Prefiltered(expression)


def _span(found: re.Match[str] | None) -> tuple[int, int] | None:
    return None if found is None else found.span()
