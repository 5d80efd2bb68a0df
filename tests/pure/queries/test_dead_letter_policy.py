"""Sending dead letters back: what would be accepted now, once, with its bytes, its session's key and its origin."""

from typing import Any

import pytest

from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.headers import header
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.queries.dead_letter_policy import (
    JudgedLetter,
    LetterFilter,
    ReplayDecision,
    judge,
    returned,
    sent_before,
)
from hmx_pipeline.stages.dead_letters import dead_letter
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ
from tests.support.events import encoded, event
from tests.support.inprocess import run, sessions_fold, tick_record
from tests.support.records import START_MS, LogRecord

EVENT = encoded(event(tenant_id="a/b", session_id="s"))
PARTITIONS = 8
THEIRS = [
    *[("ce_id", b"their own"), ("traceparent", b"00-1"), ("ce_source", b"/their/own")],
    (names.AGENT_UNPROVEN, b"true"),
]


def letter(value: bytes | None, reason: Reason, offset: int = 5, **fields: Any) -> LogRecord:
    record = LogRecord(2, 17, START_MS, value=value, **fields)
    made = dead_letter(EVENTS, EVENTS_DLQ, record, Rejection(reason))
    return LogRecord(2, offset, START_MS + 1, made.key, made.value, made.headers)


def fate(of: LogRecord, **asked: Any) -> ReplayDecision:
    return judge(of, LetterFilter(**asked), ()).fate


@pytest.mark.parametrize("reason", [Reason.WRONG_PARTITION, Reason.FORGED_ORIGIN, Reason.TOO_DEEP])
def test_what_would_be_accepted_now_goes_back(reason: Reason) -> None:
    assert fate(letter(EVENT, reason)) is ReplayDecision.SEND


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"no JSON", Reason.NOT_JSON),
        (None, Reason.NULL_VALUE),
        (encoded(event(sequence=-1)), Reason.BAD_SEQUENCE),
        (tick_record(0).value, Reason.RESERVED),
        (EVENT, Reason.EVENT_ID_REUSED),
    ],
)
def test_what_must_be_rejected_again_stays_unless_it_is_forced(value: bytes | None, reason: Reason) -> None:
    assert fate(letter(value, reason)) is ReplayDecision.AGAIN
    assert judge(letter(value, reason), LetterFilter(), ()).detail
    assert fate(letter(value, reason), force=True) is ReplayDecision.FORCED


def test_a_defects_victims_go_back_once_they_are_asked_for_by_name() -> None:
    poisoned = letter(EVENT, Reason.POISON)
    assert fate(poisoned) is ReplayDecision.NAMED
    assert fate(poisoned, reasons=("poison",)) is ReplayDecision.SEND


def test_a_letter_without_its_bytes_stays_even_if_forced() -> None:
    large = letter(b"x" * 4_000_000, Reason.TOO_LARGE)
    assert large.value is None
    assert fate(large, force=True) is ReplayDecision.OMITTED


@pytest.mark.parametrize("force", [False, True])
def test_a_letter_that_stands_in_the_log_again_stays(force: bool) -> None:
    sent = letter(EVENT, Reason.WRONG_PARTITION)
    back = returned(sent, PARTITIONS)
    before = sent_before([LogRecord(back.partition, 0, START_MS, back.key, back.value, back.headers)])
    assert before == {(2, 5)}
    assert judge(sent, LetterFilter(force=force), before).fate is ReplayDecision.BEFORE
    assert judge(letter(EVENT, Reason.WRONG_PARTITION, 6), LetterFilter(), before).fate is ReplayDecision.SEND


def test_a_dead_letter_is_not_taken_for_a_record_that_was_sent_back() -> None:
    assert sent_before([letter(EVENT, Reason.POISON)]) == set()


def test_it_goes_to_its_sessions_partition_with_its_origin_and_without_headers_of_ours() -> None:
    sent = letter(EVENT, Reason.FORGED_ORIGIN, headers=[*THEIRS, (names.REROUTED_FROM, b"0:1:forged")])
    back = returned(sent, PARTITIONS)
    assert (back.topic, back.value, back.key) == (EVENTS, EVENT, session_key("a/b", "s").encode())
    assert back.partition == partition_of(session_key("a/b", "s"), PARTITIONS)
    assert back.headers == [
        *THEIRS, (names.ORIGIN_TOPIC, EVENTS_DLQ.encode()), (names.ORIGIN_PARTITION, b"2"),
        (names.ORIGIN_OFFSET, b"5"), (names.FIRST_ORIGIN, b"2:17"),
    ]  # fmt: skip


def test_the_stage_accepts_what_the_policy_sends() -> None:
    back = returned(letter(EVENT, Reason.FORGED_ORIGIN, headers=[(names.REROUTED_FROM, b"0:1:forged")]), 1)
    ran = run(sessions_fold, [LogRecord(0, 0, START_MS, back.key, back.value, back.headers)])
    assert ran.counts == {"released": 1}


def test_what_is_rejected_again_is_a_letter_of_its_own_with_both_origins() -> None:
    back = returned(letter(b"no JSON", Reason.NOT_JSON, key=b"k"), PARTITIONS)
    assert (back.partition, back.key) == (2, b"k")
    (again,) = run(sessions_fold, [LogRecord(2, 99, START_MS, back.key, back.value, back.headers)]).dead
    assert header(again.headers, names.ORIGIN_TOPIC) == EVENTS.encode()
    assert header(again.headers, names.ORIGIN_OFFSET) == b"99"
    assert header(again.headers, names.FIRST_ORIGIN) == b"2:17"
    second = LogRecord(2, 6, START_MS, again.key, again.value, again.headers)
    assert judge(second, LetterFilter(force=True), {(2, 5)}) == JudgedLetter(
        second, ReplayDecision.FORCED, "not_json at $"
    )


def test_only_what_is_asked_for_is_selected() -> None:
    of = letter(EVENT, Reason.POISON)
    assert LetterFilter().selects(of)
    for asked in (
        LetterFilter(reasons=("poison",)),
        LetterFilter(tenant="a/b"),
        LetterFilter(since_ms=of.timestamp),
        LetterFilter(places=((2, 5),)),
    ):
        assert asked.selects(of), asked
    for asked in (
        LetterFilter(reasons=("not_json",)),
        LetterFilter(tenant="a"),
        LetterFilter(since_ms=of.timestamp + 1),
        LetterFilter(places=((2, 17),)),
    ):
        assert not asked.selects(of), asked
