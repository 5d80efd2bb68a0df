"""Conservation finds every outcome of what the sessions stage did, and names what is planted into its outputs."""

import tracemalloc
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.audit.partition_conservation import OutputPartition, PartitionState, conserve, copies_of, follow
from hmx_pipeline.audit.partition_report import PartitionReport, Reroutes, ViolationKind
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.intake.control_records import reroute_header
from hmx_pipeline.stages.fold import Output as Emitted
from hmx_pipeline.topology import EPISODES, EVENTS_DLQ
from tests.support.conserved import SECRET, Topics, everything, staged, written
from tests.support.inprocess import KEY, run, sessions_fold
from tests.support.records import START_MS, LogRecord, event, log


def faults(topics: Topics) -> set[tuple[str, int, int]]:
    return {(v.fault, v.partition, v.offset) for v in topics.verify().violations}


def index_of(records: list[LogRecord], origin: int) -> int:
    wanted = (names.ORIGIN_OFFSET, b"%d" % origin)
    return next(n for n, record in enumerate(records) if wanted in record.headers)


def altered(record: LogRecord, change: Callable[[dict[str, Any]], Any]) -> LogRecord:
    fields = orjson.loads(record.value or b"")
    change(fields)
    return replace(record, value=orjson.dumps(fields))


def without(records: list[LogRecord], origin: int) -> list[LogRecord]:
    n = index_of(records, origin)
    return records[:n] + records[n + 1 :]


def changed(records: list[LogRecord], origin: int, **fields: Any) -> list[LogRecord]:
    n = index_of(records, origin)
    return [*records[:n], replace(records[n], **fields), *records[n + 1 :]]


def test_every_outcome_is_recomputed_from_the_topics() -> None:
    report = everything().verify()
    assert report.violations == []
    assert report.outcomes == {
        Outcome.RELEASED: 3,
        Outcome.RELEASED_LATE: 1,
        Outcome.DUPLICATE: 2,
        Outcome.REJECTED: 4,
        Outcome.CONTROL: 2,
        Outcome.WAITING: 1,
    }
    assert report.rejections == {"not_json": 1, "event_id_reused": 1, "null_value": 1, "reserved": 1}
    assert report.outcomes.total() == 13


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.integers(0, 6),
            st.sampled_from(["", "other"]),
            st.sampled_from([1, 1_000, 4_999, 6_000]),
        ),
        max_size=25,
    )
)
def test_whatever_arrives_is_conserved(arrivals: list[tuple[str, int, str, int]]) -> None:
    at, items = 0, []
    for session, sequence, text, pause in arrivals:
        at += pause
        items.append((at, event(session, sequence, content={"text": text})))
    topics = staged(log(items))
    report = topics.verify()
    assert report.violations == []
    assert report.outcomes.total() == len(items)
    counts = Counter(run(sessions_fold, topics.events).counts)
    for outcome in (Outcome.RELEASED, Outcome.RELEASED_LATE, Outcome.DUPLICATE, Outcome.REJECTED):
        assert report.outcomes[outcome] == counts[outcome]


def test_an_event_under_no_key_or_another_makes_an_episode_under_its_session_s() -> None:
    records = log([(0, event(sequence=0)), (1, event(sequence=1))])
    topics = staged([replace(records[0], key=None), replace(records[1], key=b"other")])
    assert {episode.key for episode in topics.episodes} == {b"acme/s"}
    assert faults(topics) == set()


def test_what_has_its_outcome_takes_a_few_bytes_of_memory_however_large_it_was() -> None:
    """The check of a long log streams; kept whole, these records would take 2 KB each, and their digests 100 bytes."""

    def peak(records: int) -> int:
        said = {"role": "user", "text": "x" * 2_000}
        topics = staged(log([(n, event(sequence=n, content=said)) for n in range(records)]))
        topics.verify()  # fills the caches
        tracemalloc.start()
        try:
            topics.verify()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(1_000) - peak(200) < 800 * 64


def test_a_removed_episode_is_missing() -> None:
    topics = everything()
    for origin in (0, 3, 5, 8):
        removed = replace(topics, episodes=without(topics.episodes, origin))
        assert (ViolationKind.MISSING, 0, origin) in faults(removed)


def test_a_removed_original_leaves_its_duplicate_without_an_outcome() -> None:
    topics = everything()
    removed = replace(topics, episodes=without(topics.episodes, 0))
    assert faults(removed) == {(ViolationKind.MISSING, 0, 0), (ViolationKind.MISSING, 0, 1)}


def test_a_rejected_copy_is_no_original() -> None:
    first, other = event(sequence=0), event(sequence=0, content={"other": 1})
    topics = staged(log([(0, first), (1, other), (2, other)]))
    assert faults(topics) == set()
    assert faults(replace(topics, letters=without(topics.letters, 2))) == {(ViolationKind.MISSING, 0, 2)}


def test_a_removed_dead_letter_is_missing() -> None:
    topics = everything()
    for origin in (2, 4, 6, 7):
        assert faults(replace(topics, letters=without(topics.letters, origin))) == {(ViolationKind.MISSING, 0, origin)}


def test_what_no_longer_waits_and_did_not_come_out_is_missing() -> None:
    topics = everything()
    forgotten = replace(topics, standing=topics.standing._replace(waiting={}))
    assert faults(forgotten) == {(ViolationKind.MISSING, 0, 9), (ViolationKind.MISSING, 0, 10)}


def test_a_second_output_of_any_kind_is_doubled() -> None:
    topics = everything()
    again = topics.episodes[index_of(topics.episodes, 3)]
    assert faults(replace(topics, episodes=[*topics.episodes, again])) == {(ViolationKind.DOUBLED, 0, 3)}
    letter = topics.letters[index_of(topics.letters, 2)]
    assert faults(replace(topics, letters=[*topics.letters, letter])) == {(ViolationKind.DOUBLED, 0, 2)}
    control = changed([letter], 2, headers=[*letter.headers, (names.ORIGIN_OFFSET, b"11")])
    assert faults(replace(topics, letters=[*topics.letters, *control])) == {(ViolationKind.DOUBLED, 0, 11)}


def test_what_is_out_and_still_waits_is_doubled_unless_the_state_is_older_than_the_outputs() -> None:
    topics = everything()
    both = replace(topics, standing=topics.standing._replace(waiting={9: 0, 5: 0}))
    assert faults(both) == {(ViolationKind.DOUBLED, 0, 5)}
    assert faults(replace(both, still=False)) == set()


def test_an_output_of_nothing_is_unfounded() -> None:
    topics = everything()
    hole = [record for record in topics.events if record.offset != 5]
    assert {fault for fault, *_ in faults(replace(topics, events=hole))} == {ViolationKind.UNFOUNDED}
    nowhere = replace(topics, standing=topics.standing._replace(waiting={9: 0, 5: 0}), events=hole)
    assert (ViolationKind.UNFOUNDED, 0, 5) in faults(nowhere)


def test_an_output_in_another_partition_is_misplaced_and_its_event_missing() -> None:
    topics = everything()
    record = topics.episodes[index_of(topics.episodes, 5)]
    moved = changed(topics.episodes, 5, headers=[*record.headers, (names.ORIGIN_PARTITION, b"1")])
    found = {fault for fault, *_ in faults(replace(topics, episodes=moved))}
    assert found == {ViolationKind.MISPLACED, ViolationKind.MISSING}


def test_an_output_without_its_origin_is_nameless() -> None:
    topics = everything()
    found = {fault for fault, *_ in faults(replace(topics, episodes=changed(topics.episodes, 5, headers=[])))}
    assert found == {ViolationKind.NAMELESS, ViolationKind.MISSING}


@pytest.mark.parametrize(
    "change",
    [
        lambda _: {"key": b"other"},
        lambda _: {"key": b""},
        lambda letter: {"value": (letter.value or b"") + b" "},
        lambda letter: {"headers": [("mine", b"2"), *letter.headers[1:]]},
        lambda letter: {"headers": letter.headers[1:]},
        lambda letter: {"headers": [("new", b"1"), *letter.headers]},
        lambda letter: {"headers": [*letter.headers, ("after", b"ours")]},
        lambda letter: {"headers": [h if h[0] != names.LOG_TIME else (h[0], b"1") for h in letter.headers]},
    ],
)
def test_a_dead_letter_that_is_not_the_record_as_it_came_is_altered(
    change: Callable[[LogRecord], dict[str, Any]],
) -> None:
    topics = everything()
    n = index_of(topics.letters, 7)
    letters = changed(topics.letters, 7, **change(topics.letters[n]))
    assert faults(replace(topics, letters=letters)) == {(ViolationKind.ALTERED, 0, n)}


@pytest.mark.parametrize(
    "change",
    [
        lambda fields: fields["payload"].update(text="something else"),
        lambda fields: fields["metadata"].update(token=SECRET),
        lambda fields: fields["metadata"].pop("token"),
        lambda fields: fields.update(sessionId="v"),
        lambda fields: fields["metadata"]["hmx"].update(tenant_id="other"),
        lambda fields: fields["metadata"]["hmx"]["origin"].update(offset=4),
        lambda fields: fields["metadata"]["hmx"].pop("release"),
        lambda fields: fields.pop("metadata"),
    ],
)
def test_an_episode_that_is_not_its_event_is_altered(change: Callable[[dict[str, Any]], Any]) -> None:
    topics = everything()
    n = index_of(topics.episodes, 5)
    episodes = [*topics.episodes[:n], altered(topics.episodes[n], change), *topics.episodes[n + 1 :]]
    assert faults(replace(topics, episodes=episodes)) == {(ViolationKind.ALTERED, 0, n)}


def test_an_episode_under_another_key_is_altered() -> None:
    topics = everything()
    episodes = changed(topics.episodes, 5, key=b"acme/other")
    assert {fault for fault, *_ in faults(replace(topics, episodes=episodes))} == {ViolationKind.ALTERED}


def test_a_valid_event_rejected_for_what_it_is_not_has_the_wrong_outcome() -> None:
    topics = everything()
    letter = topics.letters[index_of(topics.letters, 4)]
    headers = [h if h[0] != names.REASON else (h[0], b"not_json") for h in letter.headers]
    found = faults(replace(topics, letters=changed(topics.letters, 4, headers=headers)))
    assert found == {(ViolationKind.WRONG_OUTCOME, 0, 4)}


def test_an_episode_of_an_invalid_record_has_the_wrong_outcome() -> None:
    topics = everything()
    events = [replace(r, value=b"{}") if r.offset == 5 else r for r in topics.events]
    assert faults(replace(topics, events=events)) == {(ViolationKind.WRONG_OUTCOME, 0, 5)}


def test_what_the_stage_has_not_come_to_is_pending() -> None:
    topics = everything()
    report = replace(topics, standing=PartitionState(0, {}), episodes=[], letters=[]).verify()
    assert (report.violations, report.pending, report.outcomes.total()) == ([], 13, 0)


def test_outputs_of_what_came_after_the_state_was_read_are_not_looked_at() -> None:
    topics = everything()
    report = replace(topics, standing=PartitionState(5, {}), still=False).verify()
    assert (report.violations, report.pending, report.outcomes.total()) == ([], 8, 5)


def test_what_was_lost_before_it_was_read_is_an_outcome_and_has_no_output() -> None:
    topics = everything()
    kept = [record for record in topics.events if record.offset >= 5]
    lost = topics.standing._replace(lost=((0, 5),))
    report = replace(topics, events=kept, low=5, standing=lost, episodes=without(topics.episodes, 0)).verify()
    assert report.outcomes[Outcome.LOST_TO_RETENTION] == 5
    assert report.faults[ViolationKind.UNFOUNDED] == 3  # the outputs of 2, 3 and 4, which cannot have been read


def test_what_retention_took_after_it_was_read_is_not_held_against_the_pipeline() -> None:
    topics = everything()
    kept = [record for record in topics.events if record.offset >= 1]
    report = replace(topics, events=kept, low=1).verify()
    assert (report.violations, report.unverified) == ([], 1)  # 1 is a duplicate of what is gone
    cut = topics.episodes[1:]
    report = replace(topics, episodes=cut, trimmed=True).verify()
    assert (report.violations, report.unverified) == ([], 2)  # 0, and 1, which may have been its duplicate
    assert replace(topics, episodes=[], letters=[], trimmed=True).verify().violations == []


# records in the wrong partition

HOME, AWAY = (next(f"s{n}" for n in range(99) if partition_of(session_key("acme", f"s{n}"), 2) == p) for p in (0, 1))


@dataclass(frozen=True)
class Rerouted:
    """Both partitions of an events topic: some of what stands in 0 belongs into 1."""

    first: list[LogRecord]
    second: list[LogRecord]
    standings: tuple[PartitionState, PartitionState]
    outputs: tuple[list[Emitted], list[Emitted]]

    def reports(self) -> list[PartitionReport]:
        copies: dict[Any, Any] = {}
        for place, copy in copies_of([*self.first, *self.second], KEY):
            copies.setdefault(place, copy)
        topics = [
            Topics(
                records,
                written([output for output in outputs if output.topic == EPISODES]),
                written([output for output in outputs if output.topic == EVENTS_DLQ]),
                standing,
                partitions=2,
                reroutes=Reroutes(copies),
            )
            for records, standing, outputs in zip((self.first, self.second), self.standings, self.outputs, strict=True)
        ]
        return [conserve_partition(n, each) for n, each in enumerate(topics)]

    def faults(self) -> set[tuple[str, int, int]]:
        return {(v.fault, v.partition, v.offset) for report in self.reports() for v in report.violations}


def conserve_partition(partition: int, topics: Topics) -> PartitionReport:
    outputs = [OutputPartition(EPISODES, topics.episodes, False), OutputPartition(EVENTS_DLQ, topics.letters, False)]
    report = conserve(partition, 0, topics.standing, lambda: topics.events, outputs, topics.partitions, KEY)
    follow(report, topics.reroutes)
    return report


def rerouted() -> Rerouted:
    """One at home, two away (one of them under headers of its own), and both copies of the first one after a crash."""
    first = log([(0, event(HOME, 0)), (1, event(AWAY, 0)), (2, event(AWAY, 1))])
    first[2] = replace(first[2], headers=[("mine", b"1")], key=None)
    ran = run(lambda: sessions_fold(2), first)
    appended = [ran.appends[0], *ran.appends]
    second = [LogRecord(1, n, START_MS + 10 + n, copy.key, copy.value, copy.headers) for n, copy in enumerate(appended)]
    there = run(lambda: sessions_fold(2), second)
    return Rerouted(first, second, (PartitionState(3, {}), PartitionState(3, {})), (ran.outputs, there.outputs))


def test_what_was_appended_once_more_to_its_own_partition_is_rerouted_and_its_second_copy_a_duplicate() -> None:
    topics = rerouted()
    here, there = topics.reports()
    assert (here.violations, there.violations) == ([], [])
    assert here.outcomes == {Outcome.RELEASED: 1, Outcome.REROUTED: 2}
    assert there.outcomes == {Outcome.RELEASED: 2, Outcome.DUPLICATE: 1}


def test_without_a_copy_in_the_right_partition_it_is_missing() -> None:
    topics = rerouted()
    second = topics.second[:2]
    gone = replace(topics, second=second, standings=(topics.standings[0], PartitionState(2, {})))
    assert (ViolationKind.MISSING, 0, 2) in gone.faults()
    elsewhere = replace(topics, second=[replace(r, partition=0) if r.offset == 2 else r for r in topics.second])
    assert (ViolationKind.MISSING, 0, 2) in elsewhere.faults()


@pytest.mark.parametrize(
    "forge",
    [
        lambda place: place.replace(b"0:2", b"0:1"),
        lambda place: place[:-1] + (b"0" if place[-1:] != b"0" else b"1"),
        lambda place: place.rpartition(b":")[0],
        lambda _: b"",
    ],
)
def test_a_copy_that_our_key_does_not_authenticate_is_none(forge: Callable[[bytes], bytes]) -> None:
    topics = rerouted()
    copy = topics.second[2]
    name, place = copy.headers[-1]
    second = [*topics.second[:2], replace(copy, headers=[*copy.headers[:-1], (name, forge(place))])]
    assert (ViolationKind.MISSING, 0, 2) in replace(topics, second=second).faults()


@pytest.mark.parametrize("change", [{"key": b"acme/other"}, {"headers": slice(1, None)}])
def test_a_copy_under_another_key_or_other_headers_is_altered(change: dict[str, Any]) -> None:
    topics = rerouted()
    copy = topics.second[2]
    given = {name: copy.headers[value] if isinstance(value, slice) else value for name, value in change.items()}
    assert (ViolationKind.ALTERED, 1, 2) in replace(
        topics, second=[*topics.second[:2], replace(copy, **given)]
    ).faults()


def test_a_copy_of_what_was_not_rerouted_is_unfounded() -> None:
    topics = rerouted()
    header = reroute_header(KEY, 0, 0, topics.first[0].value or b"")
    extra = replace(topics.first[0], partition=1, offset=3, headers=[header])
    assert (ViolationKind.UNFOUNDED, 1, 3) in replace(topics, second=[*topics.second, extra]).faults()


def test_an_episode_of_what_stands_in_the_wrong_partition_has_the_wrong_outcome() -> None:
    topics = rerouted()
    wrong = run(lambda: sessions_fold(1), topics.first)
    outputs = (wrong.outputs, topics.outputs[1])
    assert {(ViolationKind.WRONG_OUTCOME, 0, 1), (ViolationKind.WRONG_OUTCOME, 0, 2)} <= replace(
        topics, outputs=outputs
    ).faults()


def test_a_dead_letter_for_the_wrong_partition_is_wrong_in_the_right_one() -> None:
    topics = everything()
    letter = topics.letters[index_of(topics.letters, 4)]
    headers = [h if h[0] != names.REASON else (h[0], b"wrong_partition") for h in letter.headers]
    found = faults(replace(topics, letters=changed(topics.letters, 4, headers=headers)))
    assert found == {(ViolationKind.WRONG_OUTCOME, 0, 4)}
