"""What is written is a CloudEvent, with the trace of what has caused it, however the records are cut into batches."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from hmx_pipeline.contracts.headers import CE_ID, CE_SOURCE, CE_SPECVERSION, CE_TYPE, TRACEPARENT, header
from hmx_pipeline.contracts.limits import PATTERN_DEBOUNCE_MS
from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE
from tests.support.evidence import control, evidence, records, success
from tests.support.inprocess import Cut, barrier_record, run, sessions_fold
from tests.support.records import LogRecord, event, log
from tests.support.sessions import interleaved, session

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


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_an_episode_has_the_trace_of_its_event_also_when_it_has_waited(cut: Cut | None) -> None:
    arrived = log([(0, event("s", 0)), (1, event("s", 2)), (2, event("s", 1)), (3, event("s", 3))])
    arrived[1:3] = [traced(record, n) for n, record in enumerate(arrived[1:3], start=1)]
    episodes = run(sessions_fold, arrived, cut, restores=cut is not None).on(EPISODES)
    assert traces(episodes) == [None, trace(2), trace(1), None]


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS)
def test_a_contribution_has_the_trace_of_its_sessions_last_event_that_has_one(cut: Cut | None) -> None:
    told = log(list(enumerate(session(0))))
    told[:-1] = [traced(record, n) for n, record in enumerate(told[:-1])]
    end = barrier_record(9_000, offset=len(told))
    *said, barrier = run(sessions_fold, [*told, end], cut, restores=cut is not None).on(EVIDENCE)
    assert said
    assert set(traces(said)) == {trace(len(told) - 2)}
    assert traces([barrier]) == [None]


def test_all_that_both_stages_write_are_cloud_events_and_no_two_have_the_same_name() -> None:
    told = log([*enumerate(interleaved([session(n) for n in range(8)], 1)), (9_000, b"no JSON")])
    end = barrier_record(9_001, offset=len(told))
    heard = evidence()
    folded = [
        run(sessions_fold, [*told, end]),
        run(PatternsFold, [*heard, control("tick", PATTERN_DEBOUNCE_MS, len(heard))]),
        run(PatternsFold, [LogRecord(value=b"no JSON", offset=1_000)]),
    ]
    written = [output.headers for ran in folded for output in ran.outputs]
    assert {header(headers, CE_SPECVERSION) for headers in written} == {b"1.0"}
    kinds = {(header(headers, CE_TYPE) or b"").removeprefix(b"hmx.") for headers in written}
    assert kinds == {b"episode", b"contribution", b"evidence-barrier", b"artifact", b"dead-letter"}
    names = [(header(headers, CE_SOURCE), header(headers, CE_ID)) for headers in written]
    assert len(set(names)) == len(names)
