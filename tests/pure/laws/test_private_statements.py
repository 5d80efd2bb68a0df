"""Whose memory it is: what one subject states is private to it, in whatever order the sessions come."""

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.intake.control_records import setting
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import EVIDENCE, KNOWLEDGE
from tests.support.inprocess import barrier_record, run, sessions_fold, signed
from tests.support.records import START_MS, LogRecord

TENANT = "acme"
HOMES = (("u1", "My home address is 12 Oak Street."), ("u2", "My home address is 9 Elm Road."))


def message(session: str, sequence: int, text: str, at: int, **metadata: str) -> dict[str, Any]:
    return {
        "hmx_version": "HMX-1.0", "event_id": f"{session}-{sequence}", "event_type": "message", "agent_id": "a",
        "tenant_id": TENANT, "session_id": session, "timestamp": f"2025-10-01T00:{at // 60:02}:{at % 60:02}.000Z",
        "sequence": sequence, "content": {"role": "user", "text": text}, "metadata": metadata,
    }  # fmt: skip


def talks(said: Iterable[tuple[str, str]]) -> list[list[dict[str, Any]]]:
    """A session for each (subject, text), a second apart; the subject may be empty."""
    return [
        [message(f"s{n}", 0, text, n, **({"user_id": subject} if subject else {}))]
        for n, (subject, text) in enumerate(said)
    ]


def known(
    sessions: Sequence[Sequence[dict[str, Any]]], sharing: str | None = None, order: int | None = None
) -> dict[str, dict[str, Any]]:
    """The knowledge records that stand at the end, by id. `order` seeds the order in which the sessions come."""
    ordered = list(sessions)
    if order is not None:
        random.Random(order).shuffle(ordered)
    log = [
        LogRecord(0, n, START_MS + n, session_key(TENANT, e["session_id"]).encode(), orjson.dumps(e))
        for n, e in enumerate(event for session in ordered for event in session)
    ]
    if sharing is not None:
        told = setting(TenantSettings(tenant_id=TENANT, sharing=sharing), 0, START_MS)
        log.insert(len(log) // 2, signed(told, 0, len(log), len(log)))
        log = [replace(each, offset=n) for n, each in enumerate(log)]
    log.append(barrier_record(len(log), offset=len(log)))
    first = run(sessions_fold, log)
    evidence = [
        LogRecord(0, n, START_MS + n, output.key, output.value, output.headers)
        for n, output in enumerate(first.on(EVIDENCE))
    ]
    second = run(PatternsFold, evidence)
    found: dict[str, dict[str, Any]] = {}
    for output in second.on(KNOWLEDGE):
        record = orjson.loads(output.value or b"{}")
        found[(output.key or b"").decode()] = record
    return {name: record for name, record in found.items() if record and record["status"] != "withdrawn"}


def told(records: dict[str, dict[str, Any]], status: str = "active") -> set[tuple[str | None, str]]:
    """Whose, and which value."""
    return {
        (record.get("subject_id"), str(record["body"].get("object") or record["text"]))
        for record in records.values()
        if (record["status"] == status and not record["body"].get("negated", False)) or record["kind"] == "policy"
    }


def test_two_subjects_with_a_home_each_keep_their_own() -> None:
    records = known(talks(HOMES))
    assert told(records) == {("u1", "12 Oak Street"), ("u2", "9 Elm Road")}
    assert not told(records, "superseded")


MOVED = (("u1", "Our warehouse is Snowflake."), ("u2", "We switched from Snowflake to BigQuery."))


def test_what_one_subject_ends_stands_for_the_other() -> None:
    assert ("u1", "Snowflake") in told(known(talks(MOVED)))
    assert None not in {whose for whose, _ in told(known(talks(MOVED)))}


def test_in_a_team_it_ends_for_all() -> None:
    records = known(talks(MOVED), "team")
    assert told(records) == {(None, "BigQuery")}
    assert told(records, "superseded") == {(None, "Snowflake")}


def test_a_team_keeps_private_what_is_somebodys_own() -> None:
    assert told(known(talks(HOMES), "team")) == {("u1", "12 Oak Street"), ("u2", "9 Elm Road")}


def test_a_third_subject_makes_it_everybodys_and_its_change_of_mind_takes_it_back() -> None:
    rule = "Never deploy on Fridays."
    two = talks([("u1", rule), ("u2", rule), ("u2", rule)])
    assert {whose for whose, _ in told(known(two))} == {"u1", "u2"}
    three = talks([("u1", rule), ("u2", rule), ("u3", rule)])
    assert {whose for whose, _ in told(known(three))} == {"u1", "u2", "u3", None}
    fact = "Our warehouse is Snowflake."
    agreed = [("u1", fact), ("u2", fact), ("u3", fact)]
    assert (None, "Snowflake") in told(known(talks(agreed)))
    left = known(talks([*agreed, ("u3", "We switched from Snowflake to BigQuery.")]))
    assert (None, "Snowflake") not in told(left)
    assert {("u1", "Snowflake"), ("u2", "Snowflake"), ("u3", "BigQuery")} <= told(left)


def test_one_subject_in_many_sessions_is_no_quorum() -> None:
    assert {whose for whose, _ in told(known(talks([("u1", "Never deploy on Fridays.")] * 9)))} == {"u1"}


def test_without_a_subject_it_is_everybodys() -> None:
    assert told(known(talks([("", "Our warehouse is Snowflake.")]))) == {(None, "Snowflake")}


def test_a_session_takes_its_first_subject() -> None:
    session = [
        message("s", 0, "Hello there, I need some help.", 0),
        message("s", 1, "I am back.", 1, userId="u1"),
        message("s", 2, "Our warehouse is Snowflake.", 2),
    ]
    assert told(known([session])) == {("u1", "Snowflake")}
    log = [
        LogRecord(0, n, START_MS + n, session_key(TENANT, "s").encode(), orjson.dumps(event))
        for n, event in enumerate(session)
    ]
    carried = [episode["metadata"]["hmx"].get("subject") for episode in run(sessions_fold, log).episodes]
    assert carried == [None, None, "u1"]


SAID = (
    "Our warehouse is Snowflake.",
    "We switched from Snowflake to BigQuery.",
    "My home address is 12 Oak Street.",
    "Never deploy on Fridays.",
    "My editor is vim.",
)


@given(
    st.lists(st.tuples(st.sampled_from(["", "u1", "u2", "u3"]), st.sampled_from(SAID)), min_size=1, max_size=7),
    st.integers(0, 9),
    st.sampled_from([None, "team"]),
)
def test_the_order_of_arrival_changes_nothing(said: list[tuple[str, str]], order: int, sharing: str | None) -> None:
    def stripped(records: dict[str, dict[str, Any]]) -> dict[str, bytes]:
        return {name: orjson.dumps(record) for name, record in records.items()}

    assert stripped(known(talks(said), sharing, order)) == stripped(known(talks(said), sharing))


@given(st.lists(st.tuples(st.sampled_from(["u1", "u2"]), st.sampled_from(SAID)), min_size=1, max_size=6))
def test_what_others_say_changes_nothing_private(said: list[tuple[str, str]]) -> None:
    sessions = talks(said)
    own = [s for s, (subject, _) in zip(sessions, said, strict=True) if subject == "u1"]
    alone = {name: record for name, record in known(own).items() if record.get("subject_id") == "u1"}
    among = {name: record for name, record in known(sessions).items() if record.get("subject_id") == "u1"}
    assert alone == among
