"""What live sessions that do nothing cost in memory. Arguments: `write FILE SESSIONS EVENTS`, or `read FILE`.

The first folds so many events of every session, lets half an hour pass, and writes what state it leaves. The second
restores it as a worker does, partition by partition, and answers with the growth of its resident memory a session; the
first partition is not counted, so what a process needs anyway is not either.
"""

import gc
import pickle
import sys
from pathlib import Path
from typing import NamedTuple

from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import POSITION_KEY
from tests.bench.answers import answer
from tests.bench.live import PARTITIONS, LiveSessions, released
from tests.support.inprocess import sessions_fold
from tests.support.resident import resident


class Partition(NamedTuple):
    sessions: int
    state: dict[str, bytes]


def write(file: Path, sessions: int, each: int) -> None:
    live = LiveSessions(sessions)
    states: list[dict[str, bytes]] = [{} for _ in range(PARTITIONS)]
    counts = [0] * PARTITIONS
    for _ in range(each):
        logs = live.events(sessions)
        counts = [len(logs[partition]) for partition in range(PARTITIONS)]
        done = list(live.fold(logs))
        assert released(done) == sessions
        for partition, effects in done:
            _keep(states[partition], effects.changes)
    for partition, effects in live.idle():
        _keep(states[partition], effects.changes)
    with file.open("wb") as out:
        for partition in range(PARTITIONS):
            pickle.dump(Partition(counts[partition], states[partition]), out)
    size = sum(len(key) + len(value) for state in states for key, value in state.items())
    answer(bytes=size / sessions)


def _keep(state: dict[str, bytes], changes: dict[str, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def read(file: Path) -> None:
    executors, sessions, first = [], 0, 0
    with file.open("rb") as stored:
        for number in range(PARTITIONS):
            partition: Partition = pickle.load(stored)
            executor = Executor(sessions_fold(PARTITIONS, PARTITIONS), number)
            executor.restore([*partition.state.items(), (POSITION_KEY, executor.position_record(0, "", ()))])
            executors.append(executor)
            assert len(executor.state) >= partition.sessions
            if number == 0:
                del partition
                first = _settled()
            else:
                sessions += partition.sessions
    del partition
    answer(bytes=(_settled() - first) / sessions)


def _settled() -> int:
    """Bytes, once nothing is held that nobody wants."""
    gc.collect()
    return resident()


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        read(Path(sys.argv[2]))
