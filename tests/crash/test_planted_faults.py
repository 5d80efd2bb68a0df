"""The verifier on a real pipeline: it finds nothing, and whatever is planted in what the pipeline has written it names.

Most faults are planted in what was read, which is then compared once more; some in the real topics and the real Redis.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import orjson
import pytest
import redis

from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.runtime.barriers import output_ends, wait_for_reader
from hmx_pipeline.store.fetch import Store
from tests.support.planted import (
    PARTITIONS,
    Verified,
    a_dead_letter,
    a_replaced_contribution,
    a_second_version,
    altered,
    at_rest,
    origin,
    places,
    stands,
)
from tests.verifier import Fault, Kind, Snapshot, compare
from tests.verifier.__main__ import main
from tests.verifier.log import Part, Row
from tests.verifier.memory import read_memory, root_of
from tests.verifier.rules import (
    ARTIFACTS,
    EPISODES,
    EVENTS,
    EVENTS_DLQ,
    EVIDENCE,
    KNOWLEDGE,
    PATTERN_STATE,
    SESSION_STATE,
)  # fmt: skip


@pytest.fixture(scope="module")
def verified(kafka: str, redis_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verified]:
    with at_rest(kafka, redis_url, tmp_path_factory.mktemp("logs")) as made:
        yield made


def test_it_finds_nothing_where_nothing_is_wrong(verified: Verified) -> None:
    report = compare(verified.snapshot, verified.rules)
    assert report.clean, report.faults
    assert report.outcomes.keys() == {
        "released", "released_late", "duplicate", "rerouted", "waiting", "control", "rejected.not_json",
        "rejected.null_value", "rejected.event_id_reused",
    }  # fmt: skip
    assert report.records == report.outcomes.total()
    assert report.compared["patterns"] > report.compared["artifact records"] > 8
    assert report.compared["knowledge records"] > 2
    assert report.compared["Redis keys"] > 400


class TestEpisodes:
    @pytest.fixture
    def number(self, verified: Verified) -> int:
        return verified.most(EPISODES)

    def test_one_removed(self, verified: Verified, number: int) -> None:
        rows = verified.rows(EPISODES, number)
        gone = rows.pop(20)
        found = verified.with_rows(EPISODES, number, rows)
        assert places(found) == [(Kind.LOST, f"{EPISODES}/{number} of {origin(gone)}")]

    def test_one_doubled(self, verified: Verified, number: int) -> None:
        rows = verified.rows(EPISODES, number)
        twin = rows[20]._replace(offset=rows[-1].offset + 1)
        found = verified.with_rows(EPISODES, number, [*rows, twin])
        assert places(found) == [(Kind.DOUBLED, f"{EPISODES}/{number} {stands(twin)}")]

    def test_two_swapped(self, verified: Verified, number: int) -> None:
        rows = verified.rows(EPISODES, number)
        rows[20], rows[21] = rows[21], rows[20]
        found = verified.with_rows(EPISODES, number, rows)
        assert places(found) == [(Kind.DISORDERED, f"{EPISODES}/{number} {stands(rows[20])}")]
        assert stands(rows[21]) in found[0].expected

    def test_one_in_another_partition(self, verified: Verified, number: int) -> None:
        rows = verified.rows(EPISODES, 1 - number)
        stray = verified.rows(EPISODES, number)[20]
        found = verified.with_rows(EPISODES, 1 - number, [*rows, stray])
        assert [fault.kind for fault in found] == [Kind.UNFOUNDED]

    @pytest.mark.parametrize(
        "change",
        [
            lambda value: value["payload"].update(extra=1),
            lambda value: value["metadata"]["hmx"].update(sequence=float(value["metadata"]["hmx"]["sequence"])),
            lambda value: value.update(id=value.pop("id")),
            lambda value: value["metadata"]["hmx"]["release"].update(late=True),
        ],
        ids=["content", "1.0 for 1", "order of keys", "late"],
    )
    def test_one_altered(self, verified: Verified, number: int, change: Callable[[Any], Any]) -> None:
        rows = verified.rows(EPISODES, number)
        rows[20] = altered(rows[20], change)
        found = verified.with_rows(EPISODES, number, rows)
        assert places(found) == [(Kind.DIFFERING, f"{EPISODES}/{number} {stands(rows[20])}")]


class TestDeadLetters:
    @pytest.mark.parametrize(
        "change",
        [
            lambda row: row._replace(value=b"other"),
            lambda row: row._replace(key=None),
            lambda row: row._replace(headers=[("mine", b"2"), *row.headers[1:]]),
            lambda row: row._replace(headers=[*row.headers, ("hmx-reason", b"not_utf8")]),
        ],
        ids=["value", "key", "producer's header", "reason"],
    )
    def test_one_altered(self, verified: Verified, change: Callable[[Row], Row]) -> None:
        number, rows, place = a_dead_letter(verified)
        rows[place] = change(rows[place])
        found = verified.with_rows(EVENTS_DLQ, number, rows)
        assert places(found) == [(Kind.DIFFERING, f"{EVENTS_DLQ}/{number} {stands(rows[place])}")]

    def test_one_removed(self, verified: Verified) -> None:
        number, rows, place = a_dead_letter(verified)
        gone = rows.pop(place)
        found = verified.with_rows(EVENTS_DLQ, number, rows)
        assert places(found) == [(Kind.LOST, f"{EVENTS_DLQ}/{number} of {origin(gone)}")]


class TestEvidence:
    def test_a_contribution_altered(self, verified: Verified) -> None:
        number, rows, place = a_replaced_contribution(verified)
        rows[place] = altered(rows[place], lambda value: value["body"].update(extra=1))
        (fault,) = verified.with_rows(EVIDENCE, number, rows)
        assert fault.kind is Kind.DIFFERING
        assert fault.where.startswith(f"{EVIDENCE}/{number} offset {rows[place].offset}, acme/")

    def test_a_contribution_removed(self, verified: Verified) -> None:
        number, rows, place = a_replaced_contribution(verified)
        gone = rows.pop(place)
        faults = verified.with_rows(EVIDENCE, number, rows)
        where = f"{EVIDENCE}/{number} {(gone.key or b'').decode()} of {origin(gone)}"
        assert (Kind.LOST, where) in places(faults)
        others = {fault.where for fault in faults} - {where, f"{PATTERN_STATE}/{number} ! count contributed"}
        assert all(other.startswith(f"{ARTIFACTS}/{number} ") for other in others), "versions that rested on it"

    def test_a_barrier_removed(self, verified: Verified) -> None:
        number = verified.most(EVIDENCE)
        rows = verified.rows(EVIDENCE, number)
        gone = next(row for row in rows if row.header("hmx-kind") == b"barrier")
        faults = verified.with_rows(EVIDENCE, number, [row for row in rows if row is not gone])
        where = f"{EVIDENCE}/{number} {(gone.key or b'').decode()} of {origin(gone)}"
        assert (Kind.LOST, where) in places(faults)


class TestArtifacts:
    def faults(self, verified: Verified, change: Callable[[Any], Any]) -> tuple[str, list[Fault]]:
        """With all records of the newest version changed; what is said of the topic, not of the table."""
        number, rows, place = a_second_version(verified)
        pattern = orjson.loads(rows[place].value or b"")["metadata"]["pattern"]
        last = max(n for n, row in enumerate(rows) if orjson.loads(row.value or b"")["metadata"]["pattern"] == pattern)
        rows[last] = altered(rows[last], change)
        artifact_id = (rows[last].key or b"").decode().split("/")[1]
        faults = verified.with_rows(ARTIFACTS, number, rows)
        assert any(fault.where.startswith(f"{PATTERN_STATE}/{number} p/") for fault in faults)
        return artifact_id, [fault for fault in faults if fault.where.startswith(ARTIFACTS)]

    def test_one_altered(self, verified: Verified) -> None:
        artifact_id, (fault,) = self.faults(verified, lambda value: value.update(confidence=0.123))
        assert fault.kind is Kind.DIFFERING
        assert fault.where.endswith(f"{artifact_id} confidence")
        assert fault.found == "0.123"

    def test_a_link_broken(self, verified: Verified) -> None:
        _, (fault,) = self.faults(verified, lambda value: value.update(supersedes="another"))
        assert fault.kind is Kind.DIFFERING
        assert fault.where.endswith(" supersedes")

    def test_two_live_in_a_chain(self, verified: Verified) -> None:
        """The predecessor is never said to be superseded."""
        number, rows, place = a_second_version(verified)
        old = orjson.loads(rows[place].value or b"")["supersedes"].encode()
        kept = [row for row in rows if not ((row.key or b"").endswith(old) and b'"superseded"' in (row.value or b""))]
        faults = verified.with_rows(ARTIFACTS, number, kept)
        said = {fault.where.partition("version 1 ")[2] for fault in faults if "version 1 " in fault.where}
        assert said == {"superseded_by", "status"}
        assert Kind.DOUBLED in {fault.kind for fault in faults if " pattern acme/" in fault.where}

    def test_a_way_that_no_status_goes(self, verified: Verified) -> None:
        number, rows, place = a_second_version(verified)
        predecessor = orjson.loads(rows[place].value or b"")["supersedes"]
        old = next(row for row in rows if (row.key or b"").endswith(predecessor.encode()))
        back = altered(old, lambda value: value.update(status="active", updated_at="2026-01-01T00:00:00.000Z"))
        faults = verified.with_rows(ARTIFACTS, number, [*rows, back._replace(offset=rows[-1].offset + 1)])
        assert (Kind.DIFFERING, f"{ARTIFACTS}/{number} {predecessor} offset {rows[-1].offset + 1} status") in places(
            faults
        )

    def test_one_removed(self, verified: Verified) -> None:
        number, rows, place = a_second_version(verified)
        pattern = orjson.loads(rows[place].value or b"")["metadata"]["pattern"]
        kept = [row for row in rows if orjson.loads(row.value or b"")["metadata"]["pattern"] != pattern]
        faults = verified.with_rows(ARTIFACTS, number, kept)
        where = f"{ARTIFACTS}/{number} pattern acme/"
        assert [fault.kind for fault in faults if fault.where.startswith(where)] == [Kind.LOST]

    def test_one_doubled(self, verified: Verified) -> None:
        number = verified.most(ARTIFACTS)
        rows = verified.rows(ARTIFACTS, number)
        twin = rows[-1]._replace(offset=rows[-1].offset + 1)
        artifact_id = (twin.key or b"").decode().split("/")[1]
        faults = verified.with_rows(ARTIFACTS, number, [*rows, twin])
        assert (Kind.DOUBLED, f"{ARTIFACTS}/{number} {artifact_id} offset {twin.offset}") in places(faults)

    def test_a_version_that_is_no_longer_live_altered(self, verified: Verified) -> None:
        """In all its records, so that it holds together; its map, compiled again, says otherwise."""
        number, rows, place = a_second_version(verified)
        old = orjson.loads(rows[place].value or b"")["supersedes"]
        made = [
            altered(row, lambda value: value.update(confidence=0.123))
            if (row.key or b"").endswith(old.encode())
            else row
            for row in rows
        ]
        faults = verified.with_rows(ARTIFACTS, number, made)
        assert len(faults) == sum((row.key or b"").endswith(old.encode()) for row in rows)
        assert {fault.kind for fault in faults} == {Kind.DIFFERING}
        assert all(f"{ARTIFACTS}/{number} {old} " in fault.where for fault in faults)

    def test_a_knowledge_record_removed_doubled_or_altered(self, verified: Verified) -> None:
        number = verified.most(KNOWLEDGE)
        rows = verified.rows(KNOWLEDGE, number)
        twin = rows[-1]._replace(offset=rows[-1].offset + 1)
        changed = altered(rows[-1], lambda value: value.update(confidence=0.123))
        for made, kind in (
            (rows[:-1], Kind.LOST),
            ([*rows, twin], Kind.DOUBLED),
            ([*rows[:-1], changed], Kind.DIFFERING),
        ):
            faults = verified.with_rows(KNOWLEDGE, number, made)
            assert kind in {fault.kind for fault in faults if KNOWLEDGE in fault.where}

    def test_knowledge_out_of_nowhere(self, verified: Verified) -> None:
        number = verified.most(ARTIFACTS)
        row, rows = verified.rows(ARTIFACTS, number)[0], verified.rows(KNOWLEDGE, number)
        row = row._replace(offset=rows[-1].offset + 1 if rows else 0)
        found = verified.with_rows(KNOWLEDGE, number, [*rows, row])
        assert (Kind.UNFOUNDED, f"{KNOWLEDGE}/{number} offset {row.offset}") in places(found)


class TestTables:
    def with_state(
        self, verified: Verified, topic: str, key: bytes, change: Callable[[Any], Any]
    ) -> tuple[int, list[Fault]]:
        """With the record of the first key that begins so changed; removed where `change` makes None of it."""
        for number in range(PARTITIONS):
            rows = verified.rows(topic, number)
            for place, row in enumerate(rows):
                if (row.key or b"").startswith(key):
                    value = orjson.loads(row.value or b"")
                    made = change(value)
                    rows[place : place + 1] = [] if made is None else [row._replace(value=orjson.dumps(made))]
                    return number, verified.with_rows(topic, number, rows)
        raise AssertionError(f"no key {key!r}")

    @pytest.mark.parametrize("topic", [SESSION_STATE, PATTERN_STATE])
    @pytest.mark.parametrize("by", [1, -1])
    def test_a_counter_shifted(self, verified: Verified, topic: str, by: int) -> None:
        def change(value: Any) -> Any:
            value["counts"]["contributed"] += by
            return value

        number, found = self.with_state(verified, topic, b"!", change)
        assert places(found) == [(Kind.DIFFERING, f"{topic}/{number} ! count contributed")]

    def test_a_position_behind(self, verified: Verified) -> None:
        number, found = self.with_state(verified, SESSION_STATE, b"!", lambda value: {**value, "position": 1})
        assert places(found) == [(Kind.BEHIND, f"{SESSION_STATE}/{number} ! position")]

    def test_a_waiting_event_lost(self, verified: Verified) -> None:
        number, found = self.with_state(verified, SESSION_STATE, b"w/acme/gap/", lambda _: None)
        assert places(found) == [(Kind.LOST, f"{SESSION_STATE}/{number} w/acme/gap/{7:020d}/gap-7")]

    def test_a_session_lost(self, verified: Verified) -> None:
        number, found = self.with_state(verified, SESSION_STATE, b"s/acme/late", lambda _: None)
        assert places(found) == [(Kind.LOST, f"{SESSION_STATE}/{number} s/acme/late")]

    def test_a_map_s_entry_lost(self, verified: Verified) -> None:
        number, (fault,) = self.with_state(verified, PATTERN_STATE, b"m/", lambda _: None)
        assert fault.kind is Kind.LOST
        assert fault.where.startswith(f"{PATTERN_STATE}/{number} m/acme/")


class TestRedis:
    """In what was read of it."""

    @pytest.mark.parametrize(
        "kind", ["event:", "contribution:", "artifact:", "acards", "documents", "term:", "session:", "rows"]
    )
    def test_a_key_missing(self, verified: Verified, kind: str) -> None:
        key = verified.key(kind)
        assert places(verified.with_memory(**{key: None})) == [(Kind.LOST, f"Redis {key}")]

    def test_a_key_too_many(self, verified: Verified) -> None:
        key = verified.key("artifact:") + "0"
        assert places(verified.with_memory(**{key: b"{}"})) == [(Kind.UNFOUNDED, f"Redis {key}")]

    def test_a_stale_artifact(self, verified: Verified) -> None:
        key = verified.key("artifact:")
        found = verified.with_memory(**{key: verified.value(key).replace(b'"version":', b'"version":1')})
        assert places(found) == [(Kind.DIFFERING, f"Redis {key}")]

    def test_an_episode_counted_twice(self, verified: Verified) -> None:
        key = verified.key("rows")
        (fault,) = verified.with_memory(**{key: verified.value(key) + verified.value(key)[:34]})
        assert fault.kind is Kind.DOUBLED
        assert fault.where.startswith(f"Redis {key} of episode ")

    def test_a_posting_appended_twice(self, verified: Verified) -> None:
        key = verified.key("term:")
        (fault,) = verified.with_memory(**{key: verified.value(key) + verified.value(key)[:8]})
        assert fault.kind is Kind.DOUBLED
        assert fault.where.startswith(f"Redis {key} of episode ")

    def test_an_artifact_under_two_states(self, verified: Verified) -> None:
        active, old = verified.key("artifacts:active"), verified.key("artifacts:superseded")
        name = min(verified.value(active))
        (fault,) = verified.with_memory(**{old: {**verified.value(old), name: b"task_schema"}})
        assert (fault.kind, fault.where) == (Kind.UNFOUNDED, f"Redis {old} {name.decode()}")

    def test_a_position_that_was_not_reached(self, verified: Verified) -> None:
        key = f"{root_of(verified.settings.topic_prefix)}:positions"
        stored = verified.value(key)
        faults = verified.with_memory(**{key: {**stored, f"{KNOWLEDGE}/0".encode(): b"7"}})
        assert (Kind.BEHIND, f"Redis positions {KNOWLEDGE}/0") in places(faults)


def test_it_names_what_is_planted_in_the_real_redis(verified: Verified, redis_url: str) -> None:
    stale, missing, extra = verified.key("artifact:"), verified.key("event:"), verified.key("contribution:") + "0"
    with closing(redis.Redis.from_url(redis_url)) as client:
        kept: Any = client.dump(missing)
        client.set(stale, b"{}")
        client.delete(missing)
        client.set(extra, b"{}")
        try:
            memory = read_memory(redis_url, verified.settings.topic_prefix)
            found = compare(replace(verified.snapshot, memory=memory), verified.rules).faults
            assert sorted(places(found)) == sorted(
                [
                    (Kind.DIFFERING, f"Redis {stale}"),
                    (Kind.LOST, f"Redis {missing}"),
                    (Kind.UNFOUNDED, f"Redis {extra}"),
                ]
            )
        finally:
            client.set(stale, verified.value(stale))
            client.restore(missing, 0, kept, replace=True)
            client.delete(extra)


def test_a_record_that_is_none_of_its_topic_s_is_named(verified: Verified) -> None:
    """And what else is there is still compared."""
    topics = dict(verified.snapshot.topics)
    for topic in (ARTIFACTS, KNOWLEDGE, EPISODES):
        first = topics[topic][0]
        stray = Row(first.high, 0, b"tick", b"no JSON", [])
        topics[topic] = [Part(first.low, first.high + 1, [*first.rows, stray]), *topics[topic][1:]]
    faults = compare(replace(verified.snapshot, topics=topics), verified.rules).faults
    for topic in (ARTIFACTS, KNOWLEDGE, EPISODES):
        assert any(fault.kind is Kind.UNFOUNDED and fault.where.startswith(f"{topic}/0 ") for fault in faults), topic
    assert {fault.kind for fault in faults} == {Kind.UNFOUNDED, Kind.BEHIND}


class TestRetention:
    @pytest.fixture
    def trimmed(self, verified: Verified) -> Snapshot:
        """As if the first ten records of the log had been deleted after they were read."""
        parts = [Part(10, part.high, [row for row in part.rows if row.offset >= 10]) for part in self.log(verified)]
        return replace(verified.snapshot, topics={**verified.snapshot.topics, EVENTS: parts}, memory=None)

    def log(self, verified: Verified) -> list[Part]:
        return verified.snapshot.topics[EVENTS]

    def test_what_is_gone_can_not_be_verified(self, verified: Verified, trimmed: Snapshot) -> None:
        faults = compare(trimmed, verified.rules).faults
        assert {(Kind.BEHIND, f"{EVENTS}/{number}") for number in range(PARTITIONS)} <= set(places(faults))

    def test_unless_it_was_read_before(self, verified: Verified, trimmed: Snapshot) -> None:
        assert not compare(trimmed.after(verified.snapshot), verified.rules).faults


def test_it_names_what_is_planted_in_the_real_topic(
    verified: Verified, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Last: it stays there. The command says so too."""
    number, settings = verified.most(EPISODES), verified.settings
    twin = verified.rows(EPISODES, number)[20]
    headers: Any = twin.headers
    with closing(plain_producer(settings.kafka_bootstrap)) as producer:
        producer.produce(settings.topic_prefix + EPISODES, twin.value, twin.key, number, headers=headers)
        assert producer.flush(30) == 0
    wait_for_reader(output_ends(settings), Store.open(settings).positions)
    (fault,) = verified.check().faults
    assert fault.kind is Kind.DOUBLED
    assert fault.where.endswith(f"of {origin(twin)}")
    for name in ("kafka_bootstrap", "topic_prefix", "control_key", "window_ms"):
        monkeypatch.setenv(f"HMX_{name.upper()}", str(getattr(settings, name)))
    assert main() == 1
    assert f"doubled {fault.where}" in " ".join(capsys.readouterr().out.split())
