"""What leaves memory by a tenant's retention: alike on every replay, in any order of sessions, and nothing of it comes
back."""

import random
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.retention import DAY_MS, Retention, cuts_of, policy_of, risen
from hmx_pipeline.contracts.ruling import RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from hmx_pipeline.intake.control_records import retaining
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, EPISODES, ERASURES, EVIDENCE, KNOWLEDGE
from tests.pure.test_privacy import Made, folded, known, last, ruled, tick
from tests.support.inprocess import Ran, barrier_record, law_five, run, sessions_fold, signed, tick_record
from tests.support.records import START_MS, LogRecord, event, log
from tests.support.sessions import interleaved, session
from tests.support.talk import holding, said

Json = dict[str, Any]
OLD = "session-1"


def told(old_days: int = 40) -> list[list[Json]]:
    """Six sessions of today; the second happened many days ago."""
    sessions = [session(n) for n in range(6)]
    for one in sessions[1]:
        one["timestamp"] = format_ms((milliseconds(one["timestamp"]) or 0) - old_days * DAY_MS)
    return sessions


def policy(text: str, at: int = 0, **more: Any) -> LogRecord:
    given = Retention.told("acme", text).model_copy(update=more)
    return signed(retaining(given, 0, START_MS + at), 0, 0, at)


def placed(records: list[LogRecord]) -> list[LogRecord]:
    """Ten milliseconds between records, unless one says when it came."""
    at, found = START_MS, []
    for n, record in enumerate(records):
        at = max(at + 10, record.timestamp if record.key == b"control" else 0)
        found.append(replace(record, offset=n, timestamp=at))
    return found


def evidence_of(result: Ran) -> list[LogRecord]:
    return [
        LogRecord(0, n, START_MS + 1_000 * n, output.key, output.value, output.headers)
        for n, output in enumerate(result.on(EVIDENCE))
    ]


def learnt(events: list[Json], *policies: LogRecord, at: int | None = None) -> tuple[Ran, Ran]:
    records = log(list(enumerate(events)))
    place = len(records) if at is None else at
    first = run(sessions_fold, placed([*records[:place], *policies, *records[place:], barrier_record(0)]))
    return first, run(PatternsFold, evidence_of(first))


def standing(result: Ran) -> dict[bytes, Json]:
    last: dict[bytes, Json] = {}
    for output in [*result.on(ARTIFACTS), *result.on(KNOWLEDGE)]:
        last.pop(output.key or b"", None)
        if output.value is not None:
            last[output.key or b""] = orjson.loads(output.value)
    return last


def policy_made(text: str) -> Made:
    return lambda offset, at: signed(retaining(Retention.told("acme", text), 0, START_MS + at), 0, offset, at)


def marks(result: Ran) -> list[ErasureMark]:
    return [ErasureMark.model_validate_json(output.value or b"") for output in result.on(ERASURES)]


def sources(result: Ran) -> str:
    return orjson.dumps([*standing(result).values()]).decode()


@pytest.mark.parametrize("at", [0, 17, None])
@pytest.mark.parametrize("text", ["all:30d", "all:3d,message:2d", "artifacts:30d,knowledge:30d"])
def test_what_is_too_old_is_not_learnt_from_whenever_the_policy_comes(text: str, at: int | None) -> None:
    mixed = interleaved(told(), 3)
    _, without = learnt([event for event in mixed if event["session_id"] != OLD])
    first, kept = learnt(mixed, policy(text), at=at)
    assert law_five([one for one in standing(kept).values() if "artifact_id" in one]) == law_five(
        [one for one in standing(without).values() if "artifact_id" in one]
    )
    assert OLD not in sources(kept)
    assert not [key for key in kept.state if OLD in key]
    assert first.counts["released"] == len(mixed)  # every event has its outcome all the same


@settings(max_examples=10)
@given(dice=st.randoms(use_true_random=False))
def test_batches_and_restores_change_nothing(dice: random.Random) -> None:
    mixed = interleaved(told(), dice)
    records = log(list(enumerate(mixed)))
    records.insert(dice.randrange(len(records)), policy("all:30d,sessions:3"))
    whole = placed([*records, barrier_record(0), tick_record(2 * DAY_MS), tick_record(4 * DAY_MS)])
    first = run(sessions_fold, whole)
    assert run(sessions_fold, whole, cut=lambda _: 1, restores=True).outputs == first.outputs
    evidence = evidence_of(first)
    second = run(PatternsFold, evidence)
    assert run(PatternsFold, evidence, cut=lambda _: 1, restores=True).outputs == second.outputs
    assert not [key for key in second.state if OLD in key]


def test_a_policy_takes_more_at_each_midnight_of_the_log_and_only_then() -> None:
    mixed = interleaved(told(), 3)
    days = [tick_record(n * DAY_MS // 4) for n in range(1, 13)]
    first = run(sessions_fold, placed([*log(list(enumerate(mixed))), policy("all:2d"), *days]))
    cuts = [mark.cuts["all"] for mark in marks(first)]
    today = START_MS // DAY_MS
    assert cuts == [(today + n) * DAY_MS for n in range(-2, 2)]
    second = run(PatternsFold, evidence_of(first))
    assert not standing(second)
    assert not [key for key in second.state if key.startswith("m/")]


def test_a_policy_that_comes_with_the_first_record_of_a_day_is_told_under_an_id_of_its_own() -> None:
    first = run(sessions_fold, placed([policy("all:2d"), policy("all:300d,sessions:3", DAY_MS)]))
    for topic in (ERASURES, EVIDENCE):
        told = [(dict(output.headers)["ce_id"], output.value) for output in first.on(topic)]
        assert len({name for name, _ in told}) == len(told) == 3
    assert marks(first)[-1].policy == "all:300d,sessions:3"


def test_what_has_left_stays_away_after_a_longer_policy_or_none() -> None:
    mixed = interleaved(told(), 3)
    _, kept = learnt(mixed, policy("all:30d"), policy("all:300d"), policy(""), at=2)
    assert OLD not in sources(kept)


def test_a_policy_is_the_tenants_own() -> None:
    mixed = interleaved(told(), 3)
    others = [event | {"tenant_id": "other", "event_id": f"o-{event['event_id']}"} for event in mixed]
    first, kept = learnt([*mixed, *others], policy("all:30d"))
    erasures = Erasures(marks(first))
    hidden = {one["metadata"]["hmx"]["tenant_id"] for one in first.episodes if erasures.hides_episode(one)}
    assert hidden == {"acme"}
    old = {one["tenant_id"] for one in standing(kept).values() if OLD in orjson.dumps(one).decode()}
    assert old == {"other"}


def test_each_policy_is_counted_by_its_name() -> None:
    for text, more, name in (
        ("all:30d", {}, "forgotten_by_age"),
        ("artifacts:30d,knowledge:30d", {}, "forgotten_by_class"),
        ("sessions:5", {"cuts": {"sessions": START_MS - DAY_MS}}, "forgotten_by_count"),
    ):
        _, kept = learnt(interleaved(told(), 3), policy(text, **more))
        assert kept.counts[name] > 0
        assert OLD not in sources(kept)


def test_a_class_of_events_leaves_and_what_was_learnt_stays() -> None:
    first, kept = learnt(interleaved(told(), 3), policy("tool_result:30d"))
    erasures = Erasures(marks(first))
    hidden = [one for one in first.episodes if erasures.hides_episode(one)]
    assert {(one["sessionId"], one["eventType"]) for one in hidden} == {(OLD, "tool_result")}
    assert OLD in sources(kept)


@pytest.mark.requirement("Y19")
@pytest.mark.parametrize("days", [40, 20])
def test_what_tells_later_whose_a_session_is_leaves_with_what_was_said_before(days: int) -> None:
    """Without it a refill would take what was said before for everybody's."""
    events = [
        *said("s", "Hello.", "The locker code is heron."),
        event("s", 2, event_type="tool_result", content={"tool_name": "login", "success": True}),
    ]
    events[-1]["metadata"] = {"user_id": "ann"}
    for one, before in zip(events, (days, days, 40), strict=True):
        one["timestamp"] = format_ms((milliseconds(one["timestamp"]) or 0) - before * DAY_MS)

    def hidden(text: str) -> list[str]:
        first, _ = learnt(events, policy(text))
        erasures = Erasures(marks(first))
        return [one["eventType"] for one in first.episodes if erasures.hides_episode(one)]

    assert hidden("tool_result:1d") == []
    assert hidden("message:1d") == ["message"] * 2
    for text in ("all:30d", "episodes:30d"):
        assert hidden(text) == (["message", "message", "tool_result"] if days > 30 else [])


def test_readers_hide_what_is_past_wherever_the_mark_stands() -> None:
    first, _ = learnt(interleaved(told(), 3), policy("all:30d"), at=0)
    erasures = Erasures(marks(first))
    assert {one["sessionId"] for one in first.episodes if erasures.hides_episode(one)} == {OLD}
    assert {one["session_id"] for one in first.contributions if erasures.hides_contribution(one)} == {OLD}
    assert erasures.digests() != Erasures(marks(first)[:0]).digests()


def test_of_the_marks_of_all_partitions_the_first_is_taken_out_of_memory_and_every_one_that_says_more() -> None:
    (mark,) = marks(learnt([], policy("all:30d"))[0])
    other = mark.model_copy(update={"partition": 1})
    later = other.model_copy(update={"cuts": {"all": mark.cuts["all"] + DAY_MS}})
    erased = mark.model_copy(update={"erasure_id": "e", "marks": ["0" * 32], "cuts": {}, "policy": ""})
    known = Erasures([mark, later])  # a process that starts knows marks that memory may not have come to
    assert known.arrived([mark]) == ["acme"]
    assert known.arrived([mark, other]) == ["acme"], "it was not taken out yet"
    known.cleared("acme")
    assert known.arrived([mark, other, later]) == []
    known = Erasures()
    assert known.arrived([mark]) == ["acme"]
    known.cleared("acme")
    assert known.arrived([other]) == []
    assert known.arrived([later]) == known.arrived([erased]) == ["acme"]


def test_an_archive_knows_that_a_cut_has_risen() -> None:
    (mark,) = marks(learnt([], policy("all:30d"))[0])
    later = mark.model_copy(update={"cuts": {"all": mark.cuts["all"] + DAY_MS}})
    assert Erasures([mark]).digests() != Erasures([later]).digests() == Erasures([later, mark]).digests()


def test_what_an_operator_confirmed_stands_until_the_ruling_is_too_old() -> None:
    old = [
        one | {"timestamp": format_ms((milliseconds(one["timestamp"]) or 0) - 40 * DAY_MS)}
        for one in said("s1", "Our warehouse is Snowflake.", "Thanks.")
    ]
    (record,) = [one for one in known(*old) if "Snowflake" in one["text"]]

    def kept(text: str, *before: Made) -> list[str]:
        return [one["text"] for one in holding(known(*old, 1_000, *before, policy_made(text)))]

    confirmed = ruled(record, RulingVerb.CONFIRM)
    assert kept("all:60d") == kept("all:30d", confirmed) == [record["text"]]
    assert kept("all:30d") == kept("knowledge:30d") == []
    corrected = ruled(record, RulingVerb.CORRECT, value="Redshift")
    assert kept("all:30d", corrected) == ["Our warehouse is Redshift"]
    _, later = folded(*old, confirmed, policy_made("all:30d"), 31 * DAY_MS, tick)
    assert not holding(last(later, KNOWLEDGE))


def test_what_a_standing_ruling_rests_on_is_the_same_before_and_after_the_policy() -> None:
    def old(name: str) -> list[Json]:
        return [
            one | {"timestamp": format_ms((milliseconds(one["timestamp"]) or 0) - 40 * DAY_MS)}
            for one in said(name, "Our warehouse is Snowflake.", "Thanks.")
        ]

    (record,) = [one for one in known(*old("s1")) if "Snowflake" in one["text"]]
    begun = (*old("s1"), 1_000, ruled(record, RulingVerb.CONFIRM), 1_000)
    before, after = (
        [(one["text"], len(one["source_memory_ids"])) for one in holding(known(*begun, *steps))]
        for steps in (
            (*old("s2"), 1_000, policy_made("all:30d")),
            (policy_made("all:30d"), 1_000, *old("s2")),
        )
    )
    assert before == after == [(record["text"], 2)]


def test_a_ruling_that_is_too_old_when_it_comes_counts_for_nothing_whatever_came_before() -> None:
    statement = said("s1", "Our warehouse is Snowflake.", "Thanks.")
    (record,) = [one for one in known(*statement) if "Snowflake" in one["text"]]

    def late(offset: int, at: int) -> LogRecord:
        return replace(ruled(record, RulingVerb.RETRACT)(offset, at - 40 * DAY_MS), timestamp=START_MS + at)

    decided = (policy_made("all:30d"), 1_000, late, 1_000)
    for steps in ((*statement, 1_000, *decided), (*decided, *statement)):
        patterns = folded(*steps)[1]
        assert [one["text"] for one in holding(last(patterns, KNOWLEDGE))] == [record["text"]]
        assert patterns.counts["forgotten_by_age"] == 1
        assert not [key for key in patterns.state if key[0] == "d"]


def test_what_a_bound_has_dropped_is_found_by_the_retention_that_takes_its_session(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As by an erasure: each of these sessions was published once, and two are kept."""
    monkeypatch.setattr("hmx_pipeline.stages.pattern_state.PATTERN_CONTRIBUTIONS", 2)
    steps: list[Any] = []
    for n in range(8):
        (one,) = said(f"s{n}", f"Our warehouse is Quetzal{n}.", at=5 * n)
        at = (milliseconds(one["timestamp"]) or 0) - (40 * DAY_MS if n < 3 else 0)
        steps += [one | {"timestamp": format_ms(at)}, 1_000, lambda offset, at: barrier_record(at, 0, offset, f"b{at}")]
    assert "Quetzal0" in str(known(*steps))
    left = str(known(*steps, policy_made("all:30d"), 1_000))
    assert not [n for n in range(3) if f"Quetzal{n}" in left]


def test_the_archive_keeps_nothing_of_it() -> None:
    pytest.importorskip("pyarrow")
    from hmx_pipeline.store.archive_format import ArchivedRecord, remaining

    first, _ = learnt(interleaved(told(), 3), policy("all:30d"))
    rows = [
        ArchivedRecord(TopicRecord(o.topic, 0, n, o.key or b"", o.value, o.headers), START_MS)
        for n, o in enumerate(first.outputs)
        if o.topic in (EPISODES, EVIDENCE)
    ]
    left = remaining(rows, Erasures(marks(first)))
    assert 0 < len(left) < len(rows)
    assert not [row for row in left if OLD in repr(row.record.value)]
    assert len(left) + sum(OLD in repr(row.record.value) for row in rows) == len(rows)


@pytest.mark.parametrize(
    "text", ["all", "all:0d", "all:d", "all:9", "sessions:9d", "all:1d,all:2d", "all:1d,", " ", "a b:1d"]
)
def test_what_is_no_policy_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no policy|twice"):
        Retention.told("acme", text)


@given(
    st.dictionaries(st.sampled_from(["all", "x"]), st.integers(1, 100)), st.integers(0, 2**45), st.integers(0, 2**45)
)
def test_cuts_only_rise(days: dict[str, int], now: int, later: int) -> None:
    first, second = cuts_of(days, now), cuts_of(days, max(now, later))
    assert risen(first, second) == second
    assert all(not policy_of(first, at) or policy_of(second, at) for at in (0, now, *first.values()))


def test_a_policy_reads_as_it_is_written() -> None:
    assert str(Retention.told("acme", "tool_result:7d,all:90d,sessions:5000")) == "all:90d,tool_result:7d,sessions:5000"
