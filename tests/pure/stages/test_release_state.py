"""State that an earlier release has written is restored, and the run goes on as one that was never interrupted.

tests/fixtures/write_state.py writes the fixtures: one for each format that a release has had.
"""

import base64
import json
import lzma
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import quote

import orjson
import pytest

from hmx_pipeline.contracts.evidence import evidence_key
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Fold, Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.state_formats import FORMATS
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE
from tests.support.documents import ROOT
from tests.support.evidence import control, records, success
from tests.support.inprocess import run, sessions_fold
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
SAME = [5, 6, 7]
"""Of these releases the same log still makes the same outputs; contributions of open segments come earlier now."""
CASES = [
    (format_, stage, cut) for format_ in SAME for stage in FOLDS for cut in range(len(written(format_)[stage]["cuts"]))
]


def unsalient(output: Output) -> Any:
    """What it says but for its salience, which the steps of these releases do not hold."""
    value = orjson.loads(output.value or b"{}")
    value.pop("salience", None)
    return value


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
    whole = uninterrupted(format_, stage)
    if stage == "patterns":
        assert went_on == whole[at["published"] :]
        return
    episodes = on(EPISODES, went_on)
    assert episodes == on(EPISODES, whole)[-len(episodes) :]
    last = {output.key: unsalient(output) for output in whole if output.topic == EVIDENCE}
    said = {output.key: unsalient(output) for output in went_on if output.topic == EVIDENCE}
    assert said.items() <= last.items()


def on(topic: str, outputs: list[Output]) -> list[Output]:
    return [output for output in outputs if output.topic == topic]


@pytest.mark.parametrize("cut", range(2))
def test_episodes_go_on_where_an_earlier_release_stopped(cut: int) -> None:
    at = written(4)["sessions"]["cuts"][cut]
    executor = Executor(sessions_fold(), 0)
    executor.restore((key, unpacked(value)) for key, value in at["state"].items())
    went_on = executor.run(log(4, "sessions")[at["next"] :]).outputs
    expected, found = (
        [o for o in outputs if o.topic == EPISODES] for outputs in (uninterrupted(4, "sessions"), went_on)
    )
    assert len(found) > 10
    assert found == expected[-len(found) :]


def test_a_procedure_that_an_earlier_release_knew_by_its_wish_is_deprecated_and_forgotten() -> None:
    ran = run(PatternsFold, [*records(map(success, range(6))), control("barrier", 1, 6)])
    (live,) = (orjson.loads(output.value or b"") for output in ran.on(ARTIFACTS))
    spoken = ran.state[f"p/acme/{quote(live['metadata']['pattern'], safe='')}"].model_copy(update={"evidence": ""})
    old = join_key("acme", join_key("task_schema", "1:deploy"))
    said = success(1).model_copy(update={"pattern_type": "task_schema", "pattern_key": "1:deploy"})
    state = {f"p/{old}": spoken.to_json(), f"m/{evidence_key(said)}": said.to_json()}
    executor = Executor(PatternsFold(), 0)
    position = orjson.dumps(orjson.loads(executor.position_record(7, "topic", ())) | {"format": 4})
    assert executor.restore({**state, "!": position}.items()) is not None
    effects = executor.run([control("tick", 2, 7)])
    ended, erased = [output for output in effects.outputs if output.topic == ARTIFACTS]
    assert orjson.loads(ended.value or b"")["status"] == "deprecated"
    assert (erased.key, erased.value) == (ended.key, None)
    assert not [key for key, value in effects.changes.items() if value is not None]


@pytest.mark.parametrize("stage", FOLDS)
@pytest.mark.parametrize("format_", READ)
def test_the_fixtures_hold_every_kind_of_state_record(format_: int, stage: str) -> None:
    assert {key[0] for cut in written(format_)[stage]["cuts"] for key in cut["state"]} == HELD[stage]
