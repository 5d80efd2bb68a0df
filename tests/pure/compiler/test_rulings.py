"""What operators confirm, correct and retract outranks all evidence, in whatever order it comes."""

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.extract import contributions
from hmx_pipeline.compiler.knowledge.knowledge_records import PublishedRecords, difference
from hmx_pipeline.compiler.knowledge.knowledge_records import records as compiled
from hmx_pipeline.contracts.artifact import TimeRange
from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl
from hmx_pipeline.contracts.headers import KIND, REASON, header
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import PATTERN_RULINGS
from hmx_pipeline.contracts.options import Standing
from hmx_pipeline.contracts.ruling import Ruling, RulingVerb
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.queries.knowledge_query import RulingError, RulingRequest, earlier, make_ruling
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE_DLQ, KNOWLEDGE
from tests.support.evidence import control, records
from tests.support.inprocess import Ran, run
from tests.support.records import START_MS, LogRecord
from tests.support.segments import Script

Json = dict[str, Any]
DECIDED = START_MS + 500_000


def said(number: int, *texts: str) -> list[Contribution]:
    """What a user states in a session of their own."""
    script = Script(f"session-{number}", start=START_MS + 60_000 * number)
    for text in texts:
        script.user(text)
    return [c for c in contributions(script.segment()) if c.pattern_type in ("fact", "policy")]


OAK, ELM = "The staging cluster is in Frankfurt.", "The staging cluster is in Dublin."


def evidence() -> list[Contribution]:
    return [*said(0, OAK), *said(1, ELM)]


def known(told: list[Contribution]) -> list[KnowledgeRecord]:
    return compiled(told)


def ruling_record(ruling: Ruling, at: int = 0) -> LogRecord:
    value = EvidenceControl(kind="ruling", ruled=ruling.model_dump(mode="json", exclude_none=True)).to_json()
    return LogRecord(0, 0, START_MS + at, ruling.key.encode(), value, [(KIND, b"ruling")])


def rule(record: KnowledgeRecord | Json, verb: RulingVerb, at: int = DECIDED, **more: str) -> Ruling:
    fields = record if isinstance(record, dict) else orjson.loads(record.to_json())
    return make_ruling(fields, verb, RulingRequest(**more), at)


def ran(*log: LogRecord) -> Ran:
    """With a restart after each record, and a barrier at the end."""
    whole = [replace(record, offset=n) for n, record in enumerate([*log, control("barrier", 900_000, 0)])]
    result = run(PatternsFold, whole, cut=lambda _: 1, restores=True)
    assert result.on(KNOWLEDGE) == run(PatternsFold, whole).on(KNOWLEDGE)
    return result


def newest(result: Ran) -> dict[str, Json]:
    """Text → the last that was published of it."""
    last: dict[bytes, Json | None] = {}
    for output in result.on(KNOWLEDGE):
        last[output.key or b""] = orjson.loads(output.value) if output.value is not None else None
    return {record["text"]: record for record in last.values() if record is not None}


def holding(result: Ran) -> list[str]:
    return sorted(text for text, record in newest(result).items() if record["status"] in ("active", "unresolved"))


def the(told: list[Contribution], word: str) -> KnowledgeRecord:
    (one,) = (record for record in known(told) if word in record.text and record.kind != "conflict")
    return one


def test_a_retracted_statement_stays_out_whatever_comes_until_it_is_confirmed() -> None:
    told = evidence()
    away = ruling_record(rule(the(told, "Dublin"), RulingVerb.RETRACT, reason="a typing error"))
    again = records([*told, *said(2, ELM), *said(3, ELM)])
    after = newest(ran(*records(told), away, *again))
    (gone,) = (record for text, record in after.items() if "Dublin" in text and record["kind"] == "memory")
    assert gone["status"] == "withdrawn"
    decided = {"verb": "retract", "at": format_ms(DECIDED), "by": "operator", "reason": "a typing error"}
    assert gone["body"]["ruling"] == decided
    back = ruling_record(rule(gone, RulingVerb.CONFIRM, DECIDED + 1))
    assert earlier(gone) == "retract"
    held = newest(ran(*records(told), away, *again, back))
    (one,) = (record for record in held.values() if "Dublin" in record["text"] and record["kind"] == "memory")
    assert (one["status"], one["confidence"], one["body"]["authority"]) == ("active", 1.0, "operator")


def test_a_retracted_record_that_nothing_says_any_more_is_not_published_once_more() -> None:
    kept = [one.model_copy(update={"status": Standing.WITHDRAWN}) for one in known(said(1, ELM))]
    ended = [one.model_copy(update={"validity": TimeRange(start=one.created_at, end=one.created_at)}) for one in kept]
    now, changed, erased = difference(PublishedRecords(ended, []), known(said(0, OAK)), START_MS)
    assert [one.text for one in changed] == [OAK.rstrip(".")]
    assert (now.withdrawn, erased) == ([one.record_id for one in ended], [])


def test_what_a_retracted_statement_had_ended_holds_again() -> None:
    told = [*said(0, OAK), *said(1, f"Update: {ELM[0].lower()}{ELM[1:-1]} now.")]
    before = {record.text: record.status for record in known(told)}
    ended = [text for text, status in before.items() if status == "superseded"]
    (newer,) = (record for record in known(told) if record.status == "active")
    assert len(ended) == 1
    after = newest(ran(*records(told), ruling_record(rule(newer, RulingVerb.RETRACT))))
    assert after[ended[0]]["status"] == "active"
    assert "superseded_by" not in after[ended[0]]
    assert "end" not in after[ended[0]]["validity"]


def test_a_correction_ends_the_others_and_later_evidence_does_not_end_it() -> None:
    told = evidence()
    ruling = rule(the(told, "Dublin"), RulingVerb.CORRECT, value="Oslo")
    assert ruling.stated is not None
    result = ran(*records(told), ruling_record(ruling), *records(said(4, "The staging cluster is in Rome.")))
    assert [text for text in holding(result) if "cluster" in text] == [ruling.stated.text]
    assert "Oslo" in ruling.stated.text
    one = newest(result)[ruling.stated.text]
    assert (one["body"]["object"], one["body"]["authority"], one["confidence"]) == ("Oslo", "operator", 1.0)
    others = [record for text, record in newest(result).items() if text != ruling.stated.text]
    assert {record["status"] for record in others} <= {"superseded", "resolved"}
    assert {r["superseded_by"] for r in others if r["text"] != the(told, "Frankfurt").text} == {ruling.stated.record_id}


def test_a_correction_holds_without_any_evidence() -> None:
    told = evidence()
    ruling = rule(the(told, "Dublin"), RulingVerb.CORRECT, text="The staging cluster is in Oslo.")
    result = ran(ruling_record(ruling), *records([c.model_copy(update={"withdrawn": True}) for c in told]))
    assert holding(result) == ["The staging cluster is in Oslo."]


def test_of_contradictory_rulings_the_last_in_the_log_holds() -> None:
    told = evidence()
    oak, elm = the(told, "Frankfurt"), the(told, "Dublin")
    first, second = ruling_record(rule(oak, RulingVerb.CONFIRM)), ruling_record(rule(elm, RulingVerb.CONFIRM))
    for log, word in (([first, second], "Dublin"), ([second, first], "Frankfurt")):
        shown = holding(ran(*records(told), *log))
        assert [word in text for text in shown] == [True]
    assert holding(ran(*records(told), first, second, ruling_record(rule(elm, RulingVerb.RETRACT)))) == [oak.text]


@given(order=st.permutations(range(6)))
def test_rulings_hold_alike_in_whatever_order_the_evidence_comes(order: list[int]) -> None:
    told = [*evidence(), *said(2, ELM), *said(3, OAK)]
    rulings = [
        rule(the(told, "Dublin"), RulingVerb.RETRACT),
        rule(the(told, "Frankfurt"), RulingVerb.CORRECT, value="Oslo"),
    ]
    log: list[LogRecord] = [*records(told[:4]), *map(ruling_record, rulings)]
    mixed = [log[n] for n in order]
    place = [mixed.index(log[4]), mixed.index(log[5])]
    mixed[min(place)], mixed[max(place)] = log[4], log[5]
    assert newest(ran(*mixed)) == newest(ran(*log))


def test_what_is_no_ruling_on_knowledge_is_a_dead_letter_and_changes_nothing() -> None:
    ruling = rule(the(evidence(), "Dublin"), RulingVerb.RETRACT)
    fields = ruling.model_dump(mode="json", exclude_none=True)
    for wrong in ({"pattern": "task_schema/deploy"}, {"pattern": "fact"}, {"verb": "forget"}, {"verb": "correct"}):
        value = EvidenceControl(kind="ruling", ruled=fields | wrong).to_json()
        result = run(PatternsFold, [LogRecord(0, 4, START_MS, b"k", value, [(KIND, b"ruling")])])
        assert [header(letter.headers, REASON) for letter in result.on(EVIDENCE_DLQ)] == [b"wrong_type"]
        assert not result.state


def test_rulings_of_a_pattern_are_bounded() -> None:
    ruling = rule(the(evidence(), "Dublin"), RulingVerb.RETRACT)
    many = [ruling_record(ruling.model_copy(update={"record_id": f"r-{n}"})) for n in range(PATTERN_RULINGS + 1)]
    result = ran(*many, many[0])
    assert (result.counts["ruled"], result.counts["decision_out_of_room"]) == (PATTERN_RULINGS + 1, 1)


@pytest.mark.parametrize(
    ("verb", "more", "says"),
    [
        (RulingVerb.CORRECT, {}, "needs a text or a value"),
        (RulingVerb.RETRACT, {"text": "x"}, "takes a reason only"),
        (RulingVerb.CONFIRM, {"value": "x"}, "takes a reason only"),
    ],
)
def test_a_ruling_that_makes_no_sense_is_refused(verb: RulingVerb, more: dict[str, str], says: str) -> None:
    with pytest.raises(RulingError, match=says):
        rule(the(evidence(), "Dublin"), verb, **more)


def test_a_conflict_can_be_retracted_but_neither_confirmed_nor_corrected() -> None:
    conflicts = [record for record in known(evidence()) if record.kind == "conflict"]
    for record in conflicts:
        with pytest.raises(RulingError, match="one of its sides"):
            rule(record, RulingVerb.CONFIRM)
    made = the(evidence(), "Dublin").model_copy(update={"status": Standing.WITHDRAWN})
    with pytest.raises(RulingError, match="no evidence any more"):
        rule(made, RulingVerb.CONFIRM)
