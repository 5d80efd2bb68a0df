"""Two streams side by side: what is the same is counted, every difference is one difference and has a name."""

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.audit import replay_streams
from hmx_pipeline.audit.replay_artifacts import (
    ChangeKind,
    PatternName,
    change_of,
    current_artifacts,
    differing,
    rests_on_more,
)
from hmx_pipeline.audit.replay_streams import (
    StreamDifference,
    StreamReport,
    changed_paths,
    compare,
    compare_by_origin,
)
from hmx_pipeline.contracts.headers import EPISODE, output_headers
from tests.support.records import LogRecord


def record(origin: int, text: str = "", *, key: str = "k", source: int = 0) -> LogRecord:
    value = orjson.dumps({"origin": origin, "text": text})
    return LogRecord(0, 0, 0, key.encode(), value, output_headers(EPISODE, "hmx.events.v1", source, origin))


def placed(records: list[LogRecord]) -> list[LogRecord]:
    return [replace(item, offset=offset) for offset, item in enumerate(records)]


def compared(made: list[LogRecord], there: list[LogRecord], settled: int = 1_000_000, **live: bool) -> StreamReport:
    return compare(StreamReport("topic", 0), made, placed(there), settled, **live)


def kinds(report: StreamReport) -> dict[str, int]:
    return dict(report.differences)


MADE = [record(n) for n in range(20)]


@pytest.mark.parametrize("ordered", [True, False])
def test_one_fault_is_one_difference(ordered: bool) -> None:
    """And not a difference in all that follow."""
    altered = [*MADE[:5], record(5, "otherwise"), *MADE[6:]]
    assert (compared(MADE, MADE, ordered=ordered).same, kinds(compared(MADE, MADE, ordered=ordered))) == (20, {})
    assert kinds(compared(MADE, [*MADE[:5], *MADE[6:]], ordered=ordered)) == {StreamDifference.MISSING: 1}
    assert kinds(compared(MADE, [*MADE[:5], MADE[4], *MADE[5:]], ordered=ordered)) == {StreamDifference.EXTRA: 1}
    assert kinds(compared(MADE, altered, ordered=ordered)) == {StreamDifference.ALTERED: 1}
    assert compared(MADE, altered, ordered=ordered).examples[0].detail == '$.text: "otherwise" → ""'
    assert kinds(compared(MADE, [*MADE[:5], MADE[6], MADE[5], *MADE[7:]])) == {StreamDifference.MOVED: 1}
    other_headers = [replace(MADE[0], headers=[*MADE[0].headers, ("more", b"1")]), *MADE[1:]]
    assert kinds(compared(MADE, other_headers, ordered=ordered)) == {StreamDifference.ALTERED: 1}


def test_what_was_written_after_the_replays_end_is_no_difference() -> None:
    report = compared(MADE[:15], MADE, settled=15)
    assert (report.same, report.later, kinds(report)) == (15, 5, {})
    assert kinds(compared(MADE[:15], MADE, settled=16)) == {StreamDifference.EXTRA: 1}


def test_what_retention_took_from_the_beginning_is_no_difference() -> None:
    report = compared(MADE, MADE[7:], trimmed=True)
    assert (report.same, report.taken, kinds(report)) == (13, 7, {})


@given(st.lists(st.sampled_from("abcd"), max_size=14), st.data())
def test_compaction_is_no_difference_and_a_lost_last_record_is_one(keys: list[str], data: st.DataObject) -> None:
    made = [record(n, key=key) for n, key in enumerate(keys)]
    last = {key: n for n, key in enumerate(keys)}
    gone = data.draw(st.sets(st.sampled_from([n for n, key in enumerate(keys) if last[key] != n] or [-1])))
    there = [item for n, item in enumerate(made) if n not in gone]
    report = compared(made, there, compacted=True)
    assert (report.same, kinds(report)) == (len(there), {})
    assert report.replaced == len(made) - len(there)
    for lost in last.values():
        rest = [item for n, item in enumerate(made) if n not in gone and n != lost]
        assert kinds(compared(made, rest, compacted=True))[StreamDifference.MISSING] >= 1


def test_of_what_was_erased_compaction_leaves_nothing() -> None:
    made = [record(0, key="a"), record(1, key="b"), replace(record(2, key="a"), value=None), record(3, key="b")]
    report = compared(made, [made[3]], compacted=True)
    assert (report.same, report.replaced, kinds(report)) == (1, 3, {})
    assert compared(made, made, compacted=True).same == 4


def test_an_altered_record_of_a_compacted_topic_is_named() -> None:
    made = [record(n, key=key) for n, key in enumerate("abab")]
    assert kinds(compared(made, [*made[:3], record(3, "x", key="b")], compacted=True)) == {StreamDifference.ALTERED: 1}


def test_records_that_are_too_far_apart_are_not_held_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_streams, "APART", 5)
    report = compared(MADE, MADE[10:], ordered=False)
    assert report.differences[StreamDifference.MISSING] >= 10
    assert report.same + report.differences[StreamDifference.EXTRA] == 10


@given(st.permutations([0, 0, 0, 1, 1, 2, 2, 2]))
def test_between_source_partitions_no_order_is_asked_for_and_within_one_it_is(order: list[int]) -> None:
    made = {source: [record(n, source=source) for n in range(3)] for source in range(3)}
    made[1].pop()
    waiting = {source: list(records) for source, records in made.items()}
    there = placed([waiting[source].pop(0) for source in order])

    def found(records: list[LogRecord]) -> StreamReport:
        return compare_by_origin(StreamReport("topic", 0), lambda source: made[source], 3, records, 1_000)

    assert (found(there).same, kinds(found(there))) == (8, {})
    assert kinds(found(there[:-1])) == {StreamDifference.MISSING: 1}
    tick = replace(there[0], headers=())
    assert kinds(found([tick, *there, replace(there[0], offset=9)])) == {StreamDifference.EXTRA: 1}


def test_the_first_paths_that_differ_are_shown() -> None:
    before, after = b'{"a": [1, {"b": 2}], "c": 3, "e": 0}', b'{"a": [1, {"b": 4}], "d": 5, "e": 0.0}'
    assert changed_paths(before, after, 9) == [
        ("$.a[1].b", "2", "4"), ("$.c", "3", "null"), ("$.e", "0", "0.0"), ("$.d", "null", "5")
    ]  # fmt: skip
    assert changed_paths(b"no JSON", b"neither", 9) == [("$", "b'no JSON'", "b'neither'")]


def artifact(name: str, artifact_id: str, offset: int, **fields: object) -> LogRecord:
    said = {
        "artifact_type": "task_schema", "title": name, "summary": "", "status": "active", "confidence": 0.8,
        "observed_count": 3, "success_rate": 1.0, "content_hash": "0", "content": {}, "source_events": ["a", "b"],
        "source_memory_ids": ["m"], "tenant_id": "acme", "metadata": {"pattern": name}, **fields,
    }  # fmt: skip
    return LogRecord(0, offset, 0, artifact_id.encode(), orjson.dumps(said))


def test_of_a_memory_what_counts_is_what_its_current_artifacts_say_and_not_how_it_got_there() -> None:
    there = [
        artifact("same", "1", 0), artifact("same", "1", 1, status="superseded"), artifact("same", "2", 2, version=2),
        artifact("gone", "3", 3), artifact("surer", "4", 4), artifact("dropped", "5", 5),
        artifact("dropped", "5", 6, status="deprecated"), LogRecord(0, 7, 0, b"6", b"no artifact"),
        LogRecord(0, 8, 0, b"7", b"[]"),
    ]  # fmt: skip
    made = [
        artifact("same", "9", 0, source_events=["b", "a"]), artifact("surer", "8", 1, confidence=0.9),
        artifact("new", "7", 2),
    ]  # fmt: skip
    differ = differing(current_artifacts(there), current_artifacts(made))
    assert differ == {
        PatternName("acme", "gone"): (3, None),
        PatternName("acme", "new"): (None, 2),
        PatternName("acme", "surer"): (4, 1),
    }
    changes = [
        change_of(name, there[old].value if old is not None else None, made[new].value if new is not None else None)
        for name, (old, new) in differ.items()
    ]
    assert [change.change for change in changes] == [ChangeKind.REMOVED, ChangeKind.ADDED, ChangeKind.CHANGED]
    assert changes[2].paths == [("$.confidence", "0.8", "0.9")]
    assert [rests_on_more(change) for change in changes] == [True, False, False]
