"""What typed agent events become: entities and relations by the rows of one table, policies, preferences and goals."""

import random
from itertools import chain
from typing import Any

import pytest

from hmx_pipeline.contracts.agent_types import AGENT_TYPES
from tests.support.inprocess import artifacts_of, law_five
from tests.support.records import START_MS, event
from tests.support.sessions import interleaved, session
from tests.support.talk import holding, knowledge_of

Record = dict[str, Any]


def told(*events: tuple[str, Record], name: str = "s") -> list[Record]:
    at = START_MS - 86_400_000
    return knowledge_of(
        event(name, n, at=at + 1_000 * n, event_type=kind, content=content, agent_id="ada")
        for n, (kind, content) in enumerate(events)
    )


def the(records: list[Record], kind: str) -> Record:
    (found,) = [record for record in records if record["kind"] == kind]
    return found


def edges(records: list[Record]) -> set[tuple[str, str, str, str, str]]:
    names = ("source_type", "source", "relation", "target_type", "target")
    return {tuple(r["body"][name] for name in names) for r in records if r["kind"] == "relation"}  # type: ignore[misc]


@pytest.mark.requirement("T-01")
def test_a_decision_with_its_reasons() -> None:
    records = told(
        (
            "decision.made",
            {"decision": "Keep the trace", "rationale": ["Replayable."], "alternatives_considered": ["Drop it"]},
        )
    )
    entity = the(records, "entity")
    assert (entity["body"]["entity_type"], entity["body"]["name"]) == ("decision", "Keep the trace")
    assert entity["text"].endswith("rationale: Replayable; alternatives considered: Drop it")
    assert "Drop it" in entity["text"]
    assert edges(records) == {("actor", "ada", "made_decision", "decision", "Keep the trace")}


@pytest.mark.requirement("T-02")
def test_a_diagnosed_issue_with_its_cause_and_fix() -> None:
    records = told(("issue.diagnosed", {"issue": "no results", "root_cause": "not projected", "fix": "add extractors"}))
    entity = the(records, "entity")
    assert entity["text"] == "issue no results (diagnosed): not projected; add extractors"
    assert edges(records) == {("actor", "ada", "diagnosed_issue", "issue", "no results")}


@pytest.mark.requirement("T-03")
def test_runs_of_one_check_keep_their_outcomes() -> None:
    records = told(
        ("verification.recorded", {"command": "pytest", "outcome": "failed", "summary": "3 failed"}),
        ("verification.recorded", {"command": "pytest", "outcome": "passed", "summary": "382 passed"}),
    )
    body = the(records, "entity")["body"]
    assert [outcome for _, outcome in body["outcomes"]] == ["failed", "passed"]
    assert body["properties"]["outcome"] == "passed"
    assert edges(records) == {("actor", "ada", "recorded_verification", "verification", "pytest")}


@pytest.mark.requirement("T-04")
def test_a_handoff_with_next_steps_and_risks() -> None:
    handoff = {"title": "MCP", "summary": "Online.", "next_steps": ["Add rate limits"], "risks": ["Sparse traces"]}
    entity = the(told(("handoff.created", handoff)), "entity")
    assert entity["body"]["properties"]["status"] == "created"
    assert "Add rate limits" in entity["text"]
    assert "Sparse traces" in entity["text"]


@pytest.mark.requirement("T-05")
def test_a_context_policy_is_an_entity_and_its_instructions_are_policies() -> None:
    policy = {"source": "AGENTS.md", "project": "Vero", "instructions": ["Write tests first.", "Do not store secrets."]}
    records = told(("context.policy", policy))
    assert the(records, "entity")["body"]["name"] == "Vero:AGENTS.md"
    said = {record["text"]: record["body"]["negated"] for record in records if record["kind"] == "policy"}
    assert said == {"Write tests first": False, "Do not store secrets": True}


@pytest.mark.requirement("T-06", "T-10")
def test_completions_hang_on_their_session_and_what_tools_print_is_bounded_and_not_searched() -> None:
    records = told(
        ("tool.call.completed", {"tool_name": "shell", "status": "succeeded", "session_id": "z", "call_id": "c1"}),
        (
            "command.completed",
            {"command": "make", "exit_code": 0, "outcome": "passed", "stdout_excerpt": "spam " * 13_000},
        ),
        ("file.edit.applied", {"path": "core.py", "operation": "modified", "summary": "Added a hook."}),
    )
    assert edges(records) == {
        ("session", "z", "completed_tool_call", "tool_call", "z:shell:c1"),
        ("session", "s", "completed_command", "command_run", "s:make:1"),
        ("session", "s", "applied_file_edit", "file_edit", "s:core.py:2"),
    }
    (run,) = [r for r in records if r["body"].get("entity_type") == "command_run"]
    assert len(run["body"]["properties"]["stdout_excerpt"]) <= 240
    assert "spam" not in run["text"]


@pytest.mark.requirement("T-07", "T-08", "T-09")
def test_subagents_sessions_compactions_checkpoints_and_migrations() -> None:
    records = told(
        ("subagent.completed", {"parent_session_id": "main", "subagent_session_id": "w1", "summary": "Found it."}),
        ("compaction.completed", {"mode": "rewrite", "status": "succeeded", "log_path": "a.jsonl", "event_count": 120}),
        (
            "hook.checkpoint",
            {"summary": "Finished install mode.", "reason": "manual", "turn_count": 7, "workspace": "/repo"},
        ),
        (
            "schema.migration.proposed",
            {"surface": "tools", "from_version": "0.9", "to_version": "1.0", "change": "Rename"},
        ),
        ("schema.migration.applied", {"surface": "tools", "proposal_event_seq": 3, "verification": ["pytest -q"]}),
        ("session.ended", {"reason": "teardown", "status": "succeeded"}),
    )
    assert ("session", "main", "completed_subagent", "subagent_run", "main:w1:0") in edges(records)
    assert any(r["kind"] == "relation" and "Found it." in r["text"] for r in records)
    entities = {r["body"]["entity_type"]: r for r in records if r["kind"] == "entity"}
    assert "Finished install mode." in entities["hook_checkpoint"]["text"]
    assert entities["hook_checkpoint"]["body"]["properties"]["turn_count"] == 7
    assert entities["compaction_run"]["body"]["properties"]["event_count"] == 120
    assert entities["session_end"]["text"].endswith("succeeded; teardown")
    migration = entities["schema_migration"]["body"]
    assert migration["properties"]["status"] == "applied"
    name = migration["name"]
    assert ("schema_migration", name, "affects_surface", "contract_surface", "tools") in edges(records)
    assert ("schema_migration", name, "targets_version", "release_version", "1.0") in edges(records)


def test_goals_tasks_and_preferences() -> None:
    records = told(
        ("goal.created", {"title": "Ship 1.0", "description": "By May."}),
        ("task.proposed", {"taskId": "t1", "goalTitle": "Ship 1.0", "summary": "Write the notes."}),
        ("task.claimed", {"taskId": "t1"}),
        ("task.completed", {"taskId": "t1", "summary": "Notes are written."}),
        ("user.preference_changed", {"userId": "kim", "key": "theme", "value": "dark"}),
    )
    assert {
        ("goal", "Ship 1.0", "has_task", "task", "t1"),
        ("user", "kim", "has_theme", "preference", "kim:theme"),
    } <= edges(records)
    (task,) = [r for r in records if r["body"].get("entity_type") == "task"]
    assert task["text"] == "task t1 (completed): Notes are written."
    memories = {r["text"]: r["body"]["memory"] for r in records if r["kind"] == "memory"}
    assert memories == {"team aims at Ship 1.0": "goal", "kim's theme is dark": "preference"}


def test_a_changed_preference_replaces_the_one_before() -> None:
    records = told(
        *(("user.preference_changed", {"userId": "kim", "key": "theme", "value": value}) for value in ("dark", "light"))
    )
    assert [r["text"] for r in holding(records) if r["kind"] == "memory"] == ["kim's theme is light"]


@pytest.mark.requirement("T-11", "R-12")
def test_an_unknown_type_is_searchable_without_secrets_and_nested_values() -> None:
    content = {
        "colour": "teal", "n": 3, "tags": ["a", "b"], "token": "canary-1", "inner": {"deep": "canary-2"},
        "password": "canary-3", "list": [{"deep": "canary-4"}],
    }  # fmt: skip
    (entity,) = told(("x-acme-thing", content))
    assert entity["text"] == "ada emitted x-acme-thing colour=teal n=3 tags=a, b"
    assert "canary" not in str(entity)


@pytest.mark.requirement("R-08", "Y06")
@pytest.mark.parametrize(
    "kind", ["metacognition.confidence.assessed", "memory.reinforced", "skill.proposed", "skill.contradicted"]
)
def test_what_has_no_authority_states_nothing_and_is_mined_for_nothing(kind: str) -> None:
    claim = {"claim": "The api uses Redis.", "content": "The api uses Redis.", "entity_name": "x", "skill_id": "s"}
    whole = {**claim, "assessment_id": "a", "claim_key": "k", "confidence": 1, "authority_status": "non_authoritative"}
    for content in (claim, whole):
        assert {r["kind"] for r in told((kind, content))} <= {"entity", "relation"}
    plain = [session(n) for n in range(12)]
    doubted = [
        [*own, {**own[-1], "event_id": f"x{n}", "sequence": 99, "event_type": kind, "content": whole}]
        for n, own in enumerate(plain)
    ]
    assert law_five(artifacts_of(chain(*doubted))) == law_five(artifacts_of(chain(*plain)))


REF = {"seq": 7, "hash": "a" * 64}
DOUBTS: dict[str, tuple[str, Record, list[str]]] = {
    "metacognition.unknown.recorded": (
        "known_unknown",
        {
            "unknown_id": "u1", "question": "Which backend caused the spike?", "reason": "It conflicts.",
            "claim_key": "spike", "gap_type": "conflicting_evidence", "status": "open", "source_events": [REF],
        },
        ["source_event"],
    ),
    "metacognition.confidence.assessed": (
        "confidence_assessment",
        {"assessment_id": "a1", "claim": "The api uses Redis.", "claim_key": "api", "confidence": 0.4, "method": "m"},
        [],
    ),
    "metacognition.conflict.clustered": (
        "conflict_cluster",
        {
            "cluster_id": "c1", "claim_key": "api", "claim": "The api uses Redis.", "confidence": 0.5,
            "reason": "Two say so, two do not.", "resolution_status": "unresolved",
            "supporting_source_events": [REF], "conflicting_source_events": [REF, {"seq": 8, "hash": "b" * 64}],
        },
        ["supporting_source_event", "conflicting_source_event"],
    ),
    "metacognition.reverify.requested": (
        "reverify_request",
        {
            "reverify_id": "r1", "query": "Is it Redis?", "reason": "It is old.", "claim_key": "api",
            "priority": "high", "status": "open", "source_events": [REF],
        },
        ["source_event"],
    ),
}  # fmt: skip


@pytest.mark.requirement("R-09")
@pytest.mark.parametrize("kind", DOUBTS)
def test_metacognition_is_four_kinds_of_entity_with_their_sources(kind: str) -> None:
    entity_type, content, refs = DOUBTS[kind]
    content = {**content, "authority_status": "non_authoritative"}
    entity = the(told((kind, content)), "entity")["body"]
    assert entity["entity_type"] == entity_type
    kept = {name: value for name, value in content.items() if not name.endswith("_events")}
    assert kept.items() <= entity["properties"].items()
    for ref in refs:
        listed = content[f"{ref}s"]
        assert entity["properties"][f"{ref}_refs"] == [f"{one['seq']}:{one['hash']}" for one in listed]
        assert entity["properties"][f"{ref}_hashes"] == [one["hash"] for one in listed]
    for ref in refs:
        for broken in ([], [{**REF, "seq": 0}], [{**REF, "hash": "A" * 64}], ["7:a"], {}, None):
            assert told((kind, {**content, f"{ref}s": broken})) == []
    for needed in ("claim_key", "authority_status", next(iter(content))):
        assert told((kind, {**content, needed: ""})) == []
    assert told((kind, {**content, "authority_status": "authoritative"})) == []


SKILL = {
    "skill_id": "test-first", "name": "Test first", "version": "1", "summary": "Write the failing test first.",
    "procedure": ["Write a test", "Run pytest"], "applicability": ["Python features"], "citations": ["event 12"],
}  # fmt: skip


@pytest.mark.requirement("R-10")
def test_a_skill_has_versions_and_neither_its_use_nor_an_outcome_changes_them() -> None:
    uses = [("skill.applied", {"skill_id": "test-first", "version": "1", "task": "fix it"})] * 10
    outcome = {"skill_id": "test-first", "version": "1", "task": "fix it", "success_score": 1.5, "evidence": ["pytest"]}
    records = told(
        ("skill.proposed", SKILL),
        ("skill.validated", {"skill_id": "test-first"}),
        *uses,
        ("skill.outcome_recorded", outcome),
        ("skill.deprecated", {"skill_id": "test-first", "version": "2", "rollback": "Use version 1."}),
    )
    entities = {(r["body"]["entity_type"], r["body"]["name"]): r["body"] for r in records if r["kind"] == "entity"}
    assert entities["skill", "skill:test-first"]["summary"] == "Test first"
    first = entities["skill_version", "skill:test-first:v1"]["properties"]
    assert {**SKILL, "status": "validated"}.items() <= first.items()
    second = entities["skill_version", "skill:test-first:v2"]["properties"]
    assert (second["status"], second["rollback"]) == ("deprecated", "Use version 1.")
    (kept,) = [body["properties"] for (kind, _), body in entities.items() if kind == "skill_outcome"]
    assert (kept["success_score"], kept["evidence"]) == (1.0, ["pytest"])
    has_version = {edge[4] for edge in edges(records) if edge[2] == "has_version"}
    assert has_version == {"skill:test-first:v1", "skill:test-first:v2"}
    assert {edge[2] for edge in edges(records)} == {
        "has_version", "proposed_skill", "validated_skill", "deprecated_skill", "applied_to_task", "recorded_outcome",
    }  # fmt: skip


DECISION = ("decision.made", {"decision": "Keep the trace", "summary": "It is replayable."})
AIMED = {"entity_name": "Keep the trace", "entity_type": "decision"}


@pytest.mark.requirement("R-02")
def test_a_reinforcement_adds_to_its_target_and_rewrites_nothing() -> None:
    again = {
        **AIMED,
        "summary": "Drop the trace.",
        "status": "gone",
        "expires_at": "2020-01-01T00:00:00Z",
        "importance": 0.9,
        "reinforcement_count": 3,
    }
    plain = told(DECISION)
    records = told(DECISION, *[("memory.reinforced", again)] * 12)
    before, after = the(plain, "entity"), next(r for r in records if r["kind"] == "entity")
    added = {"importance": 0.9, "reinforcement_count": 3, "last_reinforced_at": "2026-08-17T00:00:12.000Z"}
    assert {**after["body"], "properties": {}} == {**before["body"], "properties": {}}
    properties = after["body"]["properties"]
    assert {**added, "last_reinforced_at": properties["last_reinforced_at"]} == properties
    assert properties["last_reinforced_at"] > after["created_at"]
    assert {**after, "body": 0} == {**before, "body": 0}
    assert ("actor", "ada", "reinforced_memory", "decision", "Keep the trace") in edges(records)


@pytest.mark.requirement("R-02")
@pytest.mark.parametrize("count", [0, -1, 1.5, "3", True, None])
def test_a_count_that_is_no_positive_number_is_dropped(count: Any) -> None:
    records = told(DECISION, ("memory.reinforced", {**AIMED, "reinforcement_count": count}))
    (entity,) = [r for r in records if r["kind"] == "entity"]
    assert "reinforcement_count" not in entity["body"]["properties"]


@pytest.mark.requirement("R-02")
def test_what_nobody_has_told_is_not_told_by_its_reinforcement() -> None:
    assert [r for r in told(("memory.reinforced", AIMED)) if r["kind"] != "relation"] == []


@pytest.mark.requirement("R-03", "X26")
@pytest.mark.parametrize("feedback", ["irrelevant", "wrong", "helpful"])
def test_feedback_on_a_memory_is_kept_and_changes_nothing_else(feedback: str) -> None:
    about = {**AIMED, "feedback": feedback, "source": "keyword", "score": 0.42}
    plain, heard = told(DECISION), told(DECISION, ("memory.feedback", about))
    kept = ("memory_feedback", "reinforcement")
    assert [r for r in heard if r["body"].get("entity_type") not in kept] == plain
    (audit,) = [r for r in heard if r["body"].get("entity_type") == "memory_feedback"]
    assert about.items() <= audit["body"]["properties"].items()
    sessions = [session(n) for n in range(12)]
    told_of = [
        [
            *own,
            {
                **own[-1],
                "event_id": f"x{n}",
                "sequence": 99,
                "event_type": "memory.feedback",
                "content": {"feedback": feedback, "signal": "negative"},
            },
        ]
        for n, own in enumerate(sessions)
    ]
    assert law_five(artifacts_of(chain(*told_of))) == law_five(artifacts_of(chain(*sessions)))


FIELDS = (
    "decision", "issue", "command", "title", "project", "source", "key", "value", "taskId", "tool_name", "outcome",
    "path", "subagent_session_id", "mode", "summary", "reason", "surface", "to_version", "goalTitle",
    "skill_id", "task",
)  # fmt: skip


@pytest.mark.requirement("T-12")
def test_whatever_session_comes_first_typed_events_leave_the_same_records_to_the_byte() -> None:
    """They speak of the same things, and say other things of them."""
    sessions = [
        [
            event(
                f"s{n}",
                place,
                at=START_MS - 86_400_000 + 60_000 * n + 1_000 * place,
                event_type=kind,
                content={name: f"{name} {(n + len(name)) % 2}" for name in FIELDS},
            )
            for place, kind in enumerate(("x-acme-thing", *AGENT_TYPES))
        ]
        for n in range(4)
    ]
    one_by_one = by_id(knowledge_of(e for session in sessions for e in session))
    assert {r["body"]["entity_type"] for r in one_by_one if r["kind"] == "entity"} >= {"event", "decision", "task"}
    for seed in range(3):
        assert by_id(knowledge_of(interleaved(sessions, random.Random(seed)))) == one_by_one


def by_id(records: list[Record]) -> list[Record]:
    return sorted(records, key=lambda record: str(record["record_id"]))


@pytest.mark.parametrize("kind", sorted(AGENT_TYPES))
def test_a_vendor_s_name_for_a_type_counts_as_the_type_and_an_empty_event_is_no_fault(kind: str) -> None:
    assert told((f"x-acme-{kind}", {})) == told((kind, {}))


def test_a_changed_state_with_a_key_is_a_fact() -> None:
    (record,) = told(("state_change", {"key": "deploy_target", "from": "blue", "to": "green"}))
    assert record["text"] == "deploy_target is green"


@pytest.mark.parametrize(
    "told_as",
    [
        ("state_change", {"key": "db.password", "from": "blue", "to": "canary"}),
        ("user.preference_changed", {"userId": "kim", "key": "api_key", "value": "canary"}),
    ],
)
def test_what_is_a_secret_by_the_name_beside_it_is_not_known(told_as: tuple[str, dict[str, Any]]) -> None:
    assert told(told_as) == []
