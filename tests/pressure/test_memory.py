"""Memory stays bounded over a run: what does not end does not grow, neither in the process nor in the state topic."""

import gc
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import pytest

from hmx_pipeline.contracts.limits import BATCH_RECORDS, MB, PATTERN_CONTRIBUTIONS, SEGMENT_EVENTS
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Fold
from hmx_pipeline.stages.patterns import PatternsFold
from tests.support.evidence import success
from tests.support.inprocess import sessions_fold
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.resident import resident

_VALUE = log([(0, event("endless", 1_234_567, event_id="the id"))])[0].value or b""


def endless_session(events: int) -> Iterator[LogRecord]:
    """One session's events, ten seconds apart by its own clock and a millisecond in the log."""
    before, after = (part.split(b"1234567") for part in _VALUE.split(b"the id"))
    assert (len(before), len(after)) == (1, 3)
    for n in range(events):
        number = b"%d" % n
        value = before[0] + b"e%d" % n + number.join(after)
        yield LogRecord(0, n, START_MS + n, b"acme/endless", value)


def endless_pattern(segments: int) -> Iterator[LogRecord]:
    """What one session after the other says of the same pattern, ten milliseconds apart."""
    template = success(1_234_567).to_json()
    for n in range(segments):
        yield LogRecord(0, n, START_MS + 10 * n, b"k", template.replace(b"1234567", b"%d" % n))


def new_sessions(sessions: int) -> Iterator[LogRecord]:
    """Each of one event, ten of them in a millisecond."""
    for n in range(sessions):
        number = b"%d" % n
        value = _VALUE.replace(b"endless", b"session" + number).replace(b"the id", number).replace(b"1234567", b"0")
        yield LogRecord(0, n, START_MS + n // 10, b"k", value)


class Run:
    """A fold at work; what comes out is counted and let go. The state topic is kept as compaction leaves it."""

    def __init__(self, new_fold: Callable[[], Fold]) -> None:
        self.executor = Executor(new_fold(), 0)
        self.topic: dict[str, int] = {}
        self.resident: list[int] = []
        self.sizes: list[int] = []

    def through(self, records: Iterator[LogRecord], samples: int, every: int) -> None:
        for _ in range(samples):
            taken = islice(records, every)
            while batch := list(islice(taken, BATCH_RECORDS)):
                self._fold(batch)
            gc.collect()
            self.resident.append(resident())
            self.sizes.append(sum(self.topic.values()))

    def _fold(self, batch: Sequence[LogRecord]) -> None:
        for key, value in self.executor.run(batch).changes.items():
            if value is None:
                self.topic.pop(key, None)
            else:
                self.topic[key] = len(key) + len(value)


needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")


@pytest.mark.requirement("E-34")
def test_a_sessions_state_is_as_large_after_many_events_as_after_some(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hmx_pipeline.stages.segmenting.SESSION_SEGMENTS", 4)
    run, some = Run(sessions_fold), 6 * SEGMENT_EVENTS
    run.through(endless_session(3 * some), 3, some)
    assert run.executor.counts["released"] == 3 * some
    assert max(run.sizes[1:]) <= 1.1 * run.sizes[0]


@needs_proc
@pytest.mark.slow
@pytest.mark.requirement("E-34")
def test_memory_is_flat_over_a_session_of_a_million_events() -> None:
    run, samples = Run(sessions_fold), 20
    run.through(endless_session(1_000_000), samples, 1_000_000 // samples)
    assert run.executor.counts["released"] == 1_000_000
    assert max(run.sizes[2:]) <= 1.5 * run.sizes[1]
    print([size // MB for size in run.resident], run.sizes)
    assert max(run.resident[2:]) - run.resident[1] < 16 * MB


@needs_proc
@pytest.mark.slow
def test_memory_is_flat_over_new_sessions_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten thousand a second; the bound is lowered so that the run soon comes to it."""
    monkeypatch.setattr("hmx_pipeline.stages.session_releasing.SESSIONS_LIVE", 10_000)
    run, samples = Run(sessions_fold), 10
    run.through(new_sessions(100_000), samples, 100_000 // samples)
    assert run.executor.counts["session_forgotten_early"] == 100_000 - 10_000
    assert run.executor.counts["released"] == 100_000
    print([size // MB for size in run.resident], run.sizes)
    assert max(run.sizes[2:]) <= 1.1 * run.sizes[1]
    assert max(run.resident[3:]) - run.resident[2] < 16 * MB


@needs_proc
@pytest.mark.slow
@pytest.mark.requirement("K-02")
def test_memory_is_flat_over_a_pattern_that_every_one_of_many_sessions_hits() -> None:
    run, samples = Run(PatternsFold), 10
    run.through(endless_pattern(200_000), samples, 200_000 // samples)
    counts = run.executor.counts
    kept = sum(key.startswith("m/") for key in run.executor.state)
    assert counts["contributed"] == 200_000
    assert kept == PATTERN_CONTRIBUTIONS
    assert counts["contribution_out_of_sample"] == 200_000 - kept
    assert counts["artifact_active"] < 200
    print([size // MB for size in run.resident], run.sizes, dict(counts))
    assert max(run.resident[2:]) - run.resident[1] < 16 * MB
