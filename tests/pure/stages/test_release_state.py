"""State that an earlier release has written is restored, and the run goes on as one that was never interrupted.

tests/fixtures/write_state.py writes the fixtures: one for each format that a release has had.
"""

import base64
import json
import lzma
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from pipeline.stages.executor import Executor
from pipeline.stages.fold import Fold, Output
from pipeline.stages.formats import FORMATS
from pipeline.stages.patterns import PatternsFold
from tests.support.documents import ROOT
from tests.support.inprocess import sessions_fold
from tests.support.records import LogRecord

FOLDS: dict[str, Callable[[], Fold]] = {"sessions": sessions_fold, "patterns": PatternsFold}
HELD = {"sessions": set("swegzy!"), "patterns": set("mpb!")}


@cache
def written(format_: int) -> dict[str, Any]:
    path = ROOT / "tests" / "fixtures" / f"state-format-{format_}.json.xz"
    found: dict[str, Any] = json.loads(lzma.decompress(path.read_bytes()))
    return found


def unpacked(value: str | None) -> bytes | None:
    return None if value is None else base64.b64decode(value)


def log(format_: int, stage: str) -> list[LogRecord]:
    return [
        LogRecord(0, offset, at, unpacked(key), unpacked(value), [(name, base64.b64decode(it)) for name, it in headers])
        for offset, (at, key, value, headers) in enumerate(written(format_)[stage]["log"])
    ]


@cache
def uninterrupted(format_: int, stage: str) -> list[Output]:
    return Executor(FOLDS[stage](), 0).run(log(format_, stage)).outputs


READ = range(FORMATS.oldest, FORMATS.current + 1)
CASES = [
    (format_, stage, cut) for format_ in READ for stage in FOLDS for cut in range(len(written(format_)[stage]["cuts"]))
]


@pytest.mark.parametrize(("format_", "stage", "cut"), CASES)
def test_state_of_an_earlier_release_goes_on_with_the_outputs_of_a_run_that_was_never_interrupted(
    format_: int, stage: str, cut: int
) -> None:
    at = written(format_)[stage]["cuts"][cut]
    executor = Executor(FOLDS[stage](), 0)
    position = executor.restore((key, unpacked(value)) for key, value in at["state"].items())
    assert position is not None
    assert position.position == at["next"]
    went_on = executor.run(log(format_, stage)[at["next"] :]).outputs
    assert len(went_on) > 10
    assert went_on == uninterrupted(format_, stage)[at["published"] :]


@pytest.mark.parametrize("stage", FOLDS)
@pytest.mark.parametrize("format_", READ)
def test_the_fixtures_hold_every_kind_of_state_record(format_: int, stage: str) -> None:
    assert {key[0] for cut in written(format_)[stage]["cuts"] for key in cut["state"]} == HELD[stage]
