"""Whom a tenant trusts, as the patterns stage folds it: the last setting, and whether contributions name subjects."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.evidence import EvidenceControl, TenantSettings
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.options import HOLDS
from hmx_pipeline.stages.patterns import PatternsFold
from hmx_pipeline.topology import KNOWLEDGE
from tests.support.evidence import control
from tests.support.inprocess import events_log, evidence_logs, run
from tests.support.records import START_MS, LogRecord, event
from tests.support.talk import said

RULE = "Always sign the release"


def _evidence(events: Sequence[dict[str, Any]]) -> list[LogRecord]:
    """The contributions of a session."""
    log = evidence_logs(events_log(list(events), 1).values(), 1)[0]
    return [record for record in log if b"contribution_id" in (record.value or b"")]


def _set(*agents: str) -> LogRecord:
    settings = TenantSettings(tenant_id="acme", trusted_agents=list(agents))
    value = EvidenceControl(kind="tenant", settings=settings).to_json()
    return LogRecord(0, 0, START_MS, b"tenant", value, [(KIND, b"tenant")])


def _policy(agent: str = "deployer") -> list[LogRecord]:
    content = {"status": "set", "instructions": [RULE]}
    return _evidence(
        [event("s", 0, at=START_MS - 60_000, event_type="context.policy", agent_id=agent, content=content)]
    )


def _known(*parts: Sequence[LogRecord]) -> dict[str, dict[str, Any]]:
    """The records that hold once all of it has been compiled, by text."""
    log = [record for part in parts for record in part]
    log = [replace(record, offset=n, timestamp=START_MS + n) for n, record in enumerate(log)]
    outputs = run(PatternsFold, [*log, control("barrier", len(log), len(log)), control("tick", 60_000, len(log) + 1)])
    last = {output.key: output.value for output in outputs.on(KNOWLEDGE)}
    records = [orjson.loads(value) for value in last.values() if value]
    return {record["text"]: record for record in records if record["status"] in HOLDS}


OF_SUBJECT = _evidence(said("own", "Our database is Postgres.", metadata={"user_id": "u1"}))


def test_without_subjects_and_settings_a_policy_event_is_a_rule_as_ever() -> None:
    known = _known(_policy(), _evidence(said("own", "Our database is Postgres.")))
    assert RULE in known
    assert all("authority" not in record["body"] for record in known.values())


def test_in_a_tenant_that_names_subjects_a_policy_event_needs_trust() -> None:
    assert RULE not in _known(_policy(), OF_SUBJECT)
    assert RULE not in _known(_policy("other"), OF_SUBJECT, [_set("deployer")])
    known = _known(_policy(), OF_SUBJECT, [_set("deployer")])
    assert known[RULE]["body"]["authority"] == "agent"
    assert {record["body"]["authority"] for record in known.values()} == {"agent", "user"}


@pytest.mark.parametrize("order", [*permutations(range(3))], ids=str)
def test_the_order_of_settings_and_evidence_changes_nothing(order: tuple[int, ...]) -> None:
    parts = [_policy(), OF_SUBJECT, [_set("deployer")]]
    assert _known(*(parts[place] for place in order)) == _known(*parts)


def test_the_last_setting_counts() -> None:
    assert RULE not in _known(_policy(), OF_SUBJECT, [_set("deployer")], [_set()])
    assert RULE in _known(_policy(), OF_SUBJECT, [_set()], [_set("deployer")])
    other = TenantSettings(tenant_id="acme", sharing="subjects")
    value = EvidenceControl(kind="tenant", settings=other).to_json()
    between = LogRecord(0, 0, START_MS, b"tenant", value, [(KIND, b"tenant")])
    assert RULE in _known(_policy(), OF_SUBJECT, [_set("deployer")], [between]), "another setting leaves it"
    assert RULE not in _known(_policy(), [_set("other")]), "who names trusted agents trusts no other"


def _told_by(*tellings: tuple[str, str]) -> list[LogRecord]:
    """The contributions of one session in which agents state rules."""
    return _evidence(
        [
            event(
                "s",
                n,
                at=START_MS - 60_000 + n,
                event_type="context.policy",
                agent_id=agent,
                content={"status": "set", "instructions": [rule]},
            )
            for n, (agent, rule) in enumerate(tellings)
        ]
    )


@pytest.mark.parametrize(
    "others",
    [
        [("other", RULE)] * 9,
        [(f"other-{n}", RULE) for n in range(70)],
        [("other", f"Always water plant {n}") for n in range(80)],
        [("other", f"{RULE} {n}") for n in range(8)],
    ],
    ids=["same words", "under many names", "many rules", "longer rules"],
)
@pytest.mark.parametrize("first", [True, False], ids=["after", "before"])
def test_no_teller_takes_the_place_of_another_in_a_segment(others: list[tuple[str, str]], first: bool) -> None:
    own = ("deployer", RULE)
    told = _told_by(own, *others) if first else _told_by(("reader", "Read it"), *others, own)
    assert RULE in _known(told, OF_SUBJECT, [_set("deployer")])
