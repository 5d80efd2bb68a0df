"""What packs from a real Redis are restricted to, what they bring back on request, and what has lost its ground."""

import json
from typing import Any

import pytest

from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval.retrieval_plan import EPISODES
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.topology import ARTIFACTS
from tests.stack.test_store_knowledge import as_read
from tests.support.memory import T0, Memory, artifact, artifact_as_read, episode, episode_as_read, procedure
from tests.support.talk import knowledge_of, said

DAY = 86_400_000


def episodes(*fields: dict[str, Any]) -> list[TopicRecord]:
    made = [
        episode(f"e{n}", one.pop("text", f"deploy staging word{n}"), index=n, **one) for n, one in enumerate(fields)
    ]
    return [episode_as_read(fields, n) for n, fields in enumerate(made)]


@pytest.mark.requirement("E-15", "E-17")
def test_a_pack_of_one_session_agent_trace_or_source_holds_only_what_comes_from_there(memory: Memory) -> None:
    memory.write(
        *episodes(
            {"session": "s1", "agent_id": "ann", "trace_id": "t1", "source": "cli"},
            {"session": "s2", "agent_id": "bob", "trace_id": "t1", "source": "ide"},
            {"session": "s2", "agent_id": "ann", "trace_id": "t2"},
        ),
        artifact_as_read(artifact("a1", metadata={"lineage_agent": "ann"}), 0),
        artifact_as_read(artifact("a2", content=procedure("x y"), metadata={"lineage_session": "s2"}), 1),
    )

    def only(**lineage: str) -> set[str]:
        pack = memory.pack("deploy staging", lineage=lineage)
        assert pack.assembly_metadata.candidate_count == len(pack.entries) + pack.token_budget.dropped_count
        return {entry.source_id for entry in pack.entries}

    assert only(session_id="s1") == {"e0"}
    assert only(session_id="s2") == {"e1", "e2", "a2"}
    assert only(agent_id="ann") == {"e0", "e2", "a1"}
    assert only(trace_id="t1") == {"e0", "e1"}, "one trace links two sessions"
    assert only(source="ide") == {"e1"}
    assert only(session_id="s2", agent_id="ann") == {"e2"}
    assert only(session_id="nowhere") == set()


def test_knowledge_is_of_the_session_that_alone_says_it(memory: Memory) -> None:
    facts = knowledge_of([*said("s1", "Our database is Postgres."), *said("s2", "Our region is Oslo.", at=1)])
    memory.write(*as_read(facts))
    texts = [e.content for e in memory.pack("database and region", lineage={"session_id": "s2"}).entries]
    assert len(texts) == 1
    assert "Oslo" in texts[0]


def test_what_does_not_hold_any_more_is_dropped_with_its_reason_and_shown_on_request(memory: Memory) -> None:
    records = knowledge_of([*said("s1", "Our database is Postgres."), *said("s2", "Our database is MySQL.", at=DAY)])
    memory.write(*as_read(records))
    old = next(r["record_id"] for r in records if r["status"] == "superseded")
    pack = memory.pack("which database do we have")
    assert {d.source_id: d.drop_reason.value for d in pack.dropped_entries or ()} == {old: "deprecated"}
    assert old in memory.found("which database do we have", include=["superseded"])


def chain() -> list[TopicRecord]:
    """Three versions, the last deprecated; another pattern was archived, a third was never more than a draft."""
    was_active = {"transition": {"from": "active", "to": "superseded", "cause": "newer"}}

    def version(number: int, **fields: Any) -> Any:
        told = {"pattern": "p", "chain": 1, **fields.pop("metadata", {})}
        before = {"supersedes": f"v{number - 1}"} if number > 1 else {}
        created = format_ms(T0 + number * DAY)
        content = procedure(f"way{number} of it")
        return artifact(
            f"v{number}", content=content, version=number, created_at=created, metadata=told, **before, **fields
        )

    gone = {"transition": {"from": "active", "to": "deprecated", "cause": "contradicted"}}
    made = [
        version(1, status="superseded", superseded_by="v2", updated_at=format_ms(T0 + 9 * DAY), metadata=was_active),
        version(2, status="superseded", superseded_by="v3", updated_at=format_ms(T0 + 9 * DAY), metadata=was_active),
        version(3, status="deprecated", updated_at=format_ms(T0 + 8 * DAY), metadata=gone),
        artifact("arch", "Deploy staging", status="archived", updated_at=format_ms(T0 + 9 * DAY),
                 metadata={"transition": {"from": "active"}}),
        artifact("dead", "Deploy staging", status="deprecated", updated_at=format_ms(T0),
                 metadata={"transition": {"from": "draft"}}),
        artifact("draft", "Deploy staging", status="draft"),
    ]  # fmt: skip
    return [artifact_as_read(one, n) for n, one in enumerate(made)]


@pytest.mark.requirement("C-22")
def test_deprecated_artifacts_are_dropped_archived_and_superseded_shown_on_request_and_drafts_never(
    memory: Memory,
) -> None:
    memory.write(*chain())
    pack = memory.pack("deploy staging")
    assert not pack.entries
    assert {d.source_id: d.drop_reason.value for d in pack.dropped_entries or ()} == {
        "v3": "deprecated",
        "arch": "deprecated",
    }
    assert memory.found("deploy staging", include=["archived"]) == ["arch"]
    assert set(memory.found("deploy staging", include=["superseded"])) == {"v1", "v2"}


def test_as_of_a_time_the_version_that_stood_then_is_found_through_the_last_one(memory: Memory) -> None:
    memory.write(*chain(), *episodes({"at": T0 + 30 * DAY, "text": "something else"}))

    def then(days: float) -> set[str]:
        return set(memory.found("deploy staging", as_of=format_ms(T0 + int(days * DAY))))

    assert then(0.5) == {"arch"}
    assert then(1.5) == {"v1", "arch"}
    assert then(2.5) == {"v2", "arch"}
    assert then(7) == {"v3", "arch"}
    assert then(8.5) == {"arch"}
    assert then(20) == set()


def test_an_earlier_episode_is_found_behind_any_number_of_better_later_matches(memory: Memory) -> None:
    later = [{"at": T0 + DAY + n, "text": f"deploy staging word{n}"} for n in range(EPISODES + 50)]
    memory.write(*episodes(*later, {"at": T0, "text": "deploy and a few other words beside"}))
    assert memory.found("deploy staging", as_of=format_ms(T0)) == [f"e{EPISODES + 50}"]


@pytest.mark.requirement("E-12", "C-22", "Y05", "Y10")
def test_what_rests_on_nothing_but_expired_events_fails_its_provenance(memory: Memory) -> None:
    facts = knowledge_of(
        [
            *said("s1", "Our database is Postgres."),
            *said("s2", "Our region is Oslo.", at=1),
            *said("s3", "Always run the linter before committing.", at=2),
        ]
    )
    lost, kept, rule = (next(f for f in facts if name in f["text"]) for name in ("Postgres", "Oslo", "linter"))
    expiring = [
        episode(event, content={"role": "assistant", "text": "our database code"}, at=T0, index=n, ttl_seconds=60)
        for n, event in enumerate([*lost["source_events"], *rule["source_events"]])
    ]
    made = [
        artifact("gone", content=procedure("a b"), source_events=lost["source_events"]),
        artifact("stays", content=procedure("c d"), source_events=[*lost["source_events"], "another"]),
        artifact("older", content=procedure("e f"), source_events=["another", *lost["source_events"]]),
    ]
    memory.write(*as_read(facts), *(artifact_as_read(one, n) for n, one in enumerate(made)))
    memory.write(*(episode_as_read(one, n) for n, one in enumerate(expiring)))
    question = "deploy staging database region code"

    def reasons() -> dict[str, str]:
        return {d.source_id: d.drop_reason.value for d in memory.pack(question).dropped_entries or ()}

    assert "provenance_failed" not in reasons().values()
    assert lost["source_events"][0] in memory.found(question)
    clock = episode("later", "a word", at=T0 + 61_000, index=len(expiring))
    memory.write(episode_as_read(clock, len(expiring)))
    assert reasons() == dict.fromkeys([lost["record_id"], rule["record_id"], "gone"], "provenance_failed")
    assert {"stays", "older", kept["record_id"]} <= set(memory.found(question))
    assert lost["source_events"][0] not in memory.found(question)


@pytest.mark.requirement("E-12", "Y05")
def test_what_a_session_did_is_not_told_any_more_when_its_time_is_over(memory: Memory) -> None:
    failed = {"error_type": "PinError", "message": "the pin 1234 is wrong"}
    memory.write(*episodes({"event_type": "error", "content": failed, "session": "s1", "ttl_seconds": 60, "text": ""}))
    hints = memory.pack("deploy", session_id="s1").workflow_hints
    assert hints is not None
    assert "1234" in hints.blockers[0]
    memory.write(episode_as_read(episode("later", "a word", at=T0 + 61_000, index=1), 1))
    assert memory.pack("deploy", session_id="s1").workflow_hints is None


def test_what_redis_has_lost_is_told_and_not_waited_for(memory: Memory) -> None:
    memory.write(artifact_as_read(artifact("a1"), 0))
    memory.client.delete(memory.keys.tenant("acme").artifact("a1"))
    assert memory.pack("deploy staging").metadata["provenance_failed"] == ["artifact a1"]


@pytest.mark.requirement("C-22", "Y10", "A-29", "Y27")
def test_an_artifact_whose_content_is_not_what_its_hash_says_is_not_shown(memory: Memory) -> None:
    forged = json.loads(artifact("forged").to_json())
    forged["content"]["steps"][0]["description"] = "delete everything"
    memory.write(TopicRecord(ARTIFACTS, 0, 0, join_key("acme", "forged").encode(), json.dumps(forged).encode(), []))
    pack = memory.pack("deploy staging")
    assert {d.source_id: d.drop_reason.value for d in pack.dropped_entries or ()} == {"forged": "provenance_failed"}
    assert all(entry.section is not Section.PROCEDURES for entry in pack.entries)
    assert pack.workflow_hints is None
