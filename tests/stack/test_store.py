"""Memory in a real Redis: blocks under their guard, and what is read back."""

import random

import orjson
import pytest

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.headers import KIND
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.retrieval.retrieval_plan import EPISODES as EPISODES_FETCHED
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TornStateError, connect
from hmx_pipeline.store.changes import SESSION_STEPS
from hmx_pipeline.store.fetch import Ambiguous, Store
from hmx_pipeline.store.projection import ProjectionError, TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE
from tests.support.inprocess import artifacts_of, events_log, run, sessions_fold
from tests.support.memory import T0, Memory, artifact, artifact_as_read, contribution_as_read, episode, episode_as_read
from tests.support.sessions import session


def some_records() -> list[TopicRecord]:
    texts = ["deploy the staging environment", "kubectl cannot find the namespace", "the rollout of staging is fine"]
    episodes = [
        episode_as_read(
            episode(f"e{i}", text, at=T0 + i * 1000, index=i, session=f"s{i % 2}", tags=["t"]), i, partition=i % 2
        )
        for i, text in enumerate(texts)
    ]
    old = artifact("a1", status="superseded", superseded_by="a2")
    return [
        *episodes,
        contribution_as_read("c1", 0),
        artifact_as_read(artifact("a1"), 0),
        artifact_as_read(old, 1),
        artifact_as_read(artifact("a2", supersedes="a1", version=2), 2),
    ]


def test_the_same_block_twice_changes_nothing(memory: Memory) -> None:
    block = [episode_as_read(episode("e1", "deploy staging"), 0)]
    commands = memory.commands(block)
    assert memory.blocks.apply(f"{EPISODES}/0", None, 1, commands).at == 1
    once = memory.dump()
    assert memory.blocks.apply(f"{EPISODES}/0", None, 1, commands).at == 1
    assert memory.dump() == once


def test_a_block_read_from_another_position_changes_nothing(memory: Memory) -> None:
    memory.write(
        episode_as_read(episode("e1", "deploy staging"), 0), episode_as_read(episode("e2", "deploy again", index=1), 1)
    )
    before = memory.dump()
    late = memory.commands([episode_as_read(episode("zombie", "deploy", index=9), 1)])
    assert memory.blocks.apply(f"{EPISODES}/0", 1, 2, late).at == 2
    assert memory.blocks.apply(f"{EPISODES}/0", 5, 6, late).at == 2
    assert memory.blocks.apply(f"{EPISODES}/0", None, 6, late).at == 2
    assert memory.dump() == before


def test_a_block_for_an_emptied_redis_changes_nothing_and_says_so(memory: Memory) -> None:
    commands = memory.commands([episode_as_read(episode("e1"), 7)])
    assert memory.blocks.apply(f"{EPISODES}/0", 7, 8, commands).at is None
    assert memory.dump() == {}


def test_a_block_that_failed_half_way_is_noticed(memory: Memory) -> None:
    key = memory.keys.tenant("acme").documents
    memory.client.set(key, b"not a hash")
    with pytest.raises(TornStateError):
        memory.blocks.apply(f"{EPISODES}/0", None, 1, [(b"HSET", key, b"1", b"document")])
    with pytest.raises(TornStateError):
        memory.blocks.positions()


def test_binary_values_and_keys_arrive_as_they_are(memory: Memory) -> None:
    value = bytes(range(256))
    key = memory.keys.tenant("acme").postings("\x00\r\n")
    memory.blocks.apply(f"{EPISODES}/0", None, 1, [(b"APPEND", key, value)])
    assert memory.client.get(key) == value


@pytest.mark.requirement("K-05", "C-23")
def test_memory_built_anew_in_other_blocks_is_the_same(memory: Memory) -> None:
    records = some_records()
    memory.write(*records)
    before, pack = memory.dump(), memory.pack("deploy staging namespace")
    assert pack.entries
    memory.wipe()
    for record in sorted(records, key=lambda r: (r.offset, r.topic, r.partition)):
        memory.write(record)
    assert memory.dump() == before
    assert memory.pack("deploy staging namespace") == pack


def test_any_cut_into_blocks_gives_the_same_memory(memory: Memory) -> None:
    dice = random.Random(7)
    texts = [" ".join(dice.choices(["deploy", "staging", "Überraschung", "検査", "a/b c%d"], k=6)) for _ in range(60)]
    records = [
        episode_as_read(episode(f"e{i}", text, index=i, session=f"s:{i % 3}", tags=["t", "é:"]), i, partition=i % 2)
        for i, text in enumerate(texts)
    ] + [contribution_as_read("c1", 0), *(artifact_as_read(artifact(f"a{i % 4}"), i) for i in range(9))]
    dumps = []
    for most in (len(records), 9, 1):
        memory.wipe()
        rest = list(records)
        while rest:
            size = dice.randint(1, most) if dumps else most
            memory.write(*rest[:size])
            rest = rest[size:]
        dumps.append(memory.dump())
    assert dumps[0] == dumps[1] == dumps[2]


def test_a_session_keeps_its_last_steps_however_the_blocks_are_cut(memory: Memory) -> None:
    call = {"tool_name": "ls", "arguments": {}}
    acts = [episode(f"e{i}", event_type="tool_call", content=call, index=i) for i in range(SESSION_STEPS + 40)]
    records = [episode_as_read(act, i) for i, act in enumerate(acts)]
    key = memory.keys.tenant("acme").session("s1")
    for cut in (len(records), 7):
        memory.wipe()
        for start in range(0, len(records), cut):
            memory.write(*records[start : start + cut])
        kept = [int(at) for _, at in memory.client.zrange(key, 0, -1, withscores=True)]
        assert kept == list(range(40, SESSION_STEPS + 40))


def test_of_an_artifact_that_changes_within_a_block_only_the_last_is_found(memory: Memory) -> None:
    records = [
        artifact_as_read(artifact("a1", "Deploy staging"), 0),
        artifact_as_read(artifact("a1", "Deploy staging", status="superseded", superseded_by="a2"), 1),
        artifact_as_read(artifact("a2", "Roll staging out", supersedes="a1", version=2), 2),
        artifact_as_read(artifact("a3", "Deploy staging too"), 3),
        TopicRecord(ARTIFACTS, 0, 4, join_key("acme", "a3").encode(), None, []),
    ]
    memory.write(*records)
    together = memory.dump()
    assert memory.found("deploy staging") == ["a2"]
    memory.wipe()
    for record in records:
        memory.write(record)
    assert memory.dump() == together


def test_ids_as_long_as_they_may_be_are_stored_and_found(memory: Memory) -> None:
    event_id, session = "é/" * (ID_BYTES // 3), "s:" * (ID_BYTES // 2)
    memory.write(episode_as_read(episode(event_id, "deploy staging", session=session), 0))
    found = memory.store.get_event("acme", event_id, session)
    assert isinstance(found, dict)
    assert (found["id"], found["sessionId"]) == (event_id, session)
    assert memory.store.get_event("acme", event_id) == found


def test_a_superseded_artifact_is_not_found_but_resolves(memory: Memory) -> None:
    memory.write(*some_records())
    assert "a2" in memory.found("deploy staging")
    assert "a1" not in memory.found("deploy staging")
    old = memory.store.get_artifact("acme", "a1")
    assert old is not None
    assert (old["status"], old["superseded_by"]) == ("superseded", "a2")


@pytest.mark.requirement("A-10", "X10")
def test_an_artifact_of_a_custom_type_is_kept_and_listed_as_it_came(memory: Memory) -> None:
    runbook = artifact("r1", "Drain the queue", artifact_type="x-acme-runbook", content={"call": "Ann", "n": 1})
    memory.write(artifact_as_read(runbook, 0))
    assert memory.store.get_artifact("acme", "r1") == orjson.loads(runbook.to_json())
    assert memory.store.list_artifacts("acme", "x-acme-runbook", Status.ACTIVE).artifacts[0]["artifact_id"] == "r1"


def test_an_erased_artifact_leaves_nothing_behind_but_that_its_id_has_changed(memory: Memory) -> None:
    memory.write(artifact_as_read(artifact("a1", metadata={"lineage_tags": ["t"]}), 0))
    memory.write(TopicRecord(ARTIFACTS, 0, 1, join_key("acme", "a1").encode(), None, []))
    assert memory.store.get_artifact("acme", "a1") is None
    assert memory.found("deploy staging") == []
    tenant = memory.keys.tenant("acme")
    assert set(memory.dump()) == {
        key.removeprefix(memory.keys.prefix.encode())
        for key in (
            memory.keys.positions,
            memory.keys.guard(f"{ARTIFACTS}/0"),
            memory.keys.tenants,
            tenant.version,
            tenant.artifact_changes(0),
        )
    }


def test_artifacts_are_listed_by_status_and_type_page_by_page(memory: Memory) -> None:
    records = [artifact_as_read(artifact(f"a{i}", status="draft" if i == 3 else "active"), i) for i in range(5)]
    playbook = artifact("p1", artifact_type="failure_playbook", content={"failure_pattern": "no namespace"})
    memory.write(*records, artifact_as_read(playbook, 5))

    def ids(**asked: object) -> list[str]:
        return [a["artifact_id"] for a in memory.store.list_artifacts("acme", **asked).artifacts]  # type: ignore[arg-type]

    assert ids() == ["a0", "a1", "a2", "a4", "p1"]
    assert ids(artifact_type="failure_playbook") == ["p1"]
    assert ids(status=Status.DRAFT) == ["a3"]
    first = memory.store.list_artifacts("acme", limit=2)
    assert ([a["artifact_id"] for a in first.artifacts], first.total) == (["a0", "a1"], 5)
    assert ids(limit=3, cursor=first.cursor) == ["a2", "a4", "p1"]
    assert memory.store.list_artifacts("acme", limit=3, cursor=first.cursor).cursor is None


@pytest.mark.requirement("C-03")
def test_every_source_of_a_pack_resolves(memory: Memory) -> None:
    memory.write(*some_records())
    pack = memory.pack("deploy staging namespace")
    assert {entry.source_type for entry in pack.entries} == {"artifact", "episode"}
    for entry in pack.entries:
        if entry.source_type == "artifact":
            found = memory.store.get_artifact("acme", entry.source_id)
            assert found is not None
            assert Artifact.model_validate(found).status is Status.ACTIVE
            assert all(memory.store.get_contribution("acme", i) for i in found["source_memory_ids"])
        else:
            session = pack.metadata["sources"][entry.source_id]["session_id"]
            found = memory.store.get_event("acme", entry.source_id, session)
            assert isinstance(found, dict)
            assert found["id"] == entry.source_id


@pytest.mark.requirement("E-17")
def test_a_pack_filtered_by_tags_holds_only_what_rests_on_events_that_carry_them_all(memory: Memory) -> None:
    """Deployments are tagged `staging`, every other rotation `vault`, every third session `third`."""
    events, rotations = [], 0
    for number in range(24):
        sent = session(number)
        rotates = "rotate" in sent[0]["content"]["text"]
        rotations += rotates
        tags = ["third"] * (number % 3 == 0) + (["vault"] * (rotations % 2) if rotates else ["staging"])
        events += [{**event, "tags": tags} if tags else event for event in sent]
    records = events_log(events, partitions=1)[0]
    episodes = run(sessions_fold, records).episodes
    compiled = [Artifact.model_validate(fields) for fields in artifacts_of(events, partitions=1)]
    memory.write(*(episode_as_read(fields, n) for n, fields in enumerate(episodes)))
    memory.write(*(artifact_as_read(made, n) for n, made in enumerate(compiled)))
    carried = {event["event_id"]: set(event.get("tags", ())) for event in events}

    def sources(*tags: str) -> dict[str, set[str]]:
        """By kind the ids in the pack; all that they rest on carries the tags."""
        asked = "rotate credentials, restart the service: namespace not found, deploy to staging"
        pack = memory.pack(asked, tags=list(tags))
        assert pack.tags == list(tags)
        found: dict[str, set[str]] = {"artifact": set(), "episode": set()}
        for entry in pack.entries:
            made = memory.store.get_artifact("acme", entry.source_id) if entry.source_type == "artifact" else None
            rests_on = made["source_events"] if made else [entry.source_id]
            assert all(carried[event] >= set(tags) for event in rests_on)
            found[entry.source_type].add(made["title"] if made else entry.source_id)
        assert pack.assembly_metadata.candidate_count == len(pack.entries) + pack.token_budget.dropped_count
        return found

    everything, staging, vault = sources(), sources("staging"), sources("vault")
    assert everything["artifact"] - staging["artifact"] == {"Namespace not found (restart service)"}
    assert staging["artifact"]
    assert staging["episode"]
    assert vault["episode"]
    assert not vault["artifact"], "half of what they rest on is not tagged"
    assert sources("staging", "third")["episode"] < sources("third")["episode"]
    assert sources("staging", "vault") == sources("unheard of") == {"artifact": set(), "episode": set()}


@pytest.mark.requirement("E-17")
def test_a_tagged_episode_is_found_behind_any_number_of_better_matches(memory: Memory) -> None:
    better = [episode(f"e{n}", "deploy staging", index=n) for n in range(EPISODES_FETCHED)]
    worse = episode("tagged", f"deploy {'something else ' * 20}", index=len(better), tags=["a:b", "é"])
    memory.write(*(episode_as_read(fields, n) for n, fields in enumerate([*better, worse])))
    assert "tagged" not in memory.found("deploy staging")
    assert memory.found("deploy staging", tags=["é", "a:b"]) == ["tagged"]
    assert memory.found("deploy staging", tags=["a"]) == []


@pytest.mark.requirement("E-04", "Y03")
def test_an_event_id_of_two_sessions_is_ambiguous_until_one_is_named(memory: Memory) -> None:
    both = [episode_as_read(episode("e1", "x", session=s), i) for i, s in enumerate(["s1", "s2"])]
    memory.write(*both, episode_as_read(episode("e2", "y", index=2), 2))
    assert memory.store.get_event("acme", "e1") == Ambiguous(("s1", "s2"))
    found = memory.store.get_event("acme", "e1", "s2")
    assert isinstance(found, dict)
    assert found["sessionId"] == "s2"
    asked = [("s1", "e1"), ("s2", "e1"), ("s3", "e1"), ("s", "e1"), ("s1", "e2"), ("s1", "e3")]
    assert memory.store.lacking("acme", asked) == [("s3", "e1"), ("s", "e1"), ("s1", "e3")]
    alone = memory.store.get_event("acme", "e2")
    assert isinstance(alone, dict)
    assert memory.store.get_event("acme", "e3") is None
    assert memory.store.get_event("acme", "e2", "s2") is None


@pytest.mark.requirement("E-04", "Y03")
def test_an_event_id_that_ever_more_sessions_use_has_no_end(memory: Memory) -> None:
    """Here a string may have 1 MB, elsewhere 512 MB: the episodes of an id outgrow it."""
    sessions = [f"session {n}" for n in range(1_100)]
    said = [episode_as_read(episode("1", "x" * 1_000, session=s), n) for n, s in enumerate([*sessions, sessions[0]])]
    (bound,) = memory.client.config_get("proto-max-bulk-len").values()
    memory.client.config_set("proto-max-bulk-len", "1mb")
    try:
        for start in range(0, len(said), 100):
            memory.write(*said[start : start + 100])
    finally:
        memory.client.config_set("proto-max-bulk-len", bound)
    asked = sessions[::100]  # each answer is searched among all of them
    found = [memory.store.get_event("acme", "1", session) for session in asked]
    assert [each["sessionId"] for each in found if isinstance(each, dict)] == asked
    assert memory.store.lacking("acme", [(s, "1") for s in [*sessions, "other"]]) == [("other", "1")]
    assert memory.store.get_event("acme", "1") == Ambiguous(tuple(sorted([sessions[0], *sessions[-31:]])))


@pytest.mark.parametrize("other", ["acme:", "acme}", "a{cme", "acme:term", "ACME", "acme%3A"])
def test_tenants_are_disjoint(memory: Memory, other: str) -> None:
    memory.write(
        episode_as_read(episode("mine", "deploy staging"), 0),
        episode_as_read(episode("theirs", "deploy staging", tenant=other, index=1), 1),
        artifact_as_read(artifact("a-mine"), 0),
        artifact_as_read(artifact("a-theirs", tenant=other), 1),
    )
    assert sorted(memory.found("deploy to staging")) == ["a-mine", "mine"]
    assert sorted(memory.found("deploy to staging", other)) == ["a-theirs", "theirs"]
    assert memory.store.get_event("acme", "theirs") is None
    assert memory.store.get_artifact(other, "a-mine") is None
    assert memory.store.tenants() == sorted(["acme", other])


def test_another_tenants_records_do_not_change_a_tenants_pack(memory: Memory) -> None:
    memory.write(episode_as_read(episode("mine", "deploy staging"), 0))
    before = memory.pack("deploy")
    memory.write(episode_as_read(episode("theirs", "deploy staging", tenant="zeta", index=1), 1))
    assert memory.pack("deploy") == before


def test_ticks_and_barriers_on_the_evidence_topic_leave_no_trace(memory: Memory) -> None:
    control = TopicRecord(EVIDENCE, 0, 0, b"", b'{"kind":"tick"}', [(KIND, b"tick")])
    assert memory.commands([control]) == []


def test_a_record_that_is_not_what_its_topic_says_is_refused_without_its_values() -> None:
    with pytest.raises(ProjectionError) as refusal:
        commands_of(Keys(""), [TopicRecord(EPISODES, 0, 0, b"k", b'{"id": "hunter2"}', [])])
    assert "hunter2" not in str(refusal.value)


def test_a_redis_that_is_away_is_one_kind_of_error() -> None:
    store = Store([connect("redis://127.0.0.1:1/0")], Keys(""))
    with pytest.raises(StoreUnavailableError):
        store.tenants()


def test_a_question_of_one_common_word_and_a_time_is_answered_and_of_the_word_alone_is_not(memory: Memory) -> None:
    said = [episode(f"e{n}", f"the nightly export {'failed' if n % 2 else 'ran'}", index=n) for n in range(12)]
    memory.write(*(episode_as_read(each, n) for n, each in enumerate(said)))
    assert memory.found("what failed since last week", fill="relevant")
    assert not memory.found("what failed", fill="relevant")
