"""A process with so many live sessions, each of a few events, in eight partitions as a worker has them.

Arguments: sessions, events of each. Answers with the CPU seconds of folding as many more events as it is asked for,
evenly over all sessions: what the executor does up to the encoded state records, without Kafka.
"""

import gc
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import islice

import orjson

from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.limits import BATCH_RECORDS, SEGMENT_IDLE_MS
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.observe.allocator import collect_seldom
from hmx_pipeline.stages.executor import Effects, Executor
from hmx_pipeline.stages.fold import Record
from tests.bench.answers import answer
from tests.support.inprocess import sessions_fold, tick_record
from tests.support.records import START_MS

PARTITIONS = 8
PACE_MS = 1
STRIDE = 7_919  # prime: turns the order of the sessions into one that no table was made in
TENANTS = 64
SHAPES = (
    {
        "event_type": "message",
        "content": {"role": "user", "text": "and now the staging cluster, please: " + "why " * 30},
    },
    {
        "event_type": "tool_call",
        "content": {"tool_name": "kubectl", "arguments": {"verb": "get", "what": "pods " * 16}},
    },
    {
        "event_type": "tool_result",
        "content": {"tool_name": "kubectl", "success": True, "result": {"text": "Running " * 48}},
    },
    {"event_type": "command_exec", "content": {"command": "make check", "exit_code": 0, "output": "ok " * 96}},
)


class LiveSessions:
    def __init__(self, sessions: int, partitions: int = PARTITIONS) -> None:
        self._sessions = sessions
        self._partitions = partitions
        self._next: Counter[int] = Counter()
        self._offsets: Counter[int] = Counter()
        self._at = 0
        self._turn = self._turns()
        self.executors = [Executor(sessions_fold(partitions, PARTITIONS), number) for number in range(partitions)]

    def events(self, count: int) -> dict[int, list[Record]]:
        """The next events by partition; no session ever ends a segment."""
        logs: dict[int, list[Record]] = defaultdict(list)
        for number in islice(self._turn, count):
            tenant, session = f"tenant-{number % TENANTS}", f"2026-03-14/live-session-{number:06d}"
            key, sequence = session_key(tenant, session), self._next[number]
            event = {
                "hmx_version": "HMX-1.0",
                "event_id": f"019e5a3b-7c4d-7000-{sequence:04d}-{number:012d}",
                "agent_id": "agent-1",
                "tenant_id": tenant,
                "session_id": session,
                "timestamp": format_ms(START_MS + self._at),
                "sequence": sequence,
                "metadata": {"host": "worker-17.example"},
                **SHAPES[(number + sequence) % len(SHAPES)],
            }
            self._next[number] += 1
            self._at += PACE_MS
            partition = partition_of(key, self._partitions)
            logs[partition].append(self._record(partition, key, orjson.dumps(event)))
        return logs

    def fold(self, logs: dict[int, list[Record]]) -> Iterator[tuple[int, Effects]]:
        """Batch by batch."""
        for partition, records in logs.items():
            for start in range(0, len(records), BATCH_RECORDS):
                yield partition, self.executors[partition].run(records[start : start + BATCH_RECORDS])

    def idle(self) -> Iterator[tuple[int, Effects]]:
        """Half an hour passes: what the sessions have done so far is said, and they stay."""
        self._at += SEGMENT_IDLE_MS + 1
        for executor in self.executors:
            offset = self._offsets[executor.partition]
            self._offsets[executor.partition] += 1
            yield executor.partition, executor.run([tick_record(self._at, executor.partition, offset)])

    def _turns(self) -> Iterator[int]:
        while True:
            for place in range(self._sessions):
                yield place * STRIDE % self._sessions

    def _record(self, partition: int, key: str, value: bytes) -> Record:
        self._offsets[partition] += 1
        return Record(partition, self._offsets[partition] - 1, START_MS + self._at, key.encode(), value, ())


def released(effects: Iterable[tuple[int, Effects]]) -> int:
    return sum(done.counts[Outcome.RELEASED] for _, done in effects)


def main(sessions: int, each: int) -> None:
    live = LiveSessions(sessions)
    for _ in range(each):
        assert released(live.fold(live.events(sessions))) == sessions
    gc.collect()
    collect_seldom()  # as a worker that has restored
    answer(sessions=sessions)
    for line in sys.stdin:
        logs = live.events(int(line))
        started = time.process_time()
        out = released(live.fold(logs))
        spent = time.process_time() - started
        assert out == int(line), f"{out} events released"
        answer(cpu=spent)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
