"""What functions remember is bounded in bytes, whoever chooses the texts."""

import ast
import gc
import tracemalloc
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.advice.files import _name_words
from hmx_pipeline.compiler.private_words import _words
from hmx_pipeline.compiler.recoveries import _alike
from hmx_pipeline.compiler.tasks.task_run import _first_run
from hmx_pipeline.contracts.bounded_cache import SHORT_TEXT, ShortTextCache, nbytes, remembered
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.intake.deviations import _of_form
from hmx_pipeline.intake.secret_names import bears_secret
from hmx_pipeline.intake.steps import _reader
from hmx_pipeline.retrieval.postings import session_mark, subject_hash
from hmx_pipeline.segments.action_names import mutates, phase_of
from hmx_pipeline.segments.intent import _STEM_OF, plain_stems, stem
from tests.support.evidence import success
from tests.support.memory import contribution_as_read

ROOT = Path(__file__).parents[3] / "pipeline" / "hmx_pipeline"


def held_after(function: Callable[..., Any], asked: Iterable[tuple[Any, ...]]) -> int:
    """Bytes that are still there once it has answered all of these."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for arguments in asked:
        function(*arguments)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return held


LONG = 4_000
"""Characters, which take four bytes each in memory."""
ALL: list[tuple[Callable[..., Any], int, tuple[Any, ...]]] = [
    (bears_secret, 1, ()), (_of_form, 1, ()), (_reader, 1, ()), (stem, 1, ()), (_STEM_OF.__getitem__, 4, ()),
     (mutates, 1, ()), (phase_of, 1, ()), (_alike, 1, ("write",)),
    (_name_words, 8, ()), (session_mark, 1, ()), (subject_hash, 1, ()),
]  # fmt: skip


@pytest.mark.parametrize(("function", "most", "more"), ALL, ids=lambda value: getattr(value, "__name__", ""))
def test_texts_that_somebody_else_chooses_fill_no_process(
    function: Callable[..., Any], most: int, more: tuple[Any, ...]
) -> None:
    """Twice the bound of texts, each of 16 KB; `lru_cache` would keep every one of them. What a
    function asks others for is part of its bound."""
    times = 2 * most * MB // (4 * LONG)
    assert held_after(function, ((f"{n:09}" + "😀" * LONG, *more) for n in range(times))) < (most + 0.5) * MB


@pytest.mark.parametrize("function", [_first_run, _words])
def test_contributions_that_are_remembered_count_with_all_that_they_hold(function: Callable[..., Any]) -> None:
    """Of each only a few bytes are derived; the key of its entry holds the rest."""
    small = remembered(MB)(function.__wrapped__)  # type: ignore[attr-defined]
    one = Contribution.model_validate_json(contribution_as_read("c", 0).value or b"")
    bodies = ({"contribution_id": str(n), "body": {"x": [("a" * 49 + " ") * 2_000 + str(n)]}} for n in range(25))
    told = (one.model_copy(update=more) for more in bodies)
    assert held_after(small, ((each,) for each in told)) < 1.5 * MB


def test_however_many_words_are_said_the_kept_stems_fill_six_megabytes_at_most() -> None:
    letters = str.maketrans("0123456789", "bcdfghjklm")
    said = ((f"{n:040}".translate(letters),) for n in range(60_000))
    assert held_after(plain_stems, said) < 7 * MB, "with one of `stem`"


@pytest.mark.parametrize("size", [10, 500, 5_000])
def test_as_many_are_remembered_as_there_is_room_for_and_not_more(size: int) -> None:
    asked: list[str] = []

    @remembered(MB)
    def answer(text: str) -> str:
        asked.append(text)
        return text * 2

    texts = [f"{n:0{size}}" for n in range(3 * MB // (3 * size + 200))]
    assert held_after(answer, ((text + "x",) for text in texts)) < MB + len(texts) * (size + 100)
    asked.clear()
    for text in texts[-20:]:
        assert answer(text + "x") == (text + "x") * 2
    assert not asked, "those asked for last are known"
    answer(texts[0] + "x")
    assert asked, "the first is not"


def test_what_is_larger_than_half_of_it_is_worked_out_every_time() -> None:
    asked: list[str] = []

    @remembered(MB)
    def answer(text: str) -> int:
        asked.append(text)
        return len(text)

    answer("small")
    for _ in range(2):
        assert answer("x" * MB) == MB
    answer("small")
    assert len(asked) == 3, "and nothing goes for it"


@given(st.lists(st.text("ab", max_size=3) | st.just("a" * (SHORT_TEXT + 1))))
def test_a_cache_of_short_texts_keeps_short_texts_and_no_more_than_it_was_told(asked: list[str]) -> None:
    made = ShortTextCache(str.upper, 3)
    for text in asked:
        assert made[text] == text.upper()
        assert len(made) <= 3
        assert all(len(kept) <= SHORT_TEXT for kept in made)


def test_nothing_is_remembered_of_a_failure() -> None:
    tried: list[int] = []

    @remembered(MB)
    def answer(number: int) -> int:
        tried.append(number)
        if len(tried) == 1:
            raise LookupError
        return number

    with pytest.raises(LookupError):
        answer(1)
    assert [answer(1), answer(1)] == [1, 1]
    assert len(tried) == 2


@given(st.lists(st.text(max_size=40) | st.integers() | st.tuples(st.text(), st.integers()), max_size=200))
def test_the_answers_are_the_functions_own(asked: list[Any]) -> None:
    @remembered(4_000)
    def answer(one: Any) -> tuple[Any, str]:
        return one, repr(one)

    assert [answer(one) for one in asked] == [(one, repr(one)) for one in asked]


@given(st.recursive(st.text() | st.integers() | st.binary(), lambda i: st.lists(i) | st.dictionaries(st.text(), i)))
def test_more_weighs_more(value: Any) -> None:
    assert nbytes([value, "x"]) > nbytes([value]) > nbytes(value) > 0


SHORT = {
    "contracts.headers._of_partition": "a topic of ours",
    "contracts.timestamps._minute": "17 characters",
    "contracts.keys.session_place": "ids of an accepted event",
    "contracts.versions.parse_version": "eight of them",
    "intake.event_projection._parts": "a template of the table",
    "packs.sections._provenance": "how a source is called",
    "packs.tokens._ends": "runs below a length",
    "packs.tokens._shape": "one character",
    "packs.tokens._short": "pieces below a length",
}
"""Caches that count entries alone and are asked for texts: why none of these is long."""


def test_no_other_cache_counts_entries_alone_where_a_text_is_asked_for() -> None:
    found = set()
    for file in ROOT.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.FunctionDef) and "lru_cache" in " ".join(map(ast.unparse, node.decorator_list)):
                kinds = {ast.unparse(a.annotation) for a in node.args.args if a.annotation is not None}
                if kinds - {"int", "float", "bytes"}:
                    found.add(".".join((*file.relative_to(ROOT).with_suffix("").parts, node.name)))
    assert found == SHORT.keys()


def test_versions_of_a_contribution_are_told_apart_by_their_hashes() -> None:
    """Else a cache compares whole contributions, as often as one was corrected."""
    first = success(1)
    other = [first.model_copy(update={"last_at": first.last_at + n}) for n in range(1, 4)]
    others_pattern = first.model_copy(update={"pattern_key": "another"})
    assert len({*map(hash, (first, *other, others_pattern))}) == 5
    assert hash(first) == hash(success(1))
