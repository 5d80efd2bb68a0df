"""What live sessions that do nothing cost in memory. Arguments: `write FILE SESSIONS EVENTS`, or `read FILE`.

The first folds so many events of every session, lets half an hour pass, and writes what state it leaves. The second
restores it as a worker does, partition by partition, and answers with the growth of its resident memory.
"""

import gc
import os
import pickle
import sys
from pathlib import Path

from pipeline.stages.executor import Executor
from tests.bench.kit import answer
from tests.bench.live import PARTITIONS, LiveSessions, released
from tests.support.inprocess import sessions_fold

State = dict[str, bytes]


def write(file: Path, sessions: int, each: int) -> None:
    live = LiveSessions(sessions)
    partitions: list[State] = [{} for _ in range(PARTITIONS)]
    for _ in range(each):
        done = list(live.fold(live.events(sessions)))
        assert released(done) == sessions
        for partition, effects in done:
            _keep(partitions[partition], effects.changes)
    for partition, effects in live.idle():
        _keep(partitions[partition], effects.changes)
    with file.open("wb") as out:
        for state in partitions:
            pickle.dump(state, out)
    size = sum(len(key) + len(value) for state in partitions for key, value in state.items())
    answer(records=sum(map(len, partitions)), bytes=size)


def _keep(state: State, changes: dict[str, bytes | None]) -> None:
    for key, value in changes.items():
        if value is None:
            state.pop(key, None)
        else:
            state[key] = value


def read(file: Path) -> None:
    executors = []
    with file.open("rb") as stored:
        gc.collect()
        before = resident()
        for partition in range(PARTITIONS):
            executor = Executor(sessions_fold(PARTITIONS, PARTITIONS), partition)
            executor.restore(pickle.load(stored).items())
            executors.append(executor)
    gc.collect()
    answer(bytes=resident() - before, records=sum(len(executor.state) for executor in executors))


def resident() -> int:
    """Bytes."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
    else:
        read(Path(sys.argv[2]))
