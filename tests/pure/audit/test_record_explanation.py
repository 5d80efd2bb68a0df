"""An explanation says of any one record what the audit finds, what decided it, and what came of it."""

from dataclasses import replace
from typing import Any

import pytest

from hmx_pipeline.audit.partition_conservation import OutputPartition, PartitionState, conserve, copies_of, follow
from hmx_pipeline.audit.partition_report import Reroutes
from hmx_pipeline.audit.record_explanation import ABSENT, MISSING, PENDING, UNVERIFIED, Explanation, Witness, explain
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason, mending
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.topology import EPISODES, EVENTS_DLQ
from tests.support.conserved import Topics, everything, staged
from tests.support.inprocess import KEY, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event, log


def explained(topics: Topics, offset: int) -> Explanation:
    record = next((record for record in topics.events if record.offset == offset), None)
    witness = Witness((0, offset), record)
    written = ((EPISODES, topics.episodes), (EVENTS_DLQ, topics.letters))
    outputs = [OutputPartition(topic, records, topics.trimmed) for topic, records in written]
    for topic, records in written:
        witness.see(topic, records)
    report = conserve(
        0, topics.low, topics.standing, lambda: topics.events, outputs, topics.partitions, KEY, asked=offset
    )
    follow(report, topics.reroutes)
    return explain((0, offset), topics.standing, report, witness)


def test_every_record_s_explanation_is_what_the_audit_counts() -> None:
    topics = everything()
    outcomes = [explained(topics, record.offset).outcome for record in topics.events]
    counted = topics.verify().outcomes
    assert {outcome: outcomes.count(outcome) for outcome in set(outcomes)} == dict(counted)
    assert all(explained(topics, record.offset).in_order for record in topics.events)


def test_a_released_event_names_its_place_in_the_session_and_its_episode() -> None:
    topics = everything()
    found = explained(topics, 3)
    assert found.outcome == Outcome.RELEASED
    assert found.because == {"index": 1, "run": 0, "late": False}
    assert found.event is not None
    assert (found.event["event_id"], found.event["sequence"]) == ("s-3", 3)
    (led,) = found.outputs
    assert (led.topic, topics.episodes[led.offset].headers[-1][1]) == (EPISODES, b"3")


def test_a_late_event_names_what_was_released_before_it() -> None:
    found = explained(everything(), 8)
    assert found.outcome == Outcome.RELEASED_LATE
    assert found.because["released_before"] == {"partition": 0, "offset": 3, "sequence": 3}
    assert "0:3" in found.said


def test_a_duplicate_names_its_original_also_where_that_waits() -> None:
    topics = everything()
    assert explained(topics, 1).because == {"original": {"partition": 0, "offset": 0}}
    assert explained(topics, 10).because == {"original": {"partition": 0, "offset": 9}}
    assert explained(topics, 10).outputs == []


@pytest.mark.parametrize(
    ("offset", "reason", "path"),
    [
        (2, Reason.NOT_JSON, "$"),
        (4, Reason.EVENT_ID_REUSED, "$.event_id"),
        (6, Reason.NULL_VALUE, "$"),
        (7, Reason.RESERVED, "$.tenant_id"),
    ],
)
def test_a_rejected_record_names_reason_path_and_advice(offset: int, reason: Reason, path: str) -> None:
    found = explained(everything(), offset)
    assert found.outcome == Outcome.REJECTED
    assert (found.because["reason"], found.because["path"], found.because["advice"]) == (reason, path, mending(reason))
    assert [led.topic for led in found.outputs] == [EVENTS_DLQ]


def test_what_waits_says_until_when() -> None:
    topics = everything()
    found = explained(topics, 9)
    assert found.outcome == Outcome.WAITING
    assert found.because["until"] == format_ms(START_MS + 5_101 + 5_000)


def test_a_control_record_says_which() -> None:
    topics = everything()
    assert explained(topics, 11).because == {"type": "x-hmx-tick"}
    assert explained(topics, 12).because == {"type": "x-hmx-barrier", "barrier_id": "b"}


def test_what_is_not_there_is_said() -> None:
    topics = everything()
    assert explained(topics, 99).outcome == ABSENT
    removed = replace(topics, episodes=topics.episodes[1:])
    assert explained(removed, 0).outcome == MISSING
    assert not explained(removed, 0).in_order
    unread = replace(topics, standing=PartitionState(5, {}))
    assert explained(unread, 8).outcome == PENDING


def test_a_second_output_is_named_beside_the_first() -> None:
    topics = everything()
    again = replace(topics.episodes[0], offset=7)
    found = explained(replace(topics, episodes=[*topics.episodes, again]), 0)
    assert [led.offset for led in found.outputs] == [0, 7]
    assert [violation.fault for violation in found.violations] == ["doubled"]


def test_of_what_retention_took_the_outputs_still_tell() -> None:
    topics = everything()
    kept = replace(topics, events=topics.events[9:], low=9)
    assert explained(kept, 0).outcome == Outcome.RELEASED
    assert explained(kept, 8).outcome == Outcome.RELEASED_LATE
    assert explained(kept, 2).because["reason"] == Reason.NOT_JSON
    assert explained(kept, 1).outcome == UNVERIFIED
    lost = replace(kept, standing=kept.standing._replace(lost=((0, 9),)))
    assert explained(lost, 0).outcome == Outcome.LOST_TO_RETENTION


def test_a_rerouted_record_and_its_copy_name_each_other() -> None:
    away = next(f"s{n}" for n in range(99) if partition_of(session_key("acme", f"s{n}"), 2) == 1)
    first = log([(0, event(away, 0))])
    ran = run(lambda: sessions_fold(2), first)
    (copy,) = ran.appends
    second = LogRecord(1, 0, START_MS, copy.key, copy.value, copy.headers)
    topics = Topics(
        first, [], [], PartitionState(1, {}), partitions=2, reroutes=Reroutes(dict(copies_of([second], KEY)))
    )
    found = explained(topics, 0)
    assert (found.outcome, found.because) == (Outcome.REROUTED, {"copy": {"partition": 1, "offset": 0}})
    there = Witness((1, 0), second)
    assert not there.astray(2)
    assert Witness((0, 0), first[0]).astray(2)
    report = conserve(1, 0, PartitionState(1, {}), lambda: [second], [], 2, KEY, asked=0)
    assert explain((1, 0), PartitionState(1, {}), report, there).because == {"copy_of": {"partition": 0, "offset": 0}}


def test_what_a_producer_wrote_is_shown_without_secrets() -> None:
    fields: dict[str, Any] = {"event_id": "e", "content": {"password": "hunter2"}}
    assert "hunter2" not in str(explained(staged(log([(0, event(**fields))])), 0).as_json())
