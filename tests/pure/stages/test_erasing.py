"""What operators erase leaves the state of both stages, whenever it comes, and what is late of it is turned away."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.compiler.registry import KINDS
from hmx_pipeline.contracts.erasure import ErasedScope, Erasure, ErasureMark, mark_of
from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl
from hmx_pipeline.contracts.headers import KIND, REASON, header, origin_of
from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.intake.control_records import erase
from hmx_pipeline.queries.knowledge_query import RulingRequest, make_ruling
from hmx_pipeline.stages import pattern_compiling
from hmx_pipeline.stages.erased_evidence import ErasedEvidence
from hmx_pipeline.stages.fold import attempt
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.stages.segmenting import SEGMENT_IDLE_MS
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS, ERASURES, EVENTS_DLQ, EVIDENCE, KNOWLEDGE
from tests.support.evidence import control, evidence, records
from tests.support.inprocess import Ran, barrier_record, law_five, run, sessions_fold, signed
from tests.support.records import START_MS, LogRecord, log
from tests.support.runs import run as task_run
from tests.support.sessions import interleaved, session

Json = dict[str, Any]
NOW = START_MS + 1_000_000_000
"""After all events of the sessions here."""
GONE = "session-1"


def erasure(scope: ErasedScope = ErasedScope.SESSION, name: str = GONE, **more: Any) -> Erasure:
    return Erasure(erasure_id="e-1", tenant_id="acme", scope=scope, name=name, at=NOW, **more)


def events(subject: bool = False) -> list[Json]:
    """Three sessions; with `subject`, the second of one names its person in its third event only."""
    mixed = interleaved([session(n) for n in range(3)], 7)
    if subject:
        third = [one for one in mixed if one["session_id"] == GONE][2]
        third["metadata"] = {"subject_id": "ada"}
    return mixed


def placed(records: Sequence[LogRecord]) -> list[LogRecord]:
    return [replace(record, offset=n, timestamp=START_MS + 10 * n) for n, record in enumerate(records)]


def with_erasure(told: Sequence[Json], at: int, asked: Erasure) -> list[LogRecord]:
    records = log(list(enumerate(told)))
    records.insert(at, signed(erase(asked, 0), 0, 0, 0))
    return placed([*records, barrier_record(0, offset=0)])


def of_others(result: Ran) -> list[tuple[str, bytes | None]]:
    return [
        (episode["id"], episode["payload"].get("text")) for episode in result.episodes if episode["sessionId"] != GONE
    ]


def letters(result: Ran) -> list[tuple[bytes | None, bytes | None, bytes | None]]:
    return [(header(one.headers, REASON), one.key, one.value) for one in result.on(EVENTS_DLQ)]


@settings(max_examples=20)
@given(at=st.integers(0, 40))
def test_whenever_a_session_is_erased_it_leaves_the_state_and_what_is_late_of_it_has_no_bytes(at: int) -> None:
    told = events()
    at = min(at, len(told))
    records = with_erasure(told, at, erasure())
    result = run(sessions_fold, records, cut=lambda _: 1, restores=True)
    assert result.outputs == run(sessions_fold, records).outputs
    assert not [key for key in [*result.state, *result.journals] if GONE in key and not key.startswith("x/")]
    late = sum(one["session_id"] == GONE for one in told[at:])
    assert letters(result) == [(b"erased", None, None)] * late
    assert of_others(result) == of_others(run(sessions_fold, with_erasure(told, at, erasure(name="nothing"))))
    outcomes = ("released", "released_late", "duplicate", "rejected", "rerouted", "control")
    assert sum(result.counts.get(name, 0) for name in outcomes) == len(records)


def test_what_waits_behind_a_gap_is_turned_away_with_its_session() -> None:
    told = [one for one in events() if one["session_id"] == GONE]
    records = with_erasure([told[0], *told[2:5]], 4, erasure())
    result = run(sessions_fold, records)
    assert letters(result) == [(b"erased", None, None)] * 3
    assert result.counts["released"] == 1


def test_an_erased_subject_takes_its_sessions_along_and_a_later_session_stays() -> None:
    told = events(subject=True)
    asked = erasure(ErasedScope.SUBJECT, "ada", sessions=[mark_of("acme", ErasedScope.SESSION, "known-before")])
    later = [one | {"timestamp": "2099-01-01T00:00:00.000Z", "session_id": "new"} for one in told[:3]]
    old = told[3] | {"session_id": "known-before", "event_id": "late", "sequence": 0}
    records = placed([*with_erasure(told, len(told), asked), *log(list(enumerate([*later, old])))])
    result = run(sessions_fold, records)
    assert result.counts["erased_session"] == 1
    assert letters(result) == [(b"erased", None, None)]
    assert {e["sessionId"] for e in result.episodes[len(told) :]} == {"new"}
    (output,) = result.on(ERASURES)
    mark = ErasureMark.model_validate_json(output.value or b"")
    wanted = {mark_of("acme", ErasedScope.SESSION, name) for name in (GONE, "known-before")}
    assert set(mark.marks) == wanted | {mark_of("acme", ErasedScope.SUBJECT, "ada")}
    assert mark.before == len(told)
    assert b"ada" not in (output.key or b"") + (output.value or b"")


def test_a_tenants_erasure_does_not_touch_another() -> None:
    told = [*session(1), *session(2, "other")]
    result = run(sessions_fold, with_erasure(told, len(told), erasure(ErasedScope.TENANT, "")))
    assert not [key for key in result.state if "acme" in key and not key.startswith("x/")]
    assert [key for key in result.state if key.startswith("s/other/")]


def test_what_contributes_by_the_time_of_the_erasure_itself_is_erased_wherever_it_stands() -> None:
    told = [one for one in events() if one["session_id"] == GONE]
    before = placed(log(list(enumerate(told))))
    late = signed(erase(erasure(), 0), 0, len(told), 10 * len(told) + SEGMENT_IDLE_MS)
    result = run(sessions_fold, [*before, late])
    (output,) = result.on(ERASURES)
    erased = Erasures([ErasureMark.model_validate_json(output.value or b"")])
    contributed = [one for one in result.on(EVIDENCE) if header(one.headers, KIND) == b"contribution"]
    assert {origin_of(one.headers) for one in contributed} == {(0, len(told))}, "by the erasure's time"
    kept = [TopicRecord(EVIDENCE, 0, n, one.key or b"", one.value, one.headers) for n, one in enumerate(contributed)]
    assert all(map(erased.hides, kept))


def test_erasures_need_our_signature() -> None:
    forged = LogRecord(0, 0, START_MS, b"k", erase(erasure(), 0), [])
    result = run(sessions_fold, placed([*log(list(enumerate(session(1)))), forged]))
    assert [reason for reason, *_ in letters(result)] == [b"reserved"]
    assert [key for key in result.state if GONE in key]


# patterns


def erased_record(name: str, scope: ErasedScope = ErasedScope.SESSION) -> LogRecord:
    mark = ErasureMark(
        erasure_id="e-1", tenant_id="acme", at=NOW, marks=[mark_of("acme", scope, name)], partition=0, before=9
    )
    value = EvidenceControl(kind="erasure", erased=mark).to_json()
    return LogRecord(0, 0, START_MS, b"erasure", value, [(KIND, b"erasure")])


def standing(result: Ran, topic: str) -> dict[bytes, Json]:
    """What a compacted topic holds in the end."""
    last: dict[bytes, Json] = {}
    for output in result.on(topic):
        last.pop(output.key or b"", None)
        if output.value is not None:
            last[output.key or b""] = orjson.loads(output.value)
    return last


def without(session_id: str) -> list[LogRecord]:
    return [r for r in evidence() if orjson.loads(r.value or b"").get("session_id") != session_id]


@cache
def never() -> Ran:
    """What a session leaves that never was."""
    return run(PatternsFold, spoken(without("session-3")))


def spoken(records: Sequence[LogRecord], *places: int) -> list[LogRecord]:
    """With barriers at these places and at the end."""
    log = list(records)
    for place in sorted(places, reverse=True):
        log.insert(place, control("barrier", 0, 0))
    paced = [replace(record, offset=n, timestamp=START_MS + 20_000 * n) for n, record in enumerate(log)]
    return [*paced, control("barrier", 20_000 * (len(paced) + 60), len(paced))]


@settings(max_examples=8)
@given(place=st.integers(0, 200), talk=st.lists(st.integers(0, 200), max_size=3))
def test_after_an_erasure_memory_is_as_if_its_session_had_never_been(place: int, talk: list[int]) -> None:
    told = evidence()
    own = [n for n, r in enumerate(told) if orjson.loads(r.value or b"").get("session_id") == "session-3"]
    log = list(told)
    log.insert(max(place, own[-1] + 1), erased_record("session-3"))
    result = run(PatternsFold, spoken(log, *talk))
    clean = never()
    assert not [key for key in result.state if key.startswith("m/") and "session-3" in key]
    assert "session-3" not in repr([v for k, v in result.state.items() if k.startswith("p/")])
    live = [a for a in standing(result, ARTIFACTS).values() if a["status"] in ("active", "draft")]
    wanted = [a for a in standing(clean, ARTIFACTS).values() if a["status"] in ("active", "draft")]
    assert law_five(live) == law_five(wanted)
    assert standing(result, KNOWLEDGE) == standing(clean, KNOWLEDGE)


def test_no_older_version_that_rested_on_it_stays_in_the_topic() -> None:
    told = evidence()
    own = {
        e
        for r in told
        for f in [orjson.loads(r.value or b"")]
        if f.get("session_id") == "session-3"
        for e in f["source_events"]
    }
    result = run(PatternsFold, spoken([*told, erased_record("session-3")], 40, 80, len(told)))
    for topic in (ARTIFACTS, KNOWLEDGE):
        assert not [one for one in standing(result, topic).values() if not own.isdisjoint(one["source_events"])]
    assert result.counts["erased_contribution"] > 0
    assert result.counts["artifact_erased"] > 0


def test_no_older_version_stays_though_the_newest_did_not_rest_on_it_any_more() -> None:
    """It was withdrawn before it was erased, so what its pattern is made of is the same before and after."""
    told = evidence()
    own = [record for record in told if orjson.loads(record.value or b"").get("session_id") == "session-3"]
    events = {event for record in own for event in orjson.loads(record.value or b"")["source_events"]}
    withdrawn = [replace(r, value=orjson.dumps(orjson.loads(r.value or b"") | {"withdrawn": True})) for r in own]
    log = [*told, *withdrawn, erased_record("session-3")]
    result = run(PatternsFold, spoken(log, len(told), len(told) + len(withdrawn)))
    for topic in (ARTIFACTS, KNOWLEDGE):
        assert not [one for one in standing(result, topic).values() if not events.isdisjoint(one["source_events"])]


def test_where_the_runs_that_are_left_cannot_be_grouped_nothing_stays_of_an_erased_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told, group = evidence(), KINDS["run"].group
    own = [one for r in told if (one := orjson.loads(r.value or b"")).get("session_id") == "session-3"]
    events = {event for one in own for event in one["source_events"]}
    assert events

    def hostile(*_: Any) -> Any:
        raise IndexError("content that nobody thought of")

    def attempted(tx: Any, count: str, otherwise: Any, compute: Any, *args: Any, **named: Any) -> Any:
        fails = compute is group and "session-3" not in {each.session_id for each in args[0]}
        return attempt(tx, count, otherwise, hostile if fails else compute, *args, **named)

    monkeypatch.setattr(pattern_compiling, "attempt", attempted)
    log = [*told, erased_record("session-3")]
    before = standing(run(PatternsFold, spoken(told, len(told))), ARTIFACTS)
    assert [one for one in before.values() if not events.isdisjoint(one["source_events"])]
    result = run(PatternsFold, spoken(log, len(told)))
    assert result.counts["pattern_not_compiled"]
    assert not [one for one in standing(result, ARTIFACTS).values() if not events.isdisjoint(one["source_events"])]


def test_a_whole_tenant_leaves_nothing_in_state_and_topics() -> None:
    result = run(PatternsFold, spoken([*evidence(), erased_record("", ErasedScope.TENANT)], 100))
    assert not standing(result, ARTIFACTS)
    assert not standing(result, KNOWLEDGE)
    assert {key[0] for key in result.state} <= {"b", "x"}  # x/ holds times


def test_evidence_of_an_erasure_names_no_person() -> None:
    asked = erasure(ErasedScope.SUBJECT, "ada")
    result = run(sessions_fold, with_erasure(events(), 3, asked))
    assert not [output for output in result.on(EVIDENCE) if b'"ada"' in (output.value or b"")]


def test_an_erasure_in_the_state_of_the_release_before_is_read() -> None:
    known = PatternsFold().decode("x/acme/e-1", b'{"at":1,"forget_at":2,"memories":["c"]}')
    assert (known.at, known.forget_at, known.marks, known.elsewhere) == (1, 2, (), False)


HOME = tenant_partition("acme", 64)
OTHERS = [n for n in range(64) if n != HOME]
OWN, FURTHER, LAST = (mark_of("acme", ErasedScope.SESSION, name) for name in (GONE, "another", "one more"))


def told(offset: int, partition: int, *marks: str) -> LogRecord:
    """What one of 64 partitions tells of an erasure."""
    mark = ErasureMark(
        erasure_id="e", tenant_id="acme", at=START_MS, partition=partition, before=7, marks=sorted(marks)
    )
    value = EvidenceControl(kind="erasure", partition=partition, partitions=64, erased=mark).to_json()
    return LogRecord(0, offset, START_MS, b"erasure", value, [(KIND, b"erasure")])


def told_of(offset: int, sessions: Sequence[str], partition: int) -> LogRecord:
    return told(offset, partition, *sessions)


def remembered(log: Sequence[LogRecord]) -> dict[str, set[str]]:
    state = run(PatternsFold, log).state
    return {key: set(value.marks) for key, value in state.items() if key[0] == "x"}


def test_an_erasure_is_remembered_once_however_many_partitions_tell_of_it() -> None:
    """Each tells the same, but for the sessions that it alone knew."""
    of_others = [told(n, one, OWN, *([FURTHER] if n == 9 else [])) for n, one in enumerate(OTHERS, 1)]
    assert remembered([told(0, HOME, OWN), *of_others]) == {
        f"x/acme/e/{HOME}": {OWN},
        f"x/acme/e/{OTHERS[8]}": {FURTHER},
    }


def test_a_partition_that_tells_more_of_an_erasure_takes_nothing_back() -> None:
    twice = [told(1, OTHERS[0], OWN, FURTHER), told(2, OTHERS[0], OWN, FURTHER, LAST)]
    assert remembered([told(0, HOME, OWN), *twice]) == {
        f"x/acme/e/{HOME}": {OWN},
        f"x/acme/e/{OTHERS[0]}": {FURTHER, LAST},
    }


def test_what_partitions_tell_again_of_an_erasure_looks_at_no_ruling(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []
    monkeypatch.setattr(ErasedEvidence, "left_after", lambda *about: looked.append(about) or about[1])
    past, counts = evidence(), []
    again = [told(n, one, OWN) for n, one in enumerate(OTHERS, len(past) + 1)]
    for others in ([], again):
        looked.clear()
        run(PatternsFold, [*past, told(len(past), HOME, OWN), *others])
        counts.append(len(looked))
    assert counts[0] == counts[1] > 0


def tills() -> list[Contribution]:
    """Three subjects run the same task, each with a value of its own."""
    lines = ("cash peek b{n}", "cash book b{n} --till till-{whose}")
    return [
        task_run(n, [line.format(n=n, whose=whose) for line in lines], f"Book b{n} on my till", subject=whose)
        for n, whose in enumerate(["oak", "fir", "rowan"] * 3)
    ]


def own_value(whose: str) -> Json:
    """The record of a subject's value, in the task's pattern, which is the tenant's."""
    past = records(tills())
    ran = run(PatternsFold, [*past, control("barrier", 1_000, len(past))])
    values = [orjson.loads(one.value or b"") for one in ran.on(KNOWLEDGE)]
    return next(one for one in values if one["subject_id"] == whose)


def ruled(n: int, decided: Ruling) -> LogRecord:
    value = EvidenceControl(kind="ruling", ruled=decided.model_dump(mode="json", exclude_none=True)).to_json()
    return LogRecord(0, n, START_MS + 2_000, b"ruling", value, [(KIND, b"ruling")])


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (RulingVerb.CONFIRM, RulingRequest(reason="I am Rowan")),
        (RulingVerb.CORRECT, RulingRequest(value="till-elm", reason="I am Rowan")),
        (RulingVerb.RETRACT, RulingRequest(reason="I am Rowan")),
    ],
)
@pytest.mark.parametrize("erased_first", [False, True], ids=["ruled, erased", "erased, ruled"])
def test_what_the_erased_decided_on_their_own_value_of_a_task_goes_with_them(
    verb: RulingVerb, words: RulingRequest, erased_first: bool
) -> None:
    """The task's pattern is the tenant's, and what others run of it stays."""
    past, sources = records(tills()), [orjson.loads(one.to_json()) for one in tills()]
    spoken_out = [*past, control("barrier", 1_000, len(past))]
    decided = make_ruling(own_value("rowan"), verb, words, START_MS, "rowan", sources=sources)
    mark = mark_of("acme", ErasedScope.SUBJECT, "rowan")
    later: list[Callable[[int], LogRecord]] = [lambda n: ruled(n, decided), lambda n: told(n, HOME, mark)]
    log = [*spoken_out, *(made(len(spoken_out) + n) for n, made in enumerate(later[::-1] if erased_first else later))]
    whole = [told(len(log) + n, one, mark) for n, one in enumerate(OTHERS)]
    state = run(PatternsFold, [*log, *whole, control("barrier", 3_000, len(log) + len(whole))]).state
    left = "".join(value.to_json().decode() for key, value in state.items() if key[0] == "p")
    assert "till-oak" in left
    assert not re.search("rowan", left, re.IGNORECASE)


def test_what_the_erased_decided_on_their_own_value_of_a_task_that_is_gone_goes_with_them_and_others_stays() -> None:
    rowan, fir = (
        make_ruling(own_value(whose), RulingVerb.RETRACT, RulingRequest(), START_MS, whose)
        for whose in ("rowan", "fir")
    )
    sessions = [mark_of("acme", ErasedScope.SESSION, one.session_id) for one in tills()]
    past: list[LogRecord] = [*records(tills()), control("barrier", 1_000, 9)]

    def further(*made: Callable[[int], LogRecord]) -> list[LogRecord]:
        return [one(len(past) + n) for n, one in enumerate(made)]

    past += further(lambda n: ruled(n, rowan), lambda n: ruled(n, fir), lambda n: control("barrier", 2_000, n))
    past += further(*(partial(told_of, sessions=sessions, partition=one) for one in (HOME, *OTHERS)))
    past += further(lambda n: control("barrier", 900_000, n))
    assert {key[0] for key in run(PatternsFold, past).state} & {"p", "d"} == {"d"}

    def decided(*erased: str) -> list[str]:
        marks = [mark_of("acme", ErasedScope.SUBJECT, whose) for whose in erased]
        log = [*past, *(told(len(past) + n, HOME, mark) for n, mark in enumerate(marks))]
        log += [replace(one, offset=len(log) + n) for n, one in enumerate(records(tills()))]
        state = run(PatternsFold, [*log, control("barrier", 1_800_000, len(log))]).state
        return [each.subject for key, one in state.items() if key[0] == "p" for each in one.rulings]

    assert decided() == ["rowan", "fir"]
    assert decided("rowan") == ["fir"]
    assert decided("rowan", "fir") == []
