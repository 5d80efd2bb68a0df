"""What both folds make of given records, as one digest: the same where two builds of the package do the same.

    python -m tests.support.alike [FILE.ndjson.gz …]

Without files: made sessions, out of order and twice, all bad input, and every hostile shape. Leaves one line: how many
records, the digest of outputs, state changes and counts, and where the code was loaded from.
"""

import gzip
import hashlib
import random
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import orjson

from hmx_pipeline.contracts.keys import partition_of
from hmx_pipeline.contracts.limits import BATCH_RECORDS
from hmx_pipeline.intake import decode
from hmx_pipeline.kafka.publisher import key_of
from hmx_pipeline.stages.executor import Executor
from hmx_pipeline.stages.fold import Fold, Record
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE
from tests.support import bad_input, growth, hostile
from tests.support.inprocess import barrier_record, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord, event
from tests.support.sessions import interleaved, session

PARTITIONS = 2
SHAPES = 400
"""Characters of a hostile shape."""


def made() -> Iterator[bytes]:
    dice = random.Random(7)
    events = interleaved([session(number) for number in range(60)], dice)
    for first in range(0, len(events), 8):
        some = events[first : first + 8]
        dice.shuffle(some)
        yield from map(orjson.dumps, [*some, *some[:1]])
    yield from (bad.value for bad in bad_input.BAD.values() if bad.value is not None)
    yield from bad_input.AT_LIMIT.values()
    texts = [*hostile.ALL, *hostile.ORDINARY, *(text for _, text in growth.texts(SHAPES))]
    contents = [{"role": "user", "text": text, "attachments": []} for text in texts]
    contents += [content for _, content in growth.contents(SHAPES)]
    for number, content in enumerate(contents):
        for kind in ("message", "tool_call", "tool_result", "error"):
            yield orjson.dumps(event(f"hostile-{number}", 0, event_type=kind, content=content))


def read(files: Iterable[str]) -> Iterator[bytes]:
    for file in files:
        with gzip.open(Path(file), "rb") as packed:
            yield from (line.rstrip(b"\n") for line in packed)


def events_logs(values: Iterable[bytes]) -> dict[int, list[LogRecord]]:
    logs: dict[int, list[LogRecord]] = {partition: [] for partition in range(PARTITIONS)}
    at = 0
    for at, value in enumerate(values):
        key = key_of(value) or b""  # none where it will be rejected, wherever it stands
        partition = partition_of(key.decode(), PARTITIONS)
        log = logs[partition]
        log.append(LogRecord(partition, len(log), START_MS + at, key, value))
    for partition, log in logs.items():
        log.append(barrier_record(at, partition, len(log)))
        log.append(tick_record(at + 6_000, partition, len(log)))
    return logs


def fold(fold: Fold, log: list[LogRecord], digest: "hashlib._Hash") -> Iterator[LogRecord]:
    """The evidence that comes of it; all that comes of it goes into the digest."""
    executor = Executor(fold, log[0].partition)
    for first in range(0, len(log), BATCH_RECORDS):
        batch = log[first : first + BATCH_RECORDS]
        effects = executor.run([Record(r.partition, r.offset, r.timestamp, r.key, r.value, r.headers) for r in batch])
        for output in [*effects.outputs, *effects.appends]:
            digest.update(repr((output.topic, output.partition, output.key, output.value, [*output.headers])).encode())
            if output.topic == EVIDENCE:
                yield LogRecord(output.partition, 0, START_MS, output.key, output.value, output.headers)
        digest.update(repr((sorted(effects.changes.items()), sorted(effects.counts.items()))).encode())
    digest.update(executor.position_record(len(log), "topic", ()))


def main(files: list[str]) -> None:
    digest, records = hashlib.sha256(), 0
    evidence: dict[int, list[LogRecord]] = defaultdict(list)
    for log in events_logs(read(files) if files else made()).values():
        records += len(log)
        for record in fold(sessions_fold(PARTITIONS, PARTITIONS), log, digest):
            log_of = evidence[record.partition]
            log_of.append(replace(record, offset=len(log_of), timestamp=START_MS + len(log_of)))
    for log in evidence.values():
        records += len(log)
        for _ in fold(PatternsFold(), log, digest):
            pass
    print(records, digest.hexdigest(), decode.__file__)


if __name__ == "__main__":
    main(sys.argv[1:])
