"""What Kafka refuses for good is one record's outcome: found among others, decided once, and nobody's end.

First the owner's side of a partition with transactions kept in a list, then a worker on a broker whose topics somebody
has given smaller bounds than the pipeline writes.
"""

import random
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType
from faust.types import TP
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.audit.pipeline_conservation import verify
from hmx_pipeline.audit.replay import replay
from hmx_pipeline.contracts.headers import OMITTED, ORIGIN_OFFSET, REASON, header
from hmx_pipeline.contracts.limits import BATCH_RECORDS, RECORD_BYTES, REFUSED_BYTES
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.kafka.publisher import publish
from hmx_pipeline.kafka.topic_files import connect
from hmx_pipeline.runtime.barriers import wait_for_stages
from hmx_pipeline.runtime.transaction import RestoredState, UnsendableError
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.executor import Effects, Executor, Unsendable
from hmx_pipeline.stages.fold import POSITION_KEY, Output
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVENTS_DLQ, EVIDENCE, SESSION_STATE, SESSIONS
from hmx_pipeline.worker.partition import FetchedBatch, OwnedPartition, StuckError
from tests.support.inprocess import sessions_fold
from tests.support.pipeline import new_settings as settings_of
from tests.support.pipeline import running
from tests.support.records import LogRecord, event, log
from tests.support.sessions import session
from tests.support.topics import episodes_by_session, headers_of, read

SOURCE = TP(SESSIONS.source, 0)
LARGE = 5_000


class Broker:
    """Keeps what is committed; takes nothing that is larger than a topic's bound."""

    def __init__(self, **bounds: int) -> None:
        self.bounds = bounds
        self.state: list[tuple[str, bytes | None]] = []
        self.outputs: list[Output] = []
        self.refusals = 0

    def restore(self, executor: Executor) -> RestoredState:
        stored = executor.restore(self.state)
        return RestoredState(0, 0, 0) if stored is None else RestoredState(stored.position, 0, 0, stored.tries)

    def append(self, records: Sequence[Output]) -> None:
        assert not records

    def commit(
        self, executor: Executor, effects: Effects, position: int, tries: int = 0, *, singly: bool = False
    ) -> None:
        changes = {**effects.changes, POSITION_KEY: executor.position_record(position, "id", (), tries)}
        state = [Output(SESSION_STATE, 0, key.encode(), value, ()) for key, value in changes.items()]
        for output in (*effects.outputs, *state):
            bound = self.bounds.get(output.topic.split(".")[1].replace("-", "_"), RECORD_BYTES)
            if len(output.value or b"") > bound:
                self.refusals += 1
                raise UnsendableError("here", KafkaError(KafkaError.MSG_SIZE_TOO_LARGE), output)
        self.outputs += effects.outputs
        self.state += changes.items()

    def letters(self) -> dict[int, str]:
        dead = [output for output in self.outputs if output.topic == EVENTS_DLQ]
        return {int(header(o.headers, ORIGIN_OFFSET) or b""): (header(o.headers, REASON) or b"").decode() for o in dead}

    def released(self) -> list[int]:
        return [int(header(o.headers, ORIGIN_OFFSET) or b"") for o in self.outputs if o.topic == EPISODES]


def own(records: Sequence[LogRecord], broker: Broker) -> OwnedPartition:
    """An owner that restores after every abort, until all is folded."""
    partition = OwnedPartition(SOURCE, SESSIONS, sessions_fold, broker)  # type: ignore[arg-type]
    partition.restore()
    while rest := records[partition.position :][:BATCH_RECORDS]:
        first = partition.position
        try:
            partition.process(FetchedBatch(SOURCE, 0, first, first + len(rest), list(rest), 0))
        except StuckError:
            raise
        except UnsendableError:
            partition.restore()
    return partition


def events(count: int, large: Sequence[int]) -> list[LogRecord]:
    texts = {n: {"content": {"role": "user", "text": "x" * LARGE}} for n in large}
    return log([(n, event(f"s{n % 7}", n // 7, **texts.get(n, {}))) for n in range(count)])


@settings(max_examples=10)
@given(large=st.sets(st.integers(0, 199), max_size=4))
def test_exactly_the_records_whose_episodes_kafka_refuses_are_dead_letters(large: set[int]) -> None:
    records, broker = events(200, sorted(large)), Broker(episodes=LARGE)
    own(records, broker)
    behind = {n for n in range(200) if any(n % 7 == m % 7 and n > m for m in large)}
    assert broker.letters() == dict.fromkeys(large - behind, Reason.OUTPUT_REFUSED)
    assert set(broker.released()) == set(range(200)) - large - behind


def test_a_replay_that_knows_what_was_refused_says_the_same() -> None:
    records, broker = events(200, [7, 77]), Broker(episodes=LARGE)
    partition = own(records, broker)
    again = Executor(sessions_fold(), 0)
    stored = Executor(sessions_fold(), 0).restore(broker.state)
    assert stored is not None
    again.decided(stored)
    assert again.unsendable == partition.executor.unsendable != set()
    assert again.run(records).outputs == broker.outputs


def test_of_ever_more_refusals_the_newest_are_known_in_few_bytes() -> None:
    executor = Executor(sessions_fold(), 0)
    for n in range(0, 20_000, 500):
        executor.leave_out(Unsendable(m, EVIDENCE, f"acme/run/{'x' * 300}/{m}") for m in range(n, n + 500))
        assert len(executor.position_record(n, "id", ())) < 2 * REFUSED_BYTES
    assert max(executor.unsendable).offset == 19_999
    assert len(executor.unsendable) > 100


def test_after_a_refusal_whole_batches_are_folded_again() -> None:
    records, broker = events(3_000, [7]), Broker(episodes=LARGE)
    assert own(records, broker).committed < 200
    assert broker.refusals == 3


def test_what_kafka_refuses_for_a_while_is_folded_in_whole_batches_afterwards() -> None:
    class Patient(Broker):
        def commit(self, *arguments: Any, **options: Any) -> None:
            if self.refusals == 2:
                self.bounds = {}
            super().commit(*arguments, **options)

    records, broker = events(BATCH_RECORDS, [7, 77]), Patient(episodes=LARGE)
    partition = own(records, broker)
    assert (broker.refusals, broker.letters()) == (2, {})
    assert partition.committed < 80


def test_an_event_that_waits_behind_a_gap_is_refused_when_its_time_has_come() -> None:
    text = {"content": {"role": "user", "text": "x" * LARGE}}
    late = log([(0, event("s", 0)), (1, event("s", 2, **text)), *((20_000 + n, event("t", n)) for n in range(5))])
    broker = Broker(episodes=LARGE)
    own(late, broker)
    assert broker.letters() == {1: Reason.OUTPUT_REFUSED}
    assert sorted(broker.released()) == [0, 2, 3, 4, 5, 6]


def test_evidence_that_kafka_refuses_is_left_out_and_no_record_pays_for_it() -> None:
    told = [orjson.dumps(item) for n in range(3) for item in session(n)]
    records = log([(n, orjson.loads(value)) for n, value in enumerate(told)] + [(10**8, event("later", 0))])
    whole, broker = Broker(), Broker(evidence=900)
    own(records, whole)
    partition = own(records, broker)
    sizes = [len(output.value or b"") for output in whole.outputs if output.topic == EVIDENCE]
    assert broker.letters() == {}
    assert [o.value for o in broker.outputs if o.topic == EPISODES] == [
        o.value for o in whole.outputs if o.topic == EPISODES
    ]
    assert partition.executor.counts["output_left_out"] == sum(size > 900 for size in sizes) > 0


def test_a_dead_letter_that_kafka_refuses_leaves_the_records_bytes_out() -> None:
    records, broker = log([(0, event()), (1, b"{" * LARGE), (2, event("t"))]), Broker(events=LARGE - 1)
    own(records, broker)
    assert broker.letters() == {1: Reason.OUTPUT_REFUSED}
    assert broker.released() == [0, 2]


def test_a_state_record_that_kafka_refuses_is_the_outcome_of_the_record_that_changed_it() -> None:
    text = {"content": {"role": "user", "text": "x" * LARGE}}
    records = log([(0, event("s", 0)), (1, event("s", 2, **text)), (2, event("t", 0))])
    broker = Broker(session_state=LARGE)
    own(records, broker)
    assert broker.letters() == {1: Reason.OUTPUT_REFUSED}
    assert broker.released() == [0, 2]


def test_where_nothing_can_be_left_out_the_partition_says_that_it_is_stuck() -> None:
    with pytest.raises(StuckError, match="refuses a record"):
        own(events(3, []), Broker(session_state=1))


def lower(settings: Settings, topic: str, bound: int) -> None:
    entry = ConfigEntry("max.message.bytes", str(bound), incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, settings.topic_prefix + topic, incremental_configs=[entry])
    admin = connect(settings.kafka_bootstrap)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()


def noise(seed: int, size: int) -> str:
    """Text that compression makes no smaller than three quarters."""
    return "".join(
        random.Random(seed).choices("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789", k=size)
    )


def test_a_worker_whose_topics_take_less_rejects_what_they_refuse_and_goes_on(kafka: str, tmp_path: Path) -> None:
    settings = settings_of(kafka, window_ms=500)
    tenants = ("acme", "globex", "initech", "umbrella")
    small = [
        event(f"s{n}", m, tenant_id=t, event_id=f"{t}-{n}-{m}") for m in range(20) for n in range(5) for t in tenants
    ]
    large = [event(f"large-{n}", 0, content={"role": "user", "text": noise(n, 40_000)}) for n in range(3)]
    attack = {**event("attack", 0), "content": {f"sk-a{n:07}": 1 for n in range(3_500)}}
    sent = [*small[:150], large[0], *small[150:250], attack, *small[250:300], large[1], large[2], *small[300:]]
    with running(settings, tmp_path, "worker", partitions=2) as pipeline:
        for topic in (EPISODES, EVIDENCE, ARTIFACTS):
            lower(settings, topic, 16_000)
        worker = pipeline.processes["worker"]
        assert publish([orjson.dumps(item) for item in sent], settings).complete
        wait_for_stages(settings)
        assert worker.poll() is None, pipeline.log("worker")
    letters = [message for messages in read(settings, EVENTS_DLQ).values() for message in messages]
    reasons = Counter(header(headers_of(letter), REASON) for letter in letters)
    attacked = reasons.pop(b"too_costly", 0) + reasons[b"output_refused"] - len(large)
    assert attacked in (0, 1), "the attack's episode is small enough, or it is a dead letter itself"
    assert reasons.keys() == {b"output_refused"}
    assert all(header(headers_of(m), OMITTED) for m in letters if header(headers_of(m), REASON) == b"output_refused")
    released = episodes_by_session(settings)
    assert sum(map(len, released.values())) == len(small) + 1 - attacked
    report = verify(settings)
    assert report.conserved, report.violations
    assert replay(settings).identical
