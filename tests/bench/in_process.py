"""Lines where Kafka adds nothing: what an event costs with many sessions, and a record of evidence with many patterns.

Two processes, one with few and one with many, fold the same number of records in turns, up to the encoded state.
"""

from collections.abc import Iterable

from tests.bench.kit import Bench, Child
from tests.bench.report import Bar, Line

EACH = 2
"""Events of every session before the first round."""
SHORT, LONG = 4, 32
"""Events of an idle session."""


def live(bench: Bench) -> list[Line]:
    many, few, _ = _in_turns(bench, "live", bench.events // 3, EACH)
    name = f"sessions, {bench.many:,} live"
    return [Line(name, "CPU µs/event", many, f"{bench.few:,} sessions", few, Bar("≤", 1.25))]


def patterns(bench: Bench) -> list[Line]:
    many, few, artifacts = _in_turns(bench, "patterns", bench.events // 6)
    name = f"patterns, {bench.many:,} known"
    notes = {"artifacts_per_record": artifacts}
    return [Line(name, "CPU µs/record", many, f"{bench.few:,} patterns", few, Bar("≤", 1.25), notes=notes)]


def memory(bench: Bench) -> list[Line]:
    """Of idle sessions, beside the bytes of their state records. Sessions of a few events, and of thirty-two."""
    short = _memory(bench, bench.many, SHORT, bench.rounds())
    long = _memory(bench, bench.many // 20, LONG, range(bench.round_count))
    return [
        Line(f"idle session of {SHORT} events", "bytes", *short, Bar("≤", 3_072, ratio=False)),
        Line(f"idle session of {LONG} events", "bytes", *long),
    ]


def _memory(bench: Bench, sessions: int, each: int, rounds: Iterable[int]) -> tuple[list[float], str, list[float]]:
    file = bench.folder / f"{each}.state"
    written = bench.child("memory", "write", file, sessions, each)
    found = [bench.child("memory", "read", file)["bytes"] for _ in rounds]
    return found, "bytes of state", [written["bytes"]] * len(found)


def _in_turns(bench: Bench, module: str, records: int, *arguments: int) -> tuple[list[float], list[float], list[float]]:
    """CPU microseconds a record with many and with few, round by round; the first round of each only warms up."""
    many: list[float] = []
    few: list[float] = []
    artifacts: list[float] = []
    with (
        Child(bench, module, bench.few, *arguments) as with_few,
        Child(bench, module, bench.many, *arguments) as with_many,
    ):
        with_few.answer()
        with_many.answer()
        with_few.ask(records)
        with_many.ask(records)
        for _ in bench.rounds():
            for child, figures in ((with_few, few), (with_many, many)):
                answer = child.ask(records)
                figures.append(answer["cpu"] / records * 1e6)
                artifacts.append(round(answer.get("artifacts", 0) / records, 2))
    return many, few, artifacts
