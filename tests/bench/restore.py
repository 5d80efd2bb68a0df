"""One partition's state on the real broker. Arguments: `write SESSIONS` or `read`; settings from the environment.

The first leaves three times as many records as there are sessions on a state topic that is not compacted. The second
reads them with a bare consumer, then restores from them as a worker does, and answers with the seconds of both.
"""

import sys
import time

from hmx_pipeline.kafka.clients import Cluster, plain_producer, read_partition
from hmx_pipeline.runtime.transaction import Transactions
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.topology import SESSION_STATE, SESSIONS
from tests.bench.answers import answer
from tests.bench.live import PARTITIONS, LiveSessions
from tests.support.inprocess import sessions_fold

FOLD = 3
CHUNK = 20_000


def write(settings: Settings, sessions: int) -> None:
    live, transactions, records = LiveSessions(sessions, partitions=1), _transactions(settings), 0
    (executor,) = live.executors
    transactions.fence()
    transactions.restore(Executor(sessions_fold(), 0))
    while records < FOLD * sessions:
        for _, effects in live.fold(live.events(min(CHUNK, sessions))):
            transactions.commit(executor, effects._replace(outputs=[]), 0)
            records += len(effects.changes)
    answer(records=records, state=len(executor.state))


def read(settings: Settings) -> None:
    cluster, name = Cluster(settings.require_kafka()), settings.topic_prefix + SESSION_STATE
    transactions = _transactions(settings)
    transactions.fence()
    executor = Executor(sessions_fold(PARTITIONS, PARTITIONS), 0)
    marks = cluster.watermarks(name, 0)
    started = time.monotonic()
    bare = sum(1 for _ in read_partition(settings.require_kafka(), name, 0, marks))
    between = time.monotonic()
    restored = transactions.restore(executor)
    ended = time.monotonic()
    assert restored.records == bare
    answer(bare=between - started, restore=ended - between, records=bare, state=len(executor.state))


def _transactions(settings: Settings) -> Transactions:
    cluster = Cluster(settings.require_kafka())
    log = plain_producer(settings.require_kafka())
    return Transactions(cluster, SESSIONS, 0, settings.topic_prefix, settings.transaction_timeout_ms, log)


if __name__ == "__main__":
    if sys.argv[1] == "write":
        write(Settings.load(), int(sys.argv[2]))
    else:
        read(Settings.load())
