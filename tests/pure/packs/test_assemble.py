"""A pack as a whole: identity, counts, drops, sources, hints (HMX-C)."""

import json
from dataclasses import replace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.compiler.evidence_kind import ArtifactType
from hmx_pipeline.compiler.lifecycle import DECAYED_MS
from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.limits import PACK_BYTES, PACK_DROPS, PACK_ENTRIES
from hmx_pipeline.contracts.options import Section
from hmx_pipeline.contracts.pack import ContextPack, DropReason
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.packs.assemble import assemble, size_bound, timed
from hmx_pipeline.packs.markdown import EMPTY
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import MemorySnapshot
from tests.support.memory import T0, artifact, episode, fetched, procedure

PLAYBOOK = {"failure_pattern": "namespace not found", "recovery_steps": ["create the namespace", "apply again"]}


def ask(memory: MemorySnapshot, **fields: Any) -> ContextPack:
    request = PackRequest.model_validate_json(json.dumps({"query": "deploy staging", "tenant_id": "acme", **fields}))
    return assemble(request, plan(request), memory)


def distinct(count: int, words: int = 12) -> list[dict[str, Any]]:
    """Episodes without a word in common."""
    return [episode(f"e{i:03}", " ".join(f"w{i}x{j}" for j in range(words)), index=i) for i in range(count)]


def some() -> MemorySnapshot:
    failed = {"error_type": "KubectlError", "message": "namespace staging not found"}
    return fetched(
        [
            episode("e1", "please deploy the staging environment"),
            episode("e2", event_type="error", content=failed, index=1),
            episode("e3", "the rollout went through", index=2, at=T0 - 86_400_000),
        ],
        [artifact("a1"), artifact("p1", "KubectlError", artifact_type="failure_playbook", content=PLAYBOOK)],
    )


@pytest.mark.parametrize("kind", ARTIFACT_TYPES.values(), ids=lambda kind: kind.name)
def test_an_artifact_stands_in_the_section_of_its_type(kind: ArtifactType) -> None:
    pack = ask(fetched([], [artifact("a1", artifact_type=kind.name)]))
    assert [(entry.section, entry.source_id) for entry in pack.entries] == [(kind.section, "a1")]


def test_a_type_is_shown_as_it_says_once_it_is_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, as any custom type is: among the procedures, by its title and summary."""
    kind = replace(ARTIFACT_TYPES["decision_policy"], name="x-acme-runbook", lines=lambda _: iter(["what it says"]))
    runbook = artifact("a1", "Runbook", artifact_type=kind.name)
    (custom,) = ask(fetched([], [runbook])).entries
    assert (custom.section, custom.content.partition("\n")[0]) == (Section.PROCEDURES, "[hmx] Runbook")
    monkeypatch.setitem(cast("dict[str, ArtifactType]", ARTIFACT_TYPES), kind.name, kind)
    (own,) = ask(fetched([], [runbook])).entries
    assert (own.section, own.content) == (Section.CONSTRAINTS, "[hmx] Runbook\nwhat it says")


@pytest.mark.parametrize("name", ["x-hmx-priors", "x-hmx-other"])
def test_a_type_of_the_pipelines_own_is_in_no_section(name: str) -> None:
    assert not ask(fetched([], [artifact("a1", "Runbook", artifact_type=name)])).entries


@pytest.mark.requirement("C-01", "C-02", "C-07", "X17")
def test_a_pack_is_whole_and_in_order() -> None:
    pack = ContextPack.model_validate_json(ask(some(), session_id="s1").to_json())
    assert [(e.section.value, e.source_id) for e in pack.entries] == [
        ("procedures", "a1"),
        ("procedures", "p1"),
        ("episodes", "e1"),
        ("episodes", "e3"),
        ("evidence", "e2"),
    ]
    assert [e.rank for e in pack.entries] == [1, 2, 3, 4, 5]
    assert all(e.source_type in e.section.permitted for e in pack.entries)
    assert pack.entries[0].provenance.evidence_count == 5
    assert pack.metadata["sources"] == {i: {"session_id": "s1"} for i in ("e1", "e2", "e3")}
    assert (pack.tenant_id, pack.session_id, pack.created_at) == ("acme", "s1", "2026-03-14T03:00:00.000Z")


def test_entries_say_what_their_sources_say_in_few_words() -> None:
    said = {e.source_id: e.content.removeprefix("[hmx]").lstrip() for e in ask(some()).entries}
    assert said["a1"] == "Deploy staging\n1. check namespace\n2. apply manifests\n3. verify rollout"
    assert said["p1"] == "KubectlError\nFails as: namespace not found\nRecover: create the namespace; apply again"
    assert said["e1"] == "2026-03-14 user: please deploy the staging environment"
    assert said["e2"] == "2026-03-14 KubectlError: namespace staging not found"


def test_who_speaks_is_said_once() -> None:
    told = episode("e1", "Jolene: I moved to Rome", content={"role": "user", "text": "Jolene: I moved to Rome"})
    assert [e.content for e in ask(fetched([told])).entries] == ["[hmx]2026-03-14 Jolene: I moved to Rome"]


def test_every_entry_begins_with_the_mark_and_holds_no_blank_line() -> None:
    content = {**PLAYBOOK, "failure_pattern": "not found\n\n \nat all"}
    pack = ask(fetched([], [artifact("p1", "KubectlError", artifact_type="failure_playbook", content=content)]))
    assert pack.entries[0].content.startswith("[hmx] KubectlError\nFails as: not found\n        at all")
    assert pack.entries[0].token_estimate == estimate(pack.entries[0].content)


@pytest.mark.requirement("C-08", "C-12", "C-13", "X18")
@given(st.integers(1, 600), st.integers(0, 40))
def test_counts_add_up_at_every_budget(budget: int, count: int) -> None:
    pack = ask(fetched(distinct(count), [artifact("a1")]), token_budget=budget)
    tokens, facts = pack.token_budget, pack.assembly_metadata
    assert sum(e.token_estimate for e in pack.entries) == tokens.used <= tokens.total_budget == budget
    assert tokens.used + tokens.remaining == budget
    assert sum(s.used for s in tokens.section_budgets.values()) == tokens.used
    assert facts.candidate_count == facts.included_count + tokens.dropped_count == count + 1
    assert facts.included_count == len(pack.entries)
    dropped = pack.dropped_entries or []
    assert [d.rank for d in dropped] == list(range(len(pack.entries) + 1, len(pack.entries) + len(dropped) + 1))
    assert len(dropped) == min(PACK_DROPS, tokens.dropped_count)
    origins = {e.provenance.origin for e in pack.entries}
    assert facts.retrieval_sources == sorted(origins)


@pytest.mark.requirement("C-20")
def test_a_larger_budget_lets_in_what_was_dropped() -> None:
    memory = fetched(distinct(10))
    small = ask(memory, token_budget=200)
    assert {d.drop_reason for d in small.dropped_entries or []} == {DropReason.BUDGET_EXCEEDED}
    first = (small.dropped_entries or [])[0]
    large = ask(memory, token_budget=4000)
    entered = next(e for e in large.entries if e.source_id == first.source_id)
    assert (entered.rank, entered.token_estimate, entered.relevance_score) == (
        first.rank,
        first.token_estimate,
        first.relevance_score,
    )


@pytest.mark.requirement("C-21")
def test_each_reason_to_drop_names_what_it_drops() -> None:
    memory = fetched(
        [episode("e1", "we deploy staging on friday"), episode("e2", "we deploy staging on Friday!", index=1)]
    )
    found = memory.episodes[0]
    far = type(found)(type(found.source)(**{**_fields(found.source), "event_id": "far", "text": "unrelated"}), 10)
    old = fetched([], [artifact("old", created_at=format_ms(T0 - DECAYED_MS - 1))]).artifacts[0]
    pack = ask(MemorySnapshot("v", T0, (*memory.episodes, far), (old,)))
    assert {d.source_id: d.drop_reason.value for d in pack.dropped_entries or []} == {
        "e2": "duplicate",
        "far": "low_relevance",
        "old": "deprecated",
    }


@pytest.mark.requirement("A-18", "C-21")
def test_what_no_evidence_has_supported_for_a_year_is_neither_shown_nor_followed() -> None:
    last = artifact("a1", created_at=format_ms(T0))
    assert ask(fetched([], [last], newest=T0 + DECAYED_MS)).workflow_hints is not None
    pack = ask(fetched([], [last], newest=T0 + DECAYED_MS + 1))
    assert pack.workflow_hints is None
    assert not pack.entries
    assert pack.token_budget.dropped_count == 1


def _fields(struct: Any) -> dict[str, Any]:
    return {name: getattr(struct, name) for name in struct.__struct_fields__}


@pytest.mark.requirement("C-25", "X21")
def test_caps_hold_and_the_count_of_drops_stays_whole() -> None:
    pack = ask(fetched(distinct(700, 3)), token_budget=1_000_000, fill="budget")
    assert len(pack.entries) == PACK_ENTRIES
    assert pack.token_budget.dropped_count == 200
    assert [d.source_id for d in pack.dropped_entries or []] == [f"e{i:03}" for i in range(500, 600)]


@pytest.mark.requirement("C-25")
def test_a_pack_has_at_most_256_kb() -> None:
    pack = ask(fetched(distinct(400, 150)), token_budget=1_000_000, fill="budget")
    assert PACK_BYTES * 0.9 < len(pack.to_json()) <= PACK_BYTES
    assert pack.token_budget.dropped_count == 400 - len(pack.entries)
    assert sum(e.token_estimate for e in pack.entries) == pack.token_budget.used


@given(st.lists(st.text('\x00\x1f"\\<ä\u2028\U0001f600 a', max_size=40), max_size=3), st.booleans())
def test_what_it_has_at_most_is_never_less_than_what_it_has(texts: list[str], drops: bool) -> None:
    """Else a pack of more than 256 KB would go unseen."""
    pack = ask(fetched(distinct(20)), token_budget=200 if drops else 4000, explain=drops)
    (entry, *_), dropped = pack.entries, pack.dropped_entries or ()
    named = [each.model_copy(update={"source_id": text}) for each, text in zip(dropped, texts, strict=False)]
    entries = [entry.model_copy(update={"content": text, "source_id": text}) for text in texts]
    made = pack.model_copy(update={"entries": entries, "dropped_entries": named})
    for each in (pack, made):
        assert len(each.to_json()) <= size_bound(each)


@pytest.mark.requirement("C-11", "X36")
def test_truncated_means_that_an_entry_was_cut_not_that_some_were_dropped() -> None:
    memory = fetched(distinct(10))
    whole = sum(e.token_estimate for e in ask(memory).entries[:3])
    assert not ask(memory, token_budget=whole).token_budget.truncated
    assert ask(memory, token_budget=whole).token_budget.dropped_count
    assert ask(memory, token_budget=whole + 40).token_budget.truncated


@pytest.mark.requirement("C-23")
def test_the_same_question_to_the_same_state_is_the_same_pack() -> None:
    assert ask(some()).to_json() == ask(some()).to_json()
    assert timed(ask(some()), 12.5, T0 + 7).assembly_metadata.assembly_duration_ms == 12.5


def test_a_memory_without_events_says_so_and_is_of_when_it_was_asked() -> None:
    empty = ask(fetched([], newest=0), as_text=True)
    assert (empty.metadata["memory_empty"], empty.metadata["as_text"]) == (True, EMPTY)
    assert timed(empty, 1.0, T0).created_at == format_ms(T0)
    filling = ask(fetched([], newest=0, completeness=Completeness(begun=False)), as_text=True)
    assert (filling.metadata.get("memory_empty"), filling.metadata["memory_complete"]) == (None, False)
    made = ask(some())
    assert "memory_empty" not in made.metadata
    assert timed(made, 1.0, T0 + 7).created_at == made.created_at


@pytest.mark.parametrize(
    "changes",
    [
        {"query": "deploy production"},
        {"token_budget": 4000},
        {"agent_id": "a"},
        {"session_id": "s"},
        {"sections": ["episodes"]},
        {"min_confidence": 0.5},
        {"weights": {"relevance": 1.0}},
        {"strategy": "depth_first"},
        {"as_of": "2026-03-14T03:00:00Z"},
        {"lineage": {"session_id": "s1"}},
        {"include": ["archived"]},
        {"explain": True},
        {"vocabulary": "overview"},
    ],
)
@pytest.mark.requirement("X19")
def test_any_parameter_makes_another_pack(changes: dict[str, Any]) -> None:
    assert ask(some(), **changes).pack_id != ask(some()).pack_id


def test_the_direction_that_is_asked_for_is_part_of_a_pack_s_identity_and_none_where_none_is() -> None:
    ids = [ask(some(), query_vector=numbers).pack_id for numbers in (None, [0.5, 1.0], [1.0, 2.0], [1.0, -2.0])]
    assert ids[1] == ids[2]
    assert len(set(ids)) == 3
    assert "query_model" not in PackRequest(query="q", tenant_id="acme").model_dump(mode="json")


def test_another_state_or_tenant_makes_another_pack() -> None:
    ids = {
        ask(some()).pack_id,
        ask(fetched(state_version="v2")).pack_id,
        ask(some(), tenant_id="zeta").pack_id,
    }
    assert len(ids) == 3


def test_an_empty_memory_gives_an_empty_pack_of_1970() -> None:
    pack = ask(fetched(newest=0, state_version=""))
    assert (pack.entries, pack.dropped_entries, pack.created_at) == ([], [], "1970-01-01T00:00:00.000Z")
    assert pack.token_budget.remaining == 4096


@pytest.mark.requirement("X14")
def test_only_the_asked_sections_and_confidence() -> None:
    assert {e.section for e in ask(some(), sections=["episodes"]).entries} == {Section.EPISODES}
    unsure = ask(some(), min_confidence=0.9)
    assert "a1" not in {e.source_id for e in unsure.entries}
    assert {d.source_id: d.drop_reason.value for d in unsure.dropped_entries or ()}["a1"] == "low_relevance"


@pytest.mark.requirement("E-12", "Y05")
def test_an_expired_episode_is_no_candidate() -> None:
    lived = episode("e1", "secret of the hour", at=T0 - 3_600_000, ttl_seconds=3600)
    alive = episode("e2", "still valid text", at=T0 - 3_600_000, ttl_seconds=3601, index=1)
    pack = ask(fetched([lived, alive]))
    assert [e.source_id for e in pack.entries] == ["e2"]
    assert pack.assembly_metadata.candidate_count == 1


@pytest.mark.requirement("A-23")
@pytest.mark.parametrize(
    ("scope", "within", "outside"),
    [
        ({"agent_ids": ["agent-1"]}, {"agent_id": "agent-1"}, {"agent_id": "agent-2"}),
        ({"tenant_ids": ["acme"]}, {}, {"tenant_id": "globex"}),
        ({"tags": ["prod"]}, {"tags": ["prod"]}, {"tags": ["test"]}),
        ({"time_range": {"start": "2026-03-14T03:00:00Z"}}, {}, {"as_of": "2026-03-14T02:59:59Z"}),
        ({"time_range": {"end": "2026-03-14T03:00:00Z"}}, {"as_of": "2026-03-14T02:59:59Z"}, {}),
    ],
)
def test_an_artifact_is_no_candidate_beyond_its_scope(
    scope: dict[str, Any], within: dict[str, Any], outside: dict[str, Any]
) -> None:
    scoped = fetched([], [artifact("a1", validity_scope=scope, created_at=format_ms(T0 - 86_400_000))])
    assert [e.source_id for e in ask(scoped, **within).entries] == ["a1"]
    assert ask(scoped, **outside).assembly_metadata.candidate_count == 0


@pytest.mark.requirement("A-23")
@pytest.mark.parametrize("scope", [None, {}, {"conditions": ["a maintenance window is open"]}])
def test_without_agents_tenants_tags_and_time_an_artifact_is_the_whole_tenant_s(scope: dict[str, Any] | None) -> None:
    assert ask(fetched([], [artifact("a1", validity_scope=scope)]), agent_id="anybody", tags=["any"]).entries


@pytest.mark.requirement("A-29")
def test_of_twins_with_one_content_hash_a_pack_lists_one() -> None:
    twins = [artifact("a1"), artifact("a2")]
    assert twins[0].content_hash == twins[1].content_hash
    pack = ask(fetched([], twins))
    assert [e.source_id for e in pack.entries if e.section is Section.PROCEDURES] == ["a1"]
    assert {d.source_id: d.drop_reason.value for d in pack.dropped_entries or ()} == {"a2": "duplicate"}


def test_the_first_of_two_episodes_with_one_id_is_kept() -> None:
    pack = ask(fetched([episode("e1", "one two three"), episode("e1", "four five six", session="s2")]))
    assert pack.metadata["sources"] == {"e1": {"session_id": "s1"}}
    assert [e.source_id for e in pack.entries] == ["e1"]


def step(name: str, index: int, ok: bool | None = None, role: Role = Role.CALL) -> Step:
    return Step(event_id=f"x{index}", at=T0, role=role, index=index, name=name, ok=ok, text=f"{name} said no")


def hints(*steps: Step) -> Any:
    schema: Artifact = artifact("a1", content=procedure("check it", "apply it", "wait for it", "verify it"))
    return ask(fetched([], [schema], session=steps), session_id="s1").workflow_hints


@pytest.mark.requirement("C-18")
def test_hints_say_where_the_session_stands() -> None:
    start = hints()
    assert (start.active_task_schema, start.current_step, start.total_steps) == ("a1", 1, 4)
    assert [s.description for s in start.suggested_next_steps] == ["check it", "apply it", "wait for it", "verify it"]
    one_repeated_one_skipped = hints(step("check", 0), step("check", 1), step("wait --long", 2), step("other", 3))
    assert one_repeated_one_skipped.current_step == 4
    assert [s.tools for s in one_repeated_one_skipped.suggested_next_steps] == [["verify"]]
    assert hints(step("check", 0), step("verify", 1)).suggested_next_steps == []


def test_a_blocker_is_the_last_step_if_it_failed() -> None:
    assert hints(step("check", 0)).blockers == []
    failed = step("apply", 1, False, Role.RESULT)
    assert hints(step("check", 0), failed).blockers == ["apply: apply said no"]
    assert hints(failed, step("apply", 2, True, Role.RESULT)).blockers == []


def test_once_a_session_has_begun_the_pack_says_what_is_next() -> None:
    memory = fetched([], [artifact("a1")], session=(step("check", 0),))
    entries = ask(memory, session_id="s1").entries
    assert [(e.section.value, e.content) for e in entries][1:] == [
        ("workflow", "[hmx] Next in Deploy staging (step 2 of 3): 2. apply manifests; 3. verify rollout")
    ]


def test_of_procedures_that_answer_about_as_well_the_one_comes_first_that_the_question_has_the_values_for() -> None:
    def asking(step: str, *like: str) -> dict[str, Any]:
        slots = {f"s{n}": {"source": "goal", "like": [each]} for n, each in enumerate(like)}
        return {**procedure(step, f"{step} again"), "slots": slots}

    made = [
        artifact("a1", "Move a device", content=asking("relocate", "dev-0000", "r000")),
        artifact("a2", "Retire a scanner", content=asking("wipe", "dev-0000")),
    ]
    both = ask(fetched([], made), query="deploy staging dev-4711")
    assert [entry.source_id for entry in both.entries] == ["a2", "a1"]
    with_room = ask(fetched([], made), query="deploy staging dev-4711 r101")
    assert [entry.source_id for entry in with_room.entries] == ["a1", "a2"]
