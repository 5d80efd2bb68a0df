"""What the verifier predicts of Redis is what the materialiser writes there: the same keys, layout and bytes."""

from collections.abc import Iterable, Iterator

from hmx_pipeline.stages.fold import Output
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE
from tests.support.inprocess import events_log, evidence_logs, run, sessions_fold
from tests.support.memory import Memory
from tests.support.sessions import session
from tests.verifier.log import Row
from tests.verifier.memory import read_memory, root_of
from tests.verifier.projection import Expected, sorted_parts

PARTITIONS = 2
AT_A_TIME = 50


def test_what_is_written_is_what_the_verifier_predicts(memory: Memory, redis_url: str) -> None:
    records = list(published())
    assert {record.topic for record in records} == {EPISODES, EVIDENCE, ARTIFACTS, KNOWLEDGE}
    expected = Expected(root_of(memory.keys.prefix), {})
    for record in records:
        expected.take(record.topic, record.partition, Row(record.offset, 0, record.key, record.value, record.headers))
    for start in range(0, len(records), AT_A_TIME):
        memory.write(*records[start : start + AT_A_TIME])
    of_tenants = f"{memory.keys.root}:{{".encode()
    found = sorted_parts(read_memory(redis_url, memory.keys.prefix))
    wanted = expected.keys()
    assert wanted.pop(memory.keys.tenants) == found[memory.keys.tenants]
    assert wanted == {key: value for key, value in found.items() if key.startswith(of_tenants)}


def published() -> Iterator[TopicRecord]:
    """What both stages publish of some sessions, partition by partition."""
    stated = {"role": "user", "text": "Our database is Postgres. Always run the linter before committing."}
    told = {**session(0)[0], "event_id": "told", "session_id": "told", "content": stated}
    logs = events_log([*(event for number in range(30) for event in session(number)), told], PARTITIONS).values()
    for log in logs:
        yield from as_read(run(lambda: sessions_fold(PARTITIONS, PARTITIONS), log).on(EPISODES))
    for log in evidence_logs(logs, PARTITIONS).values():
        yield from (TopicRecord(EVIDENCE, r.partition, r.offset, r.key or b"", r.value, r.headers) for r in log)
        outputs = run(PatternsFold, log).outputs
        for topic in (ARTIFACTS, KNOWLEDGE):
            yield from as_read(output for output in outputs if output.topic == topic)


def as_read(outputs: Iterable[Output]) -> Iterator[TopicRecord]:
    for offset, output in enumerate(outputs):
        yield TopicRecord(output.topic, output.partition, offset, output.key or b"", output.value, output.headers)
