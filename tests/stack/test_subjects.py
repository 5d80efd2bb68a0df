"""Two people of one tenant, in a real Redis: nobody is told what is private to the other, whichever way it is asked."""

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.retrieval import subject_column
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.store.fetch import Ambiguous, Store
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.subject_view import SubjectView
from hmx_pipeline.topology import EVIDENCE, KNOWLEDGE
from tests.stack.test_precedents import QUESTION, begun, hints, told
from tests.support.memory import T0, Memory, episode, episode_as_read

ANN, BOB = "ann@acme", "bob@acme"


def of(subject: str | None) -> dict[str, Any]:
    return {} if subject is None else {"metadata": {"subject_id": subject}}


def spoken(*said: tuple[str, str, str | None], first: int = 0) -> list[TopicRecord]:
    """Messages: session, text, and whom they name."""
    return [
        episode_as_read(episode(f"e{at}", text, session=session, index=at, at=T0 + at, **of(subject)), at)
        for at, (session, text, subject) in enumerate(said, first)
    ]


def known(record_id: str, text: str, subject: str | None = None, kind: str = "memory", **fields: Any) -> dict[str, Any]:
    memory = {"policy": {"memory": "policy"}, "memory": {"memory": "fact"}}[kind]
    body = {**memory, "subject": "user", "predicate": "has", "object": text}
    record = {
        "hmx_version": "HMX-1.0",
        "record_id": record_id,
        "kind": kind,
        "tenant_id": "acme",
        "pattern": "statement/1:x",
        "text": text,
        "body": body,
        "confidence": 0.9,
        "status": "active",
        "source_events": ["e"],
        "source_memory_ids": ["c"],
        "tags": [],
        "created_at": format_ms(T0),
        "validity": {"start": format_ms(T0)},
        **fields,
    }
    return record if subject is None else {**record, "subject_id": subject}


def made(name: str, subject: str, session: str) -> Contribution:
    return Contribution(
        contribution_id=name, tenant_id="acme", pattern_type="fact", pattern_key="p", session_id=session,
        segment_id="x", agent_id="a", first_at=T0, last_at=T0, subject=subject,
    )  # fmt: skip


def contributed(one: Contribution) -> TopicRecord:
    return TopicRecord(EVIDENCE, 0, 0, one.contribution_id.encode(), one.to_json(), [])


def as_read(records: Sequence[dict[str, Any]], first: int = 0) -> list[TopicRecord]:
    return [
        TopicRecord(KNOWLEDGE, 0, n, join_key("acme", r["record_id"]).encode(), orjson.dumps(r), [])
        for n, r in enumerate(records, first)
    ]


def texts(memory: Memory, query: str, subject: str | None, **asked: Any) -> str:
    return memory.pack(query, subject_id=subject, explain=True, as_text=True, **asked).to_json().decode()


@pytest.mark.requirement("Y19")
def test_each_sees_their_own_and_what_is_shared(memory: Memory) -> None:
    memory.write(
        *spoken(
            ("s1", "my locker code is heron", ANN), ("s2", "my locker code is otter", BOB), ("s3", "locker map", None)
        ),
        *as_read(
            [
                known("k1", "the locker key is a finch", ANN),
                known("k2", "the locker key is a mole", BOB),
                known("k3", "lockers are opened at nine"),
            ]
        ),
    )
    seen = {who: set(memory.found("locker code key map opened", subject_id=who)) for who in (None, ANN, BOB, "carol")}
    assert seen == {
        None: {"e2", "k3"},
        ANN: {"e0", "e2", "k1", "k3"},
        BOB: {"e1", "e2", "k2", "k3"},
        "carol": {"e2", "k3"},
    }


def test_others_records_push_out_none_of_ones_own(memory: Memory) -> None:
    memory.write(
        *spoken(*((f"b{n}", "the locker code locker code", BOB) for n in range(300))),
        *spoken(("a", "one locker among other furniture of the office", ANN), first=300),
        *as_read([known(f"k{n}", f"locker code {n}", BOB, "policy") for n in range(120)]),
        *as_read([known("own", "one locker among other furniture", ANN, "policy")], first=120),
    )
    assert set(memory.found("locker code", subject_id=ANN)) == {"e300", "own"}


@pytest.mark.parametrize("late", ["a message", "something that no pack shows"])
def test_what_was_said_before_a_session_got_its_subject_is_private_too(memory: Memory, late: str) -> None:
    memory.write(*spoken(("s1", "the locker code is heron", None)))
    assert memory.found("locker code") == ["e0"], "until then it belongs to all"
    shown = {"text": "it is me"} if late == "a message" else None
    content = (
        {"content": {"tool_name": "login", "arguments": {}}, "event_type": "tool_call"} if shown is None else shown
    )
    memory.write(episode_as_read(episode("e1", session="s1", index=1, at=T0 + 1, **content, **of(ANN)), 1))
    for store in (memory.store, Store([memory.client], memory.keys)):
        memory.store = store
        assert "heron" not in texts(memory, "locker code", None)
        assert "heron" not in texts(memory, "locker code", BOB)
        assert "heron" in texts(memory, "locker code", ANN)


def test_an_event_that_names_another_than_its_session_belongs_to_whom_it_names(memory: Memory) -> None:
    memory.write(*spoken(("s1", "locker heron", ANN), ("s1", "locker otter", BOB), ("s1", "locker finch", None)))
    assert set(memory.found("locker", subject_id=ANN)) == {"e0", "e2"}
    assert memory.found("locker", subject_id=BOB) == ["e1"]
    assert memory.found("locker") == []


def test_two_names_with_one_hash_stay_apart(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    def same(subject: str) -> int:
        return 1 if subject else 0

    monkeypatch.setattr(subject_column, "subject_hash", same)
    monkeypatch.setattr("hmx_pipeline.retrieval.postings.subject_hash", same)
    memory.write(*spoken(("s1", "locker heron", ANN), ("s2", "locker otter", BOB), ("s3", "locker mole", None)))
    memory.write(episode_as_read(episode("e3", session="s3", index=3, content={"text": "hi"}, **of(BOB)), 3))
    assert memory.found("locker", subject_id=ANN) == ["e0"]
    assert set(memory.found("locker", subject_id=BOB)) == {"e1", "e2"}


def test_a_session_under_way_guides_only_its_own_subject(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image"))
    assert hints(memory) is not None
    memory.write(episode_as_read(episode("mine", "deploy staging", session="now", index=99, **of(ANN)), 2_000))
    for who in (None, BOB):
        assert hints(memory, subject_id=who) == memory.pack(QUESTION, session_id="none", subject_id=who).workflow_hints
    assert hints(memory, subject_id=ANN) is not None


def test_of_a_session_that_two_share_each_is_guided_by_their_own_steps(memory: Memory) -> None:
    failed = {"tool_name": "bash", "success": False, "output": "cannot open heron"}
    said = [episode("x0", session="now", index=0, **of(BOB))]
    said.append(episode("x1", session="now", index=1, event_type="tool_result", content=failed, **of(ANN)))
    memory.write(*(episode_as_read(fields, n) for n, fields in enumerate(said)))
    steps = {who: memory.store.fetch(plan(_named(who))).session for who in (None, ANN, BOB)}
    assert {who: [step.event_id for step in found] for who, found in steps.items()} == {
        None: [],
        ANN: ["x1"],
        BOB: ["x0"],
    }


def _named(subject: str | None) -> PackRequest:
    return PackRequest(query="heron", tenant_id="acme", session_id="now", subject_id=subject)


def test_precedents_are_ones_own_and_the_shared(memory: Memory) -> None:
    records = told(24)
    owned = [_owned(record, ANN) if record.topic.endswith("evidence.v1") else record for record in records]
    memory.write(*owned, *begun("build_image"))
    for who, seen in ((None, False), (BOB, False), (ANN, True)):
        assert bool(memory.pack(QUESTION, session_id="now", subject_id=who).metadata.get("precedents")) == seen


def _owned(record: TopicRecord, subject: str) -> TopicRecord:
    return record._replace(value=orjson.dumps({**orjson.loads(record.value or b"{}"), "subject": subject}))


def test_a_precedent_of_a_session_that_got_its_subject_later_is_private(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image"))
    sessions = {
        fields["session_id"] for fields in memory.pack(QUESTION, session_id="now").metadata["precedents"].values()
    }
    late = [episode(f"late{n}", session=name, index=900 + n, **of(ANN)) for n, name in enumerate(sorted(sessions))]
    memory.write(*(episode_as_read(fields, 3_000 + n) for n, fields in enumerate(late)))
    now = memory.pack(QUESTION, session_id="now").metadata.get("precedents", {})
    assert sessions.isdisjoint(fields["session_id"] for fields in now.values())


def test_a_bound_key_reads_single_records_of_its_subject_and_of_all(memory: Memory) -> None:
    memory.write(
        *spoken(("s1", "heron", ANN), ("s2", "otter", None), ("s3", "mole", None), ("s3", "hi", BOB)),
        *as_read([known("k1", "finch", ANN), known("k2", "open")]),
    )

    def seen(subject: str | None) -> tuple[set[str], set[str]]:
        view = SubjectView(memory.store, "acme", subject)
        events = {name for name in ("e0", "e1", "e2", "e3") if view.event(name) is not None}
        return events, {name for name in ("k1", "k2") if view.knowledge(name) is not None}

    assert seen(None) == ({"e0", "e1", "e2", "e3"}, {"k1", "k2"})
    assert seen(ANN) == ({"e0", "e1"}, {"k1", "k2"})
    assert seen(BOB) == ({"e1", "e2", "e3"}, {"k2"})


def test_a_shared_record_names_no_event_contribution_or_session_of_others(memory: Memory) -> None:
    mine, others = made("c-ann", ANN, "s1"), [made("c-bob", BOB, "s2"), made("c-cy", "cy", "s4")]
    sources = {
        "source_events": ["e0", "e1", "e2", "e3", "gone"],
        "source_memory_ids": ["c-ann", "c-bob", "c-cy", "c-9"],
    }
    sides = [{"object": "x", "source_events": [name]} for name in ("e0", "e1")]
    shared = known("k-all", "open", body={"sides": sides}, session_id="s2", **sources)
    memory.write(
        *spoken(("s1", "heron", ANN), ("s2", "otter", BOB), ("s3", "mole", None), ("s4", "hare", "cy")),
        *as_read([shared, known("k-ann", "own", ANN)]),
        *map(contributed, (mine, *others)),
    )
    ann, anybody = SubjectView(memory.store, "acme", ANN), SubjectView(memory.store, "acme", None)
    assert anybody.told([shared]) == [shared]
    found = ann.knowledge("k-all")
    assert found is not None
    assert (found["source_events"], found["source_memory_ids"]) == (["e0", "e2"], ["c-ann"])
    assert [side["source_events"] for side in found["body"]["sides"]] == [["e0"], []]
    assert "session_id" not in found
    own = ann.knowledge("k-ann")
    assert own is not None
    assert own["source_events"] == ["e"]


def test_an_id_that_several_sessions_use_names_none_of_anothers(memory: Memory) -> None:
    said = [("s1", ANN), ("s2", BOB), ("s3", BOB), ("s4", None)]
    memory.write(
        *(
            episode_as_read(episode("same", f"text {at}", session=session, index=at, **of(subject)), at)
            for at, (session, subject) in enumerate(said)
        )
    )
    found = SubjectView(memory.store, "acme", BOB).event("same")
    assert found == Ambiguous(("s2", "s3", "s4"))
    memory.write(episode_as_read(episode("x", session="s4", index=9, **of(ANN)), 9))
    memory.write(episode_as_read(episode("x", session="s3", index=10, **of(ANN)), 10))
    assert SubjectView(memory.store, "acme", BOB).event("same") == Ambiguous(("s2", "s3"))
    assert SubjectView(memory.store, "acme", "carol").event("same") is None


def test_what_one_keeps_and_all_share_in_the_same_words_is_one_entry(memory: Memory) -> None:
    text = "the lockers are opened at nine"
    memory.write(*as_read([known("own", text, ANN), known("all", text), known("other", text, BOB)]))
    assert len(memory.found("when are lockers opened", subject_id=ANN)) == 1
    assert memory.found("when are lockers opened") == ["all"]


def test_a_fingerprint_holds_no_private_entity(memory: Memory) -> None:
    entity = {"kind": "entity", "body": {"type": "service", "name": "ledger"}}
    memory.write(*as_read([known("own", "ledger", ANN) | entity, known("all", "registry") | entity]))
    assert [record.record_id for record in memory.store.learnt("acme").entities] == ["all"]


def test_a_tenant_without_subjects_answers_everybody_alike(memory: Memory) -> None:
    memory.write(*told(24), *begun("build_image"), *as_read([known("k", "the registry deploys staging")]))

    def pack(**asked: Any) -> dict[str, Any]:
        made: dict[str, Any] = orjson.loads(memory.pack(QUESTION, session_id="now", explain=True, **asked).to_json())
        return {name: value for name, value in made.items() if name != "pack_id"}

    assert pack() == pack(subject_id=ANN)
    assert memory.pack(QUESTION).pack_id != memory.pack(QUESTION, subject_id=ANN).pack_id
    assert not memory.client.exists(memory.keys.tenant("acme").subjects, memory.keys.tenant("acme").assigned)
