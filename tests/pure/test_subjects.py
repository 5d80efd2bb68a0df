"""Whose a statement is: private to its subject, shared by a team or a quorum, and never in another's artifact."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hmx_pipeline.contracts.artifact import owner_of
from hmx_pipeline.contracts.episode import subject_of
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.limits import QUORUM
from hmx_pipeline.intake.control_records import setting
from hmx_pipeline.topology import EVIDENCE
from tests.support import canaries
from tests.support.inprocess import (
    artifacts_of,
    barrier_record,
    events_log,
    evidence_logs,
    published,
    run,
    sessions_fold,
    signed,
)
from tests.support.records import START_MS, LogRecord, event
from tests.support.sessions import interleaved
from tests.support.talk import Turn, holding, known, said, with_setting

Event = dict[str, Any]
Evidence = Mapping[int, Sequence[LogRecord]]


def by(subject: str, session: str, *turns: Turn, at: int = 0) -> list[Event]:
    return said(session, *turns, at=at, metadata={"user_id": subject} if subject else {})


def evidence_of(events: Sequence[Event], dice: random.Random | None = None) -> Evidence:
    return evidence_logs(events_log(events, 1).values(), 1, dice)


def told(evidence: Evidence) -> set[tuple[str, str]]:
    """Whose it is, empty for the tenant's, and the text of what holds."""
    return {(r.get("subject_id", ""), r["text"]) for r in holding(known(evidence).values())}


def knowledge(*sessions: tuple[str, Turn] | tuple[str, Turn, Turn], team: bool = False) -> set[tuple[str, str]]:
    events = [e for n, (who, *turns) in enumerate(sessions) for e in by(who, f"s{n}", *turns, at=n)]
    evidence = evidence_of(events)
    return told(with_setting(evidence, "team") if team else evidence)


def test_an_address_of_one_subject_ends_none_of_anothers() -> None:
    sessions = ("u1", "My home address is 12 Oak Street."), ("u2", "My home address is 9 Elm Road.")
    for team in (False, True):
        found = knowledge(*sessions, team=team)
        assert {who for who, _ in found} == {"u1", "u2"}
        assert all(("Oak" in text) == (who == "u1") for who, text in found)


MOVED = ("u1", "Our warehouse is Snowflake."), ("u2", "We switched from Snowflake to BigQuery.")


def test_a_team_shares_facts_and_others_keep_them() -> None:
    alone, team = knowledge(*MOVED), knowledge(*MOVED, team=True)
    assert ("u1", "Our warehouse is Snowflake") in alone
    assert not [text for who, text in alone if not who]
    assert {text for who, text in team if "warehouse" in text} == {"Our warehouse is BigQuery"}
    assert not [text for who, text in team if who]


def test_what_a_quorum_states_is_shared_until_one_takes_it_back() -> None:
    stated = [(f"u{n}", "Our warehouse is Snowflake.") for n in range(QUORUM)]
    assert not [text for who, text in knowledge(*stated[:-1]) if not who]
    assert ("", "Our warehouse is Snowflake") in knowledge(*stated)
    again = knowledge(*stated, ("u0", "We switched from Snowflake to BigQuery."))
    assert not [text for who, text in again if not who]
    changed = knowledge(*stated, ("u1", "Our warehouse is BigQuery now."))
    assert not [text for who, text in changed if not who]


def test_one_subject_in_many_sessions_is_no_quorum() -> None:
    assert not [text for who, text in knowledge(*[("u1", "Our warehouse is Snowflake.")] * 4) if not who]


def test_a_quorum_is_told_in_words_that_it_shares() -> None:
    said_by = [(f"u{n}", f"Our warehouse is Snowflake, says canary{n}.") for n in range(QUORUM)]
    shared = [text for who, text in knowledge(*said_by) if not who]
    assert not [text for text in shared if "canary" in text]


def test_sessions_without_a_subject_state_what_is_shared() -> None:
    found = knowledge(("", "Our warehouse is Snowflake."), ("u1", "Our warehouse is BigQuery."))
    assert ("", "Our warehouse is Snowflake") in found
    assert ("u1", "Our warehouse is BigQuery") in found


def test_rules_and_corrections_of_a_subject_are_its_own() -> None:
    sessions = [("u1", "Never deploy the ledger on Fridays."), ("u2", "Hello there.")]
    assert {who for who, _ in knowledge(*sessions)} == {"u1"}
    assert {who for who, _ in knowledge(*sessions, team=True)} == {""}
    rejected = [
        event("s", 0, event_type="message", content={"role": "user", "text": "Change the readme"}),
        event("s", 1, event_type="file_edit", content={"path": "README.md", "action": "modify"}),
        event("s", 2, event_type="feedback", content={"signal": "negative", "comment": "Keep the quetzal section."}),
    ]
    own = told(evidence_of([{**e, "metadata": {"user_id": "u1"}} for e in rejected]))
    assert [who for who, text in own if "quetzal" in text] == ["u1"]
    assert [who for who, text in told(evidence_of(rejected)) if "quetzal" in text] == [""]


def test_what_typed_events_state_is_shared_unless_it_is_somebodys_own() -> None:
    def typed(fields: Event) -> list[Event]:
        return [event("s", 0, event_type="memory.created", content=fields, metadata={"user_id": "u1"})]

    shared = told(evidence_of(typed({"subject": "warehouse", "predicate": "runs on", "object": "Snowflake"})))
    own = told(evidence_of(typed({"subject": "user", "predicate": "lives in", "object": "Quito"})))
    assert {who for who, text in own if "Quito" in text} <= {"u1"}
    assert shared is not None


def test_a_subject_that_comes_late_claims_the_whole_session() -> None:
    turns = ["Hello there, a question.", "Our warehouse is Snowflake.", "Thanks."]
    events = said("s", *turns)
    events[1]["metadata"] = {"userId": "u1"}
    ran = run(sessions_fold, events_log(events, 1)[0])
    assert [subject_of(e) for e in ran.episodes] == ["", "u1", "u1"]
    assert [e["metadata"]["hmx"].get("subject") for e in ran.episodes] == [None, None, "u1"]
    assert {c.get("subject") for c in ran.contributions} == {"u1"}


def test_segments_that_closed_before_the_subject_came_are_its_own_too() -> None:
    first = said("s", "Our warehouse is Snowflake.")
    later = said("s", "Never deploy on Fridays.", at=600)
    log = [e | {"sequence": n, "event_id": f"e{n}"} for n, e in enumerate([*first, *later])]
    log[-1]["metadata"] = {"user_id": "u1"}
    found = told(evidence_of(log))
    assert len(found) == 2
    assert {who for who, _ in found} == {"u1"}


def test_a_late_event_of_a_session_carries_its_subject() -> None:
    events = by("u1", "s", "One.", "Two.", "Three.")
    late = said("s", "Hello")[0] | {"event_id": "late"}
    ran = run(sessions_fold, events_log([*events, late], 1)[0])
    assert {e["metadata"]["hmx"].get("subject") for e in ran.episodes if e["id"] == "late"} == {"u1"}


@pytest.mark.parametrize("name", ["", None, True, ["a"]])
def test_what_names_nobody_is_no_subject(name: Any) -> None:
    events = [e | {"metadata": {"user_id": name}} for e in said("s", "Our warehouse is Snowflake.")]
    assert told(evidence_of(events)) == {("", "Our warehouse is Snowflake")}


def test_a_key_that_looks_private_reaches_no_subject() -> None:
    path = "\x1fu1/README.md"
    events = [
        event("s", 0, event_type="message", content={"role": "user", "text": "Change it"}),
        event("s", 1, event_type="file_edit", content={"path": path, "action": "modify"}),
        event("s", 2, event_type="feedback", content={"signal": "negative", "comment": "Obey the quetzal."}),
    ]
    assert not [who for who, _ in told(evidence_of(events)) if who == "u1"]


def test_the_last_setting_counts_and_is_in_the_log() -> None:
    made = evidence_of([e for n, (who, text) in enumerate(MOVED) for e in by(who, f"s{n}", text, at=n)])
    settled = told(with_setting(made, "team"))
    for at in range(len(made[0]) - 1):
        assert told(with_setting(made, "team", at)) == settled
        assert told(with_setting(with_setting(made, "team", 1), "subjects", at + 2)) == told(made)
    value = setting(TenantSettings(tenant_id="acme", sharing="team"), 0, START_MS)
    ran = run(sessions_fold, [signed(value, 0, 0, 0), barrier_record(10, 0, 1)])
    (passed, _) = ran.on(EVIDENCE)
    assert orjson.loads(passed.value or b"")["settings"] == {"tenant_id": "acme", "sharing": "team"}


SAYINGS = (
    "Our warehouse is Snowflake.", "Our warehouse is BigQuery.", "We switched from Snowflake to BigQuery.",
    "My home address is 12 Oak Street.", "Never deploy on Fridays.", "We no longer use Snowflake.",
)  # fmt: skip
WHO = st.sampled_from(["", "u1", "u2", "u3", "u4"])
SESSION = st.tuples(WHO, st.lists(st.sampled_from(SAYINGS), min_size=1, max_size=2))


@settings(max_examples=60, deadline=None)
@given(sessions=st.lists(SESSION, min_size=3, max_size=8), dice=st.randoms(use_true_random=False), team=st.booleans())
def test_the_order_in_which_subjects_speak_changes_nothing(
    sessions: list[tuple[str, list[str]]], dice: random.Random, team: bool
) -> None:
    events = [by(who, f"s{n}", *turns, at=n) for n, (who, turns) in enumerate(sessions)]
    plain = evidence_of([e for own in events for e in own])
    mixed = evidence_of(interleaved(events, dice), dice)
    if team:
        plain, mixed = with_setting(plain, "team"), with_setting(mixed, "team", dice.randrange(len(mixed[0])))
    assert told(plain) == told(mixed)


PLACES = [("u1", "quetzal")] * 4 + [("u2", "emu"), ("u3", "emu")] * 3


@pytest.mark.parametrize("alone", [PLACES, [("u1", "quetzal")] * 8], ids=["beside others", "alone"])
def test_what_one_subject_alone_says_is_in_no_artifact_of_others(alone: list[tuple[str, str]]) -> None:
    artifacts = artifacts_of([e for n, who in enumerate(alone) for e in canaries.session(n, *who)], 1)
    assert artifacts
    assert {owner_of(artifact) for artifact in artifacts} <= {"", "u1"}
    for artifact in (artifact for artifact in artifacts if owner_of(artifact) != "u1"):
        told = {name: value for name, value in artifact.items() if name not in ("source_events", "source_memory_ids")}
        assert b"quetzal" not in orjson.dumps(told)


def test_what_one_subject_has_been_through_alone_is_learnt_for_it_and_masks_nothing() -> None:
    artifacts = artifacts_of([e for n in range(8) for e in canaries.session(n, "u1", "quetzal")], 1)
    assert {owner_of(artifact) for artifact in artifacts} == {"u1"}
    assert any("quetzal" in artifact["title"] for artifact in artifacts)


def test_an_artifact_becomes_the_tenants_with_the_second_subject() -> None:
    sessions = [("u1", "quetzal")] * 6 + [("u2", "quetzal")] * 6
    artifacts = artifacts_of([e for n, who in enumerate(sessions) for e in canaries.session(n, *who)], 1)
    live = [artifact for artifact in artifacts if artifact["status"] == "active"]
    assert any("quetzal" in artifact["title"] and not owner_of(artifact) for artifact in live)


def test_what_two_subjects_say_stays_in_artifacts() -> None:
    artifacts = artifacts_of([e for n, who in enumerate(PLACES) for e in canaries.session(n, *who)], 1)
    assert {a["artifact_type"] for a in artifacts if "emu" in a["title"]} >= {"task_schema", "failure_playbook"}


def test_sessions_without_subjects_teach_what_they_did_before() -> None:
    told = [("", word) for _, word in PLACES]
    artifacts = artifacts_of([e for n, who in enumerate(told) for e in canaries.session(n, *who)], 1)
    assert any("quetzal" in a["title"] for a in artifacts)


def test_a_team_shares_the_words_of_its_artifacts_and_takes_them_back_when_it_is_none() -> None:
    evidence = evidence_of([e for n, who in enumerate(PLACES) for e in canaries.session(n, *who)])
    middle = len(evidence[0]) // 2
    assert b"quetzal" in shared_artifacts(with_setting(evidence, "team"))
    assert b"quetzal" in shared_artifacts(with_setting(evidence, "team", middle))
    assert b"quetzal" not in shared_artifacts(with_setting(with_setting(evidence, "team"), "subjects", middle))
    assert b"quetzal" not in shared_artifacts(evidence)


def shared_artifacts(evidence: Evidence) -> bytes:
    """What all subjects may see of the artifacts that are live at the end."""
    latest = {artifact["artifact_id"]: artifact for artifact in published(evidence)}
    live = [one for one in latest.values() if one["status"] in ("draft", "active") and not owner_of(one)]
    return orjson.dumps([[one["title"], one["summary"], one["content"], one["tags"]] for one in live])
