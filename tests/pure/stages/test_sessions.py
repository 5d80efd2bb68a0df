"""The sessions stage, outcome by outcome, on an injected clock."""

from itertools import permutations
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.episode import event_fields
from hmx_pipeline.contracts.evidence import Archive, EvidenceControl
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.keys import partition_of, tenant_partition
from hmx_pipeline.contracts.limits import RECENT_IDS, SEGMENT_IDLE_MS, SESSION_FORGOTTEN_MS, WAITING_EVENTS
from hmx_pipeline.contracts.rejections import NewerRecordError
from hmx_pipeline.contracts.retention import Retention
from hmx_pipeline.intake.control_records import archive, barrier, importing, rerouted_from, retaining
from hmx_pipeline.stages import segmenting, session_releasing
from hmx_pipeline.topology import EVIDENCE
from tests.support.evidence import gift_of
from tests.support.inprocess import Ran, barrier_record, run, sessions_fold, signed, tick_record
from tests.support.records import START_MS, LogRecord, event, log


def ran(*events: tuple[int, dict[str, Any] | bytes | None], after: list[LogRecord] | None = None) -> Ran:
    return run(sessions_fold, [*log(events), *(after or [])])


def reasons(result: Ran) -> list[tuple[str, str]]:
    return [
        ((header(o.headers, names.REASON) or b"").decode(), (header(o.headers, names.PATH) or b"").decode())
        for o in result.dead
    ]


def minted(sequence: int, name: str = "", **fields: Any) -> dict[str, Any]:
    """An event whose sequence says only in which order events came."""
    marked = {"metadata": {"x-hmx-sequence": "arrival"}, "event_id": name or f"m{sequence}", **fields}
    return event(sequence=sequence, **marked)


@pytest.mark.requirement("Y07")
@pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
def test_minted_sequences_go_out_as_they_come_and_what_is_counted_beside_them_keeps_its_order(strict: bool) -> None:
    sent = [
        (0, minted(7_000_000, at=START_MS)),
        (0, event(sequence=0, at=START_MS)),
        (1, event(sequence=2, at=START_MS)),
        (2, minted(9_000_000, at=START_MS + 2)),
        (3, minted(8_000_000, at=START_MS + 1)),
        (4, event(sequence=1, at=START_MS)),
        (5_005, event("other")),
    ]
    result = run(lambda: sessions_fold(strict=strict), log(sent))
    eager = ["m7000000", "s-0", "m9000000", "m8000000", "s-1", "s-2", "other-0"]
    assert result.released == (["m7000000", "m9000000", "m8000000", "s-0", "s-1", "s-2"] if strict else eager)
    assert "released_late" not in result.counts


@pytest.mark.requirement("Y07")
def test_a_minted_event_sent_again_is_the_same_though_its_sequence_and_time_are_not() -> None:
    first, again = (
        minted(sequence, "m", at=START_MS + after, content={"text": "hello"})
        for sequence, after in ((7_000_000, 0), (8_000_000, 60_000))
    )
    result = ran((0, first), (60_000, again), (60_001, {**again, "content": {"text": "other"}}))
    assert (result.released, result.counts["duplicate"]) == (["m"], 1)
    assert reasons(result) == [("event_id_reused", "$.event_id")]


@pytest.mark.requirement("Y07")
def test_a_minted_event_dated_a_window_before_the_newest_is_late() -> None:
    result = ran((0, minted(2, at=START_MS)), (1, minted(3, at=START_MS - 5_001)), (2, minted(4, at=START_MS - 5_000)))
    assert result.released == ["m2", "m3!", "m4"]


@pytest.mark.requirement("E-32", "X07")
def test_an_episode_gives_back_the_event_as_it_came() -> None:
    sent = event(metadata={"hmx": "mine", "n": 1.0}, tags=["a"], salience=0.5, content={"text": "ü", "big": 2**63})
    result = ran((0, sent))
    assert event_fields(result.episodes[0]) == sent
    assert [header(o.headers, names.ORIGIN_OFFSET) for o in result.on("hmx.episodes.v1")] == [b"0"]


@pytest.mark.requirement("E-24", "E-28")
def test_a_gap_that_is_filled_within_the_window_leaves_no_trace() -> None:
    result = ran((0, event(sequence=0)), (100, event(sequence=2)), (4_600, event(sequence=1)))
    assert result.released == ["s-0", "s-1", "s-2"]


@pytest.mark.requirement("E-28")
def test_a_gap_that_is_not_filled_is_left_after_the_window_and_its_event_is_late() -> None:
    result = ran((0, event(sequence=0)), (100, event(sequence=2)), (5_100, event(sequence=1)))
    assert result.released == ["s-0", "s-2", "s-1!"]
    assert result.counts["released_late"] == 1


def test_what_is_due_goes_out_with_all_that_sorts_before_it_and_what_follows() -> None:
    result = ran(
        (0, event(sequence=5)), (1_000, event(sequence=3)), (1_000, event(sequence=6)), (1_000, event(sequence=9)),
        (5_000, event("other")),
    )  # fmt: skip
    assert result.released == ["s-3", "s-5", "s-6", "other-0"]


@pytest.mark.requirement("E-08")
def test_a_session_that_starts_above_zero_waits_its_window_once() -> None:
    result = ran((0, event(sequence=7)), (10, event(sequence=8)), after=[tick_record(5_000, offset=2)])
    assert result.released == ["s-7", "s-8"]


@pytest.mark.requirement("E-25", "X04", "Y12")
def test_ties_are_appended_within_the_window_and_late_after_it() -> None:
    first, tie, late = (event(sequence=0, event_id=name) for name in ("a", "b", "c"))
    assert ran((0, first), (4_999, tie), (5_001, event("other")), (15_000, late)).released[:2] == ["a", "b"]
    assert ran((0, first), (5_000, {**late, "timestamp": first["timestamp"]})).released == ["a", "c!"]


@pytest.mark.requirement("Y11")
def test_a_counter_that_starts_over_opens_a_run_after_what_waits() -> None:
    again = event(sequence=0, event_id="again", at=START_MS + 60_000)
    result = ran((0, event(sequence=0)), (1, event(sequence=1)), (2, event(sequence=3)), (6, again))
    assert result.released == ["s-0", "s-1", "s-3", "again"]
    assert [e["metadata"]["hmx"]["release"]["run"] for e in result.episodes] == [0, 0, 0, 1]


RESTARTED = 60_000


def restarted(*sequences: int, at: int = 10_000) -> list[tuple[int, dict[str, Any]]]:
    """A run of five, and a second one whose events arrive in this order, a millisecond after one another."""
    old = [(n, event(sequence=n)) for n in range(5)]
    again = [(n, event(sequence=n, event_id=f"again-{n}", at=START_MS + RESTARTED + n)) for n in sequences]
    return [*old, *((at + place, item) for place, (_, item) in enumerate(again))]


OLD = [f"s-{n}" for n in range(5)]


@pytest.mark.requirement("Y11", "Y24")
@pytest.mark.parametrize("strict", [False, True], ids=["eager", "strict"])
@pytest.mark.parametrize("sequences", list(permutations(range(5)))[::7])
def test_a_restarted_session_is_put_in_order_whichever_of_its_events_comes_first(
    strict: bool, sequences: tuple[int, ...]
) -> None:
    records = [*log(restarted(*sequences)), tick_record(20_000, offset=10)]
    result = run(lambda: sessions_fold(strict=strict), records)
    assert result.released == [*OLD, *(f"again-{n}" for n in range(5))]
    assert [e["metadata"]["hmx"]["release"]["run"] for e in result.episodes] == [0] * 5 + [1] * 5


@pytest.mark.requirement("Y24")
def test_the_events_of_a_new_run_go_out_as_soon_as_its_beginning_has_come() -> None:
    assert ran(*restarted(1, 0, 2, 3, 4)).released == [*OLD, *(f"again-{n}" for n in range(5))]
    assert ran(*restarted(2, 1)).released == OLD


@pytest.mark.requirement("Y24", "Y11")
def test_where_no_beginning_comes_within_the_window_they_are_late_in_the_order_of_arrival() -> None:
    events = restarted(2, 1)
    assert ran(*events, after=[tick_record(14_999, offset=7)]).released == OLD
    assert ran(*events, after=[tick_record(15_000, offset=7)]).released == [*OLD, "again-2!"]
    assert ran(*events, after=[tick_record(15_001, offset=7)]).released == [*OLD, "again-2!", "again-1!"]


@pytest.mark.requirement("Y24")
def test_what_waits_for_a_beginning_holds_up_nothing_of_the_run_that_is_under_way() -> None:
    going_on = [(10_001, event(sequence=5)), (10_002, event(sequence=7)), (10_003, event(sequence=6))]
    assert ran(*restarted(1), *going_on).released == [*OLD, "s-5", "s-6", "s-7"]


@pytest.mark.requirement("Y24")
def test_an_event_that_is_dated_before_what_is_out_is_late_at_once() -> None:
    result = ran(*restarted(), (10_000, event(sequence=2, event_id="x", at=START_MS + 4_000)))
    assert result.released == [*OLD, "x!"]


@pytest.mark.requirement("Y13", "Y24")
def test_what_waits_for_a_beginning_is_recognised_when_it_comes_again() -> None:
    first, other = restarted(1)[-1][1], {**restarted(1)[-1][1], "content": {"other": 1}}
    result = ran(*restarted(1), (10_001, first), (10_002, other))
    assert (result.counts["duplicate"], result.counts["rejected.event_id_reused"]) == (1, 1)


@pytest.mark.requirement("Y13")
def test_the_same_event_twice_is_a_duplicate_whether_it_waits_or_is_out() -> None:
    waiting, out = event(sequence=2), event(sequence=0)
    result = ran((0, out), (1, out), (2, waiting), (3, waiting), after=[tick_record(6_000, offset=4)])
    assert result.released == ["s-0", "s-2"]
    assert result.counts["duplicate"] == 2


@pytest.mark.requirement("Y13")
def test_one_and_one_point_nought_are_the_same_event_and_other_content_is_not() -> None:
    result = ran((0, event(content={"n": 1})), (1, event(content={"n": 1.0})), (2, event(content={"n": 2})))
    assert result.counts["duplicate"] == 1
    assert reasons(result) == [("event_id_reused", "$.event_id")]


def test_what_falls_out_of_the_remembered_ids_is_late() -> None:
    events = [(n, event(sequence=n)) for n in range(RECENT_IDS + 600)]
    result = ran(*events, (9_000, event(sequence=0)))
    assert result.counts["released_late"] == 1


@pytest.mark.requirement("E-05")
def test_ids_are_opaque_and_sessions_stay_apart() -> None:
    twins = [
        event("c", tenant_id="a/b", event_id="1"), event("b/c", tenant_id="a", event_id="2"),
        event("\u00e9", event_id="3"), event("e\u0301", event_id="4"), event("x\n🙂/%2F", event_id="5/🙂"),
    ]  # fmt: skip
    result = ran(*((n, twin) for n, twin in enumerate(twins)), after=[tick_record(1, offset=5)])
    assert result.released == ["1", "2", "3", "4", "5/🙂"]
    assert len({key for key in result.state if key.startswith("s/")}) == 5


def test_a_dead_letter_keeps_key_value_and_headers_and_says_why() -> None:
    record = LogRecord(0, 9, START_MS, b"\xffkey", b"\xff\xfe", [("mine", b"1"), (names.REASON, b"forged")])
    letter = run(sessions_fold, [record]).dead[0]
    assert (letter.key, letter.value, list(letter.headers)[:2]) == (record.key, record.value, record.headers)
    assert header(letter.headers, names.REASON) == b"not_utf8"
    assert header(letter.headers, names.STEP) == b"decode"
    assert header(letter.headers, names.ORIGIN_OFFSET) == b"9"
    assert header(letter.headers, names.LOG_TIME) == b"%d" % START_MS


@pytest.mark.requirement("X01", "Y15")
def test_control_records_need_our_signature() -> None:
    forged = barrier("b", 0, START_MS)
    result = ran((0, forged), (0, event(tenant_id="_hmx")), (0, event(event_type="x-hmx-other")))
    assert reasons(result) == [("reserved", "$.tenant_id"), ("reserved", "$.tenant_id"), ("reserved", "$.event_type")]
    assert not result.on(EVIDENCE)


@pytest.mark.requirement("Y15")
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"x-hmx-tenant"', b'"x-hmx-later"'),
        (b'"retention":{', b'"retention":{"later":1,'),
        (b'"retention":{', b'"later":1,"none":{'),
    ],
)
def test_what_a_newer_release_asks_for_is_neither_done_nor_rejected(old: bytes, new: bytes) -> None:
    asked = retaining(Retention.told("acme", "all:30d"), 0, START_MS).replace(old, new)
    with pytest.raises(NewerRecordError, match="later"):
        run(lambda: sessions_fold(1, 64), [signed(asked, 0, 3, 0)])
    assert reasons(ran((0, asked))) == [("reserved", "$.tenant_id")], "without our signature it is nobody's"


@pytest.mark.requirement("A-19", "Y15")
def test_what_an_operator_decides_is_passed_on_to_the_evidence_of_its_tenant() -> None:
    decided = Archive(tenant_id="acme", pattern="task_schema/deploy", artifact_id="a-1", reason="password=hunter22")
    value = archive(decided, 0, START_MS)
    assert reasons(ran((0, value))) == [("reserved", "$.tenant_id")]
    result = run(lambda: sessions_fold(1, 64), [signed(value, 0, 3, 0)])
    (passed,) = result.on(EVIDENCE)
    assert passed.partition == tenant_partition("acme", 64)
    assert (passed.key, header(passed.headers, names.KIND)) == (b"acme/task_schema%2Fdeploy", b"archive")
    said = EvidenceControl.model_validate_json(passed.value or b"")
    assert said.archived == decided.model_copy(update={"reason": "password=[REDACTED]"})
    assert result.counts == {"control": 1}


@pytest.mark.requirement("F-03", "R-12", "Y15")
def test_what_an_operator_imports_is_passed_on_to_the_evidence_of_its_tenant_without_secrets() -> None:
    content = {"steps": [], "note": "password=hunter22"}
    value = importing(gift_of("x-acme-runbook/failover", content=content), 0, START_MS)
    assert reasons(ran((0, value))) == [("reserved", "$.tenant_id")]
    (passed,) = run(lambda: sessions_fold(1, 64), [signed(value, 0, 3, 0)]).on(EVIDENCE)
    assert passed.partition == tenant_partition("acme", 64)
    assert (passed.key, header(passed.headers, names.KIND)) == (b"acme/x-acme-runbook%2Ffailover", b"import")
    said = EvidenceControl.model_validate_json(passed.value or b"").imported or {}
    assert said["content"] == {"steps": [], "note": "password=[REDACTED]"}


def astray(headers: list[tuple[str, bytes]] | None = None) -> LogRecord:
    """An event of `acme/s` in partition 0, where of 64 it does not belong."""
    return LogRecord(0, 7, START_MS, b"any", orjson.dumps(event()), headers or [("mine", b"1")])


def many_partitions() -> Any:
    return sessions_fold(partitions=64)


@pytest.mark.requirement("Y14")
def test_a_record_of_another_partition_is_appended_once_to_its_own_and_names_where_it_stood() -> None:
    result = run(many_partitions, [astray()])
    assert (result.counts, result.outputs) == ({"rerouted": 1}, [])
    (copy,) = result.appends
    assert (copy.topic, copy.partition) == ("hmx.events.v1", partition_of("acme/s", 64))
    assert (copy.key, copy.value) == (b"acme/s", astray().value)
    assert next(iter(copy.headers)) == ("mine", b"1")
    assert rerouted_from(copy.headers) == (0, 7)
    arrived = LogRecord(copy.partition, 3, START_MS, copy.key, copy.value, copy.headers)
    twice = LogRecord(copy.partition, 4, START_MS, copy.key, copy.value, copy.headers)
    there = run(many_partitions, [arrived, twice])
    assert there.released == ["s-0"]
    assert there.counts["duplicate"] == 1


@pytest.mark.requirement("Y14")
def test_a_copy_that_is_astray_again_is_rejected() -> None:
    (copy,) = run(many_partitions, [astray()]).appends
    again = run(many_partitions, [astray(list(copy.headers))])
    assert reasons(again) == [("wrong_partition", "$")]
    assert not again.appends


def test_who_forges_a_copys_header_is_found_out_in_any_partition() -> None:
    (copy,) = run(many_partitions, [astray()]).appends
    for forged in (b"0:7", b"", b"0:7:00", dict(copy.headers)["hmx-rerouted-from"].replace(b"0:7", b"0:8")):
        result = run(many_partitions, [astray([("hmx-rerouted-from", forged)])])
        assert reasons(result) == [("forged_origin", "$")]
    stolen = LogRecord(0, 0, START_MS, b"k", orjson.dumps(event("other")), copy.headers)
    assert reasons(run(sessions_fold, [stolen])) == [("forged_origin", "$")]


def strictly(*events: tuple[int, dict[str, Any]], after: list[LogRecord] | None = None) -> Ran:
    return run(lambda: sessions_fold(strict=True), [*log(events), *(after or [])])


@pytest.mark.requirement("E-24", "E-25", "E-28", "X04")
def test_strictly_everything_waits_its_window_and_ties_come_out_by_timestamp() -> None:
    early = event(sequence=1, event_id="early", at=START_MS + 500)
    late = event(sequence=1, event_id="late", at=START_MS + 900)
    events = [(0, event(sequence=0)), (10, late), (20, early), (30, event(sequence=2))]
    assert strictly(*events).released == []
    assert strictly(*events, after=[tick_record(5_010, offset=4)]).released == ["s-0", "early", "late"]
    assert strictly(*events, after=[tick_record(5_030, offset=4)]).released == ["s-0", "early", "late", "s-2"]


def test_strictly_what_sorts_before_something_released_is_late_and_a_later_tie_is_not() -> None:
    first = event(sequence=0, event_id="b", at=START_MS + 500)
    before = event(sequence=0, event_id="a", at=START_MS + 400)
    after = event(sequence=0, event_id="c", at=START_MS + 500)
    result = strictly((0, first), (5_000, before), (5_000, after), after=[tick_record(10_000, offset=3)])
    assert result.released == ["b", "a!", "c"]


def test_strictly_a_counter_that_starts_over_waits_in_its_new_run() -> None:
    again = event(sequence=0, event_id="again", at=START_MS + 60_000)
    result = strictly((0, event(sequence=0)), (5_000, again), after=[tick_record(10_000, offset=2)])
    assert result.released == ["s-0", "again"]
    assert [e["metadata"]["hmx"]["release"]["run"] for e in result.episodes] == [0, 1]


def test_a_barrier_waits_for_what_is_held_before_it_and_goes_to_every_evidence_partition() -> None:
    def fold() -> Any:
        return sessions_fold(evidence_partitions=3)

    free = run(fold, [*log([(0, event())]), barrier_record(1, offset=1)])
    assert [o.partition for o in free.on(EVIDENCE) if b"barrier" in (o.key or b"")] == [0, 1, 2]
    held = [*log([(0, event(sequence=1))]), barrier_record(1, offset=1)]
    assert not run(fold, held).on(EVIDENCE)
    passed = run(fold, [*held, tick_record(5_001, offset=2)])
    assert len(passed.on(EVIDENCE)) == 3
    assert passed.released == ["s-1"]


def conversation(session: str = "s", outcome: str = "positive") -> list[dict[str, Any]]:
    """A user's wish, two tools, and how it went."""
    said: list[tuple[str, dict[str, Any]]] = [
        ("message", {"role": "user", "text": "Please deploy the payments service to staging"}),
        ("tool_call", {"tool_name": "build_image", "arguments": {"service": "payments"}, "call_id": "1"}),
        ("tool_result", {"tool_name": "build_image", "call_id": "1", "success": True}),
        ("tool_call", {"tool_name": "apply_manifest", "arguments": {"env": "staging"}, "call_id": "2"}),
        ("tool_result", {"tool_name": "apply_manifest", "call_id": "2", "success": True}),
        ("message", {"role": "assistant", "text": "Deployed."}),
    ]
    events = [event(session, n, event_type=kind, content=content) for n, (kind, content) in enumerate(said)]
    feedback = {"signal": outcome, "target_event_id": f"{session}-5"}
    return [*events, event(session, len(said), event_type="feedback", content=feedback)]


def stamped(events: list[dict[str, Any]], at: int = 0) -> list[tuple[int, dict[str, Any]]]:
    return [(at + n, item) for n, item in enumerate(events)]


def outcomes(result: Ran) -> list[str]:
    return [c["outcome"] for c in result.contributions if c["pattern_type"] == "run"]


def test_an_open_segment_contributes_at_a_barrier_and_not_again_unchanged() -> None:
    events = stamped(conversation())
    barriers = [barrier_record(50, offset=7, barrier_id="1"), barrier_record(60, offset=8, barrier_id="2")]
    assert outcomes(ran(*events, after=barriers)) == ["success"]


def test_an_idle_segment_contributes_on_the_partitions_clock() -> None:
    events = stamped(conversation())
    assert outcomes(ran(*events, after=[tick_record(SEGMENT_IDLE_MS, offset=7)])) == []
    assert outcomes(ran(*events, after=[tick_record(SEGMENT_IDLE_MS + 10, offset=7)])) == ["success"]


def test_late_feedback_makes_a_closed_segment_speak_again() -> None:
    first = conversation()[:-1]
    later = event("s", 6, at=START_MS + 3_600_000, content={"role": "user", "text": "Now roll back the search service"})
    verdict = event(
        "s", 7, at=START_MS + 3_601_000, event_type="feedback", content={"signal": "negative", "target_event_id": "s-5"}
    )
    result = ran(*stamped(first), (3_600_000, later), (3_601_000, verdict))
    spoken = [c for c in result.contributions if c["segment_id"] == "s-0" and c["pattern_type"] == "run"]
    assert [c["outcome"] for c in spoken] == ["success", "failure"]
    assert len({c["contribution_id"] for c in spoken}) == 1


def test_late_events_are_kept_out_of_segments() -> None:
    first, missing, *rest = conversation()
    result = ran((0, first), *((n + 1, e) for n, e in enumerate(rest)), (6_000, missing), (6_001, event("z")))
    assert [trace.step is None for trace in result.journals["acme/s"].items(0)] == [False] * 6 + [True]


def test_a_forgotten_session_leaves_no_state_and_comes_back_as_new() -> None:
    events = stamped(conversation())
    gone = ran(*events, after=[tick_record(SESSION_FORGOTTEN_MS + 10, offset=7)])
    assert gone.state == {}
    assert gone.counts["session_forgotten"] == 1
    back = ran(
        *events, (SESSION_FORGOTTEN_MS + 10, event(sequence=7)), after=[tick_record(SESSION_FORGOTTEN_MS + 5_010)]
    )
    assert back.released[-1] == "s-7"


def test_a_full_window_closes_its_oldest_gap() -> None:
    events = [(0, event(sequence=2 * n + 1)) for n in range(WAITING_EVENTS + 1)]
    result = ran(*events)
    assert result.released == ["s-1"]
    assert result.counts["window_full"] == 1


def test_state_of_a_long_session_stays_bounded() -> None:
    small = len(ran(*((n, event(sequence=n)) for n in range(1_500))).state)
    large = len(ran(*((n, event(sequence=n)) for n in range(3_000))).state)
    assert large <= small + 512


@pytest.mark.requirement("R-12")
def test_secrets_do_not_pass_intake() -> None:
    canary = "sk-live-0123456789abcdefABCDEF0123456789"
    sent = event(content={"text": f"key {canary}", "password": "hunter2"}, metadata={"token": "t0p"})
    result = ran((0, sent), after=[barrier_record(1, offset=1)])
    written = b"".join(o.value or b"" for o in result.outputs) + orjson.dumps(str(result.state))
    assert all(secret.encode() not in written for secret in (canary, "hunter2", "t0p"))


def test_content_that_mining_cannot_take_is_released_all_the_same_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    def hostile(*_: Any) -> Any:
        raise IndexError("content that nobody thought of")

    monkeypatch.setattr(session_releasing, "step_of", hostile)
    unseen = ran(*stamped(conversation()), after=[barrier_record(50, offset=7)])
    assert (len(unseen.released), unseen.counts["step_not_mined"]) == (7, 7)
    monkeypatch.undo()
    monkeypatch.setattr(segmenting, "contributions", hostile)
    unsaid = ran(*stamped(conversation()), after=[tick_record(SEGMENT_IDLE_MS + 10, offset=7)])
    assert (len(unsaid.released), unsaid.counts["segment_not_mined"]) == (7, 1)
    assert not unsaid.contributions
