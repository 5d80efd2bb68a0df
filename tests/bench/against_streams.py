"""The sessions stage beside two stream processors for Python that parse, count per key and write on the same topic.

Theirs is the smallest job that keeps state: what it costs any job to read, parse, keep a number a key and write. Quix
Streams does it exactly once, as the stage does; Bytewax at least once.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from confluent_kafka.admin import NewTopic

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS
from tests.bench import workload
from tests.bench.against_empty import Baseline, Cost, in_turns
from tests.bench.elsewhere import answer_of, python_with
from tests.bench.kit import Bench, committed
from tests.bench.report import Bar, Line

QUIX: Final = "quixstreams==3.28.1"
BYTEWAX: Final = "bytewax[kafka]==0.21.1"
ORJSON: Final = "orjson==3.13.0"


def streams(bench: Bench) -> list[Line]:
    jobs: dict[str, Callable[[Path], Baseline]] = {QUIX: _quix, BYTEWAX: _bytewax}
    pythons = {package: python_with(package, ORJSON) for package in jobs}
    baselines = {package: jobs[package](python) for package, python in pythons.items() if python is not None}
    if not baselines:
        return []
    ours, theirs = in_turns(bench, workload.compact(bench.events), Outcome.RELEASED, baselines)
    bars = {QUIX: Bar("≤", 1.8)}
    return [
        Line("sessions", "CPU µs/event", [c.cpu for c in ours], name, [c.cpu for c in costs], bars.get(name))
        for name, costs in theirs.items()
    ]


def _quix(python: Path) -> Baseline:
    def counts(bench: Bench, settings: Settings, count: int) -> Cost:
        output = _output(settings, "quix")
        spent = answer_of(python, "quix_child.py", *_places(settings), output, count)
        return _cost(spent, settings, "quix", count)

    return counts


def _bytewax(python: Path) -> Baseline:
    def counts(bench: Bench, settings: Settings, count: int) -> Cost:
        spent = answer_of(python, "bytewax_child.py", *_places(settings), _output(settings, "bytewax"))
        return _cost(spent, settings, "bytewax", count)

    return counts


def _places(settings: Settings) -> tuple[str, str]:
    return settings.kafka_bootstrap, settings.topic_prefix + EVENTS


def _output(settings: Settings, name: str) -> str:
    """A new topic with as many partitions as the events have; it goes with the run's broker."""
    admin = connect(settings.kafka_bootstrap)
    events = settings.topic_prefix + EVENTS
    partitions = len(admin.list_topics(events).topics[events].partitions)
    output = settings.topic_prefix + name
    for created in admin.create_topics([NewTopic(output, partitions, 1)]).values():
        created.result()
    return output


def _cost(spent: dict[str, float], settings: Settings, output: str, count: int) -> Cost:
    written = committed(settings, output)
    assert written == count, f"{output}: {written} written, {count} expected"
    return Cost(count / spent["seconds"], spent["cpu"] / count * 1e6)
