"""What was learnt elsewhere stands, marked and believed less, until a tenant's own evidence is enough."""

from dataclasses import replace
from typing import Any

import orjson
import pytest

from hmx_pipeline.compiler.imported_artifacts import TRUST
from hmx_pipeline.contracts.evidence import SegmentOutcome
from hmx_pipeline.contracts.headers import REASON, header
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import ARTIFACTS, EVIDENCE_DLQ
from tests.support.evidence import archive_record, control, gift_of, import_record, records, success, task_of
from tests.support.inprocess import Ran, run
from tests.support.records import LogRecord

PATTERN = task_of(success(0)).text
Json = dict[str, Any]


def ran(*log: LogRecord) -> Ran:
    """With a restart after each record, and a barrier at the end of which nothing is left to say."""
    whole = [replace(record, offset=n) for n, record in enumerate([*log, control("barrier", 900_000, 0)])]
    result = run(PatternsFold, whole, cut=lambda _: 1, restores=True)
    assert result.on(ARTIFACTS) == run(PatternsFold, whole).on(ARTIFACTS)
    return result


def artifacts(result: Ran) -> list[Json]:
    return [orjson.loads(output.value or b"") for output in result.on(ARTIFACTS)]


def newest(result: Ran) -> list[Json]:
    """The last that was said of each artifact, in order."""
    return list({one["artifact_id"]: one for one in artifacts(result)}.values())


@pytest.mark.requirement("F-03")
def test_what_is_imported_is_active_marked_and_believed_less() -> None:
    (one,) = artifacts(ran(import_record(gift_of(PATTERN), 0, 0)))
    assert (one["status"], one["version"], one["title"]) == ("active", 1, "Deploy, as others do")
    assert one["confidence"] == round(0.8 * TRUST, 6) < 0.8
    assert one["source_events"] == one["source_memory_ids"] == []
    assert one["observed_count"] == 0
    told = {"fingerprint_hash": "0" * 64, "confidence": 0.8, "observed_count": 9, "success_rate": 0.9}
    assert one["metadata"]["imported"] == told
    assert one["metadata"]["pattern"] == PATTERN
    assert one["metadata"]["transition"]["cause"] == "imported with a fingerprint"


@pytest.mark.requirement("F-03")
def test_own_evidence_replaces_it_once_it_is_enough() -> None:
    own = records([success(n) for n in range(6)])
    early = ran(import_record(gift_of(PATTERN), 0, 0), *own[:3])
    assert [one["title"] for one in newest(early)] == ["Deploy, as others do"]
    before, after = newest(ran(import_record(gift_of(PATTERN), 0, 0), *own))
    assert (before["status"], before["superseded_by"]) == ("superseded", after["artifact_id"])
    assert (after["status"], after["version"], after["observed_count"]) == ("active", 2, 6)
    assert "imported" not in after["metadata"]
    (alone,) = newest(ran(*own))
    assert {name: after[name] for name in ("content_hash", "confidence", "source_events", "summary")} == {
        name: alone[name] for name in ("content_hash", "confidence", "source_events", "summary")
    }
    late = newest(ran(*own, import_record(gift_of(PATTERN), 1_000, 0)))
    assert late == [alone]


@pytest.mark.requirement("F-03")
def test_it_stands_again_where_own_evidence_is_withdrawn() -> None:
    own = records([success(n) for n in range(6)])
    gone = [replace(r, value=orjson.dumps(orjson.loads(r.value or b"") | {"withdrawn": True})) for r in own]
    result = ran(import_record(gift_of(PATTERN), 0, 0), *own, control("barrier", 500_000, 0), *gone)
    assert [(one["title"], one["status"]) for one in newest(result)][-1] == ("Deploy, as others do", "active")


def test_what_recent_sessions_speak_against_is_not_believed_for_being_imported() -> None:
    failed = [success(n).model_copy(update={"outcome": SegmentOutcome.FAILURE}) for n in range(20, 30)]
    own = records([*(success(n) for n in range(6)), *failed])
    assert {one["status"] for one in newest(ran(*own))} <= {"deprecated", "superseded"}
    before, after = (
        ran(import_record(gift_of(PATTERN), 0, 0), *own),
        ran(*own, import_record(gift_of(PATTERN), 1_000, 0)),
    )
    for result in (before, after):
        assert not [one for one in newest(result) if one["status"] in ("draft", "active")]


def test_the_newest_of_several_imports_counts_for_all_who_were_given_one() -> None:
    old, new = (
        gift_of(PATTERN, agent_id=agent, title=title, created_at=f"2026-03-{day}T00:00:00Z", fingerprint_hash=day * 32)
        for agent, title, day in (("a", "Old", "01"), ("b", "New", "02"))
    )
    for order in ((old, new), (new, old), (new, old, new)):
        live = newest(ran(*(import_record(one, 0, 0) for one in order)))[-1]
        assert (live["title"], live["validity_scope"]) == ("New", {"agent_ids": ["a", "b"]})
    everybody = newest(ran(import_record(old, 0, 0), import_record(gift_of(PATTERN), 0, 0)))[-1]
    assert "validity_scope" not in everybody


def test_the_same_import_twice_says_nothing_new() -> None:
    one = import_record(gift_of(PATTERN), 0, 0)
    result = ran(one, one)
    assert len(artifacts(result)) == 1
    assert result.counts["imported"] == 2


def test_what_an_operator_archives_stays_silent_whatever_is_imported() -> None:
    one, decided = import_record(gift_of(PATTERN), 0, 0), archive_record(success(0), 0, 0)
    assert [a["status"] for a in newest(ran(one, decided, one))] == ["archived"]
    assert artifacts(ran(decided, one)) == []


@pytest.mark.requirement("A-10", "X10")
def test_a_custom_type_is_kept_and_can_be_archived() -> None:
    content = {"pages": [{"title": "Failover", "weight": 1.5, "gone": None}]}
    one = import_record(gift_of("x-acme-runbook/failover", content=content), 0, 0)
    (kept,) = artifacts(ran(one))
    assert (kept["artifact_type"], kept["content"]) == ("x-acme-runbook", content)
    decided = archive_record("x-acme-runbook/failover", 1, 0)
    assert [a["status"] for a in newest(ran(one, decided))] == ["archived"]


@pytest.mark.requirement("A-10", "X10")
@pytest.mark.parametrize("kind", ["runbook", "x-hmx-tick", "course", "fact", ""])
def test_other_types_are_dead_letters(kind: str) -> None:
    imported = gift_of(PATTERN).model_dump(mode="json") | {"pattern": join_key(kind, "deploy")}
    result = ran(import_record(imported, 0, 0))
    assert [header(letter.headers, REASON) for letter in result.on(EVIDENCE_DLQ)] == [b"wrong_type"]
    assert artifacts(result) == []
