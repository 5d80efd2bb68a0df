"""Nobody can make one record cost more than its size: steps grow at most as the input does, and so does what comes out.

Steps are counted and no time is measured (tests.support.steps).
"""

import importlib
import inspect
import json
import re
import subprocess
import sys
from operator import itemgetter
from pathlib import Path
from types import CodeType
from typing import Any, get_type_hints

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.limits import CONTENT_BYTES, WORK_STEPS
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.decode import Accepted, decode
from tests.support.growth import EVENT, GROWTH, contents, of_events, of_texts, texts
from tests.support.records import event
from tests.support.steps import Backtracking, Counted, Steps

MOST = 3
"""Bytes that come out for each that has come in."""
PACKAGE = Path(__file__).parents[2] / "pipeline" / "hmx_pipeline"
Grown = dict[str, dict[str, tuple[int, int]]]


@pytest.fixture(scope="module")
def grown() -> Grown:
    run = subprocess.run([sys.executable, "-m", "tests.support.growth"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2_000:]
    return dict(json.loads(line) for line in run.stdout.splitlines())


@pytest.mark.slow
def test_what_reads_text_or_json_takes_at_most_five_times_the_steps_for_four_times_as_much(grown: Grown) -> None:
    assert len(grown) > 70
    assert all(len(shapes) >= 30 for shapes in grown.values())
    worst = {
        (name, shape): (small, large)
        for name, shapes in grown.items()
        for shape, (small, large) in shapes.items()
        if large > GROWTH * small
    }
    assert worst == {}


ROOMS = ("intake", "segments", "compiler/knowledge", "retrieval", "packs")
OWN = {
    *(f"intake.scan.{name}" for name in ("any_case", "finder", "literal", "rule", "shape")),
    "knowledge.forms.clause_form",
}  # fmt: skip
"""Given what stands in the program, some of it when it is first needed."""
FIXED = {
    *(
        f"intake.control_records.{name}"
        for name in ("authentic", "barrier", "is_rerouted_copy", "reroute_header", "retaining", "setting", "signature")
    ),
    *(
        f"retrieval.postings.{name}"
        for name in (
            "pack_assigned", "pack_row", "session_mark", "subject_hash", "unpack_assigned", "unpack_postings",
            "unpack_rows",
        )
    ),
    *(f"knowledge.scopes.{name}" for name in ("in_scope", "scope_key", "scope_of")),
    *(f"retrieval.vectors.{name}" for name in ("best_of_both", "document_vectors", "pack_vector", "vector")),
    "retrieval.rerank.reranked", "intake.number_ranges.is_out_of_range", "intake.steps.usable_tags",
    "knowledge.authority.rank_of", "knowledge.fact_timeline.value_name", "knowledge.rulings.correction",
    "packs.markdown.as_text", "knowledge.authority.is_for", "retrieval.encoding.encoding",
    "packs.knowledge_view.concerning", "knowledge.claims.plain_text",
}  # fmt: skip
"""Numbers, headers, tags, keys and placed entries, whose lengths have bounds of their own."""
WORDS = {
    *(f"intake.secret_names.{name}" for name in ("is_keyed", "is_mixed", "is_random", "names_next")),
    *(f"segments.event_text.{name}" for name in ("cause_words", "effect_words", "verb_in")),
    "intake.secret_rules.as_read", "packs.render.workflow", "knowledge.reinforcements.ledger_id",
}  # fmt: skip
"""Asked by measured functions, of texts that no shape here has."""
SEARCHED = {"packs.render.cut", "packs.render.begun"}
"""A binary search: n log n of a text that a pack's entry bounds."""
NOT_MEASURED = OWN | FIXED | WORDS | SEARCHED


def taking_text() -> dict[CodeType, str]:
    """Public functions of these rooms with a text, bytes or JSON among their arguments, by their code."""
    found = {}
    for path in (path for room in ROOMS for path in sorted((PACKAGE / room).glob("[a-z]*.py"))):
        module = importlib.import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts))
        for name, function in inspect.getmembers(module, inspect.isroutine):
            plain = inspect.unwrap(function)
            if name.startswith("_") or getattr(plain, "__module__", "") != module.__name__:
                continue
            arguments = {name: kind for name, kind in get_type_hints(plain).items() if name != "return"}
            if any(kind in (str, bytes, bytes | None, dict[str, Any], Any, list[str]) for kind in arguments.values()):
                found[plain.__code__] = f"{path.parent.name}.{path.stem}.{name}"
    return found


def test_every_public_function_that_takes_text_is_measured() -> None:
    called: set[CodeType] = set()
    known = taking_text()  # imports all rooms, which calls some, before calls are counted
    sys.setprofile(lambda frame, event, _: called.add(frame.f_code) if event == "call" else None)
    try:
        for measured, shapes, size in ((of_texts(), texts, 60), (of_events(), contents, 400)):
            for function in measured.values():
                for number, (_, given) in enumerate(shapes(size)):  # type: ignore[operator]
                    if number % 3 == 0:
                        function(given)
    finally:
        sys.setprofile(None)
    assert {name for code, name in known.items() if code not in called} | OWN == NOT_MEASURED


def encoded(content: dict[str, Any], **fields: Any) -> bytes:
    return orjson.dumps({**event(), "content": content, **fields})


@pytest.mark.parametrize(
    ("shape", "content"), list(contents(EVENT)), ids=lambda item: item if isinstance(item, str) else ""
)
def test_an_event_is_at_most_three_times_as_long_once_its_secrets_are_out(shape: str, content: dict[str, Any]) -> None:
    value = encoded(content)
    accepted = decode(value)
    assert isinstance(accepted, Accepted), shape
    assert len(accepted.value) <= MOST * len(value)
    assert sum(map(len, accepted.redacted)) <= MOST * len(value) + 1_000


def secrets(count: int) -> dict[str, Any]:
    return {f"password={number}": 1 for number in range(count)}


@pytest.mark.requirement("Y21")
def test_an_event_whose_secrets_take_too_many_steps_to_look_for_is_too_costly() -> None:
    content = secrets(26_500)
    assert len(orjson.dumps(content)) < CONTENT_BYTES
    refused = decode(encoded(content))
    assert isinstance(refused, Rejection)
    assert (refused.reason, refused.path) == (Reason.TOO_COSTLY, "$")
    assert f"{WORK_STEPS:,}" in refused.reason.advice


def test_an_event_full_of_values_and_with_some_secrets_is_not_too_costly() -> None:
    content = {"items": [1] * 200_000, "token": "x", "text": "the words " * 4_000}
    assert isinstance(decode(encoded(content)), Accepted)


def test_sizes_are_checked_before_any_secret_is_looked_for() -> None:
    refused = decode(encoded({**secrets(26_500), "more": "x" * CONTENT_BYTES}))
    assert isinstance(refused, Rejection)
    assert refused.reason is Reason.CONTENT_TOO_LARGE


def test_a_text_that_comes_again_takes_as_many_steps_again() -> None:
    program = """if True:
        from tests.support.growth import STEPS, prepare
        prepare()
        from hmx_pipeline.compiler.knowledge.plain_statements import spoken
        for _ in range(3):
            before = STEPS.count
            spoken("We use Plover. " * 9)
            print(STEPS.count - before)
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    _, second, third = map(int, run.stdout.split())
    assert second == third > 100


def test_a_search_takes_the_steps_up_to_what_it_finds_and_a_table_those_of_its_places() -> None:
    steps = Steps()

    def taken(function: Any, *arguments: Any) -> int:
        before = steps.count
        assert steps.call(function, *arguments) == function(*arguments)
        return steps.count - before

    text = "ab" * 50
    assert taken(text.find, "ab", 11) == 1 + 1 + 2
    assert taken(text.find, "x") == 1 + 100 + 1
    assert taken(text.find, "x", 90, 95) == 1 + 5 + 1
    assert taken(itemgetter(3, 7, 9), bytes(10_000)) == 1 + 1 + 3


@given(st.text("ab1-. <>", max_size=24))
def test_the_counting_matcher_finds_what_the_engine_finds(text: str) -> None:
    for expression in (
        r"\b[\w.-]{1,4}(?:-[\w.]+)+?\b",
        r"(a|b)+(?<!1)\1(?=[.-]|$)",
        r"(?i:A(?>b*)1?)++ ?",
        r"(a)?b(?(1)a|<)",
    ):
        pattern = re.compile(expression)
        found, walk = pattern.search(text), Backtracking(pattern)
        assert walk.steps(text, 0, len(text), anchored=False, full=False) > 0
        assert walk.ended == (found.end() if found else -1)
        assert bool(Counted(pattern).search(text, 0, len(text) + 1)) == bool(found)  # an end beyond the text's
