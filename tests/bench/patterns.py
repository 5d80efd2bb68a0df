"""A process with so many patterns, one in four of them with six contributions, the others with one.

Argument: patterns. Answers with the CPU seconds of folding as many more records of evidence as it is asked for, evenly
over all patterns: corrections, each of which changes what its pattern rests on, so that maps stay as they are and every
record is compiled. What the executor does up to encoded state and artifacts, without Kafka.
"""

import gc
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import orjson

from hmx_pipeline.compiler.registry import KINDS
from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl, evidence_key
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.limits import BATCH_RECORDS, PATTERN_DEBOUNCE_MS
from hmx_pipeline.local.samples import sample_events
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import POSITION_KEY, Record
from hmx_pipeline.stages.patterns import PatternsFold
from tests.bench.answers import answer
from tests.bench.workload import by_session
from tests.support.inprocess import events_log, run, sessions_fold
from tests.support.records import START_MS

PARTITIONS = 8
PACE_MS = 10
"""Between records: even of 1,000 patterns none is corrected twice within the pause before it speaks."""
STRIDE = 7_919
TENANTS = 64
COMMON = 6
"""Contributions of a pattern that is seen often: enough for an active artifact."""


PATTERN = b".pattern-"


class Patterns:
    def __init__(self, patterns: int) -> None:
        self._templates = _templates()
        self._patterns = patterns
        self._offsets = [0] * PARTITIONS
        self._at = 0
        self._turn = self._turns()
        self.executors = [Executor(PatternsFold(), number) for number in range(PARTITIONS)]
        state = self._state()
        for executor, records in zip(self.executors, state, strict=True):
            executor.restore([*records, (POSITION_KEY, executor.position_record(0, "", ()))])
        assert sum(len(executor.state) for executor in self.executors) == sum(map(len, state))

    def _state(self) -> list[list[tuple[str, bytes | None]]]:
        """State records by partition: some patterns are folded, the others are these under other names."""
        folded = 4 * len(self._templates)
        executor = Executor(PatternsFold(), 0)
        first = list(chain.from_iterable(map(self._contributions, range(folded))))
        records = [*chain.from_iterable(self._logs(iter(first)).values()), self._tick(0)]
        state: dict[bytes, list[tuple[bytes, bytes]]] = defaultdict(list)
        for key, value in executor.run(records).changes.items():
            if value is not None:
                state[key.encode().partition(PATTERN)[2][:6]].append((key.encode(), value))
        partitions: list[list[tuple[str, bytes | None]]] = [[] for _ in range(PARTITIONS)]
        for number in range(self._patterns):
            model = number % folded
            for key, value in state[b"%06d" % model]:
                partition = tenant_partition(_tenant(number), PARTITIONS)
                partitions[partition].append((_renamed(key, model, number).decode(), _renamed(value, model, number)))
        return partitions

    def corrections(self, count: int) -> dict[int, list[Record]]:
        return self._logs(islice(self._turn, count))

    def fold(self, logs: dict[int, list[Record]]) -> dict[str, int]:
        """Batch by batch, and then until everything has been said; what was counted."""
        counts: dict[str, int] = defaultdict(int)
        for partition, executor in enumerate(self.executors):
            records = [*logs[partition], self._tick(partition)]
            for start in range(0, len(records), BATCH_RECORDS):
                for name, count in executor.run(records[start : start + BATCH_RECORDS]).counts.items():
                    counts[name] += count
        return counts

    def _contributions(self, pattern: int, turn: int = 0) -> list[dict[str, Any]]:
        template = self._templates[pattern % len(self._templates)]
        return [
            {
                **said,
                "tenant_id": _tenant(pattern),
                "pattern_key": f"{said['pattern_key']}{PATTERN.decode()}{pattern:06d}",
                "outcome": said["outcome"] if turn % 2 == 0 else "unknown",
                "last_at": said["last_at"] + turn,
            }
            for said in template[: COMMON if pattern % 4 == 0 else 1]
        ]

    def _turns(self) -> Iterator[dict[str, Any]]:
        turn = 0
        while True:
            turn += 1
            for place in range(self._patterns):
                pattern = place * STRIDE % self._patterns
                said = self._contributions(pattern, turn)
                yield said[(turn - 1) // 2 % len(said)]

    def _logs(self, contributions: Iterator[dict[str, Any]]) -> dict[int, list[Record]]:
        logs: dict[int, list[Record]] = defaultdict(list)
        for fields in contributions:
            value = orjson.dumps(fields)
            contribution = Contribution.model_validate_json(value)
            partition = tenant_partition(contribution.tenant_id, PARTITIONS)
            logs[partition].append(self._record(partition, evidence_key(contribution), value, b"contribution"))
            self._at += PACE_MS
        return logs

    def _tick(self, partition: int) -> Record:
        self._at += PATTERN_DEBOUNCE_MS
        return self._record(partition, "tick", EvidenceControl(kind="tick", partition=partition).to_json(), b"tick")

    def _record(self, partition: int, key: str, value: bytes, kind: bytes) -> Record:
        self._offsets[partition] += 1
        at = START_MS + self._at
        return Record(partition, self._offsets[partition] - 1, at, key.encode(), value, [(KIND, kind)])


def _tenant(pattern: int) -> str:
    return f"tenant-{pattern % TENANTS:03d}"


def _renamed(text: bytes, model: int, number: int) -> bytes:
    text = text.replace(b"%s%06d" % (PATTERN, model), b"%s%06d" % (PATTERN, number))
    return text.replace(_tenant(model).encode(), _tenant(number).encode())


def _templates() -> list[list[dict[str, Any]]]:
    """What the samples' sessions say, by pattern; those that one segment only speaks of last. Runs are left out: only
    all of a tenant's together make patterns."""
    events = chain.from_iterable(by_session(sample_events()))
    ran = run(sessions_fold, events_log(events, 1)[0])
    found: dict[tuple[str, ...], dict[str, dict[str, Any]]] = defaultdict(dict)
    for said in ran.contributions:
        if not said.get("withdrawn") and KINDS[said["pattern_type"]].group is None:
            pattern = said["tenant_id"], said["pattern_type"], said["pattern_key"]
            found[pattern][said["segment_id"]] = said
    full = [list(segments.values()) for segments in found.values() if len(segments) >= COMMON]
    assert full, "the samples speak often of some patterns"
    return full


def main(patterns: int) -> None:
    known = Patterns(patterns)
    gc.collect()
    collect_seldom()  # as a worker that has restored
    answer(patterns=patterns)
    for line in sys.stdin:
        logs = known.corrections(int(line))
        started = time.process_time()
        counts = known.fold(logs)
        spent = time.process_time() - started
        said = sum(count for name, count in counts.items() if name.startswith("artifact_"))
        assert counts["contributed"] == int(line), f"of {line} records {counts['contributed']} were taken"
        answer(cpu=spent, artifacts=said)


if __name__ == "__main__":
    main(int(sys.argv[1]))
