"""A trace passes from what causes a change to what is written of it, however the records are cut into batches."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from pipeline.contracts.headers import TRACEPARENT, header
from pipeline.contracts.limits import PATTERN_DEBOUNCE_MS
from pipeline.stages.fold import Output
from pipeline.stages.patterns import PatternsFold
from pipeline.topology import ARTIFACTS
from tests.support.evidence import control, records, success
from tests.support.inprocess import Cut, run
from tests.support.records import LogRecord

CUTS: dict[str, Cut | None] = {"whole": None, "one by one": lambda _: 1, "by three": lambda left: min(3, left)}


def trace(number: int) -> bytes:
    return b"00-%032x-%016x-01" % (number + 1, number + 1)


def traced(record: LogRecord, number: int) -> LogRecord:
    return replace(record, headers=[*record.headers, (TRACEPARENT, trace(number))])


def traces(outputs: Sequence[Output]) -> list[bytes | None]:
    return [header(output.headers, TRACEPARENT) for output in outputs]


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_an_artifact_has_the_trace_of_the_last_contribution_that_changed_it(cut: Cut | None) -> None:
    said = [traced(record, n) for n, record in enumerate(records(map(success, range(4))))]
    pause = control("tick", PATTERN_DEBOUNCE_MS, 4)
    spoken = run(PatternsFold, [*said, pause], cut, restores=cut is not None).on(ARTIFACTS)
    assert spoken
    assert set(traces(spoken)) == {trace(3)}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_what_has_no_trace_leaves_the_last_one_until_it_was_passed_on(cut: Cut | None) -> None:
    *said, later = records(map(success, range(5)))
    said[2] = traced(said[2], 2)
    pause = control("tick", PATTERN_DEBOUNCE_MS, 4)
    later = replace(later, offset=5, timestamp=pause.timestamp)
    end = control("tick", 2 * PATTERN_DEBOUNCE_MS, 6)
    ran = run(PatternsFold, [*said, pause, later, end], cut, restores=cut is not None)
    first, *after = traces(ran.on(ARTIFACTS))
    assert first == trace(2)
    assert set(after) == {None}


def test_what_is_no_trace_is_not_passed_on() -> None:
    said = records(map(success, range(4)))
    forged = [replace(record, headers=[*record.headers, (TRACEPARENT, b"00-" + b"0" * 52)]) for record in said]
    assert set(traces(run(PatternsFold, [*forged, control("tick", PATTERN_DEBOUNCE_MS, 4)]).on(ARTIFACTS))) == {None}
