"""Whatever tenants write is data in a pack: an entry is one, and looks like nothing else."""

import re
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.options import ENTRY_MARK, Kind, Standing
from hmx_pipeline.contracts.pack import ContextPack, DecisionConstraint, NextStep, WorkflowHints
from hmx_pipeline.contracts.safe_text import INDENT
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.packs import render, rendered
from hmx_pipeline.packs.assemble import assemble
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.retrieval.retrieval_plan import plan
from hmx_pipeline.retrieval.score import FoundSource, Made, MemorySnapshot
from hmx_pipeline.retrieval.searchable import Document
from tests.support.hostile import ALL, ORDINARY
from tests.support.memory import T0, artifact, episode, fetched

STRUCTURE = re.compile(
    r"<(?:[/!?|]|script|img|svg|iframe|style|system)|!\[|\]\(javascript|[\x00-\x08\x0b-\x1f\x7f-\x9f]", re.IGNORECASE
)
CONTENTS: dict[str, Any] = {
    "task_schema": lambda text: {
        "steps": [{"order": 1, "description": text, "tools_used": [text]}],
        "preconditions": [text],
        "postconditions": [text],
    },
    "failure_playbook": lambda text: {"failure_pattern": text, "recovery_steps": [text], "symptoms": [f"{text} seen"]},
    "decision_policy": lambda text: {"condition": text, "recommendation": text, "scope": [text]},
    "causal_pattern": lambda text: {"cause": text, "effect": text, "strength": 0.5, "conditions": [text]},
    "strategy_template": lambda text: {"phases": [{"order": 1, "name": text, "description": text}]},
}  # fmt: skip


def ask(memory: MemorySnapshot, **fields: Any) -> ContextPack:
    request = PackRequest(query="deploy", tenant_id="acme", token_budget=8_000, **fields)
    return assemble(request, plan(request), memory)


def check(text: str, lines: int = 1) -> None:
    """The text of an entry: its mark once, of so many own lines, and nothing that forms structure."""
    assert text.startswith(ENTRY_MARK)
    assert text.casefold().count(ENTRY_MARK) == 1
    assert not STRUCTURE.search(text)
    own = [line for line in text.split("\n") if not line.startswith(INDENT)]
    assert len(own) == lines, own


def told(text: str, index: int = 0) -> FoundSource[Document]:
    """Whatever intake would have left of it."""
    (found,) = fetched([episode(f"e{index}", "deploy it", index=index)]).episodes
    return structs.replace(found, source=structs.replace(found.source, text=text), made=Made())


@pytest.mark.parametrize("text", ALL)
def test_an_episode_is_one_line(text: str) -> None:
    source = told(f"deploy {text}").source
    for each in (source, structs.replace(source, actor=text)):
        check(rendered.episode(each).text)
        assert "\n" not in rendered.episode(each).text


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("dated", [True, False])
def test_a_knowledge_record_is_one_line_of_the_packs_own(text: str, dated: bool) -> None:
    kind = Kind.MEMORY if dated else Kind.POLICY
    record = KnowledgeRecord(
        record_id="k1",
        kind=kind,
        tenant_id="acme",
        pattern="p",
        text=f"x {text}",
        body={},
        confidence=0.5,
        status=Standing.ACTIVE,
        source_events=[],
        source_memory_ids=[],
        tags=[],
        created_at=format_ms(T0),
    )
    check(rendered.knowledge(record).text)


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("kind", CONTENTS)
def test_an_artifact_has_the_lines_of_its_type_and_no_others(kind: str, text: str) -> None:
    content = CONTENTS[kind]
    made = rendered.artifact(artifact("a1", f"go {text}", artifact_type=kind, content=content(f"x {text}")))
    plain = rendered.artifact(artifact("a1", "go", artifact_type=kind, content=content("x")))
    check(made.text, plain.text.count("\n") + 1)


def test_every_type_of_artifact_is_tried() -> None:
    assert set(CONTENTS) == set(ARTIFACT_TYPES)


@pytest.mark.parametrize("text", ALL)
def test_hints_and_constraints_are_data(text: str) -> None:
    step = NextStep(description=f"x {text}", artifact_id="a1", confidence=0.5, tools=[])
    hints = render.hints(WorkflowHints(suggested_next_steps=[step], blockers=[f"x {text}"]))
    assert hints is not None
    rule = render.constraint(
        DecisionConstraint(
            artifact_id="a1", condition=f"x {text}", constraint=f"x {text}", confidence=0.5, override_allowed=True
        )
    )
    for said in (hints.suggested_next_steps[0].description, hints.blockers[0], rule.condition, rule.constraint):
        check(f"{ENTRY_MARK} {said}")


@pytest.mark.parametrize("text", ORDINARY)
def test_a_command_in_an_entry_can_be_copied(text: str) -> None:
    made = rendered.artifact(artifact("a1", "Deploy", content=CONTENTS["task_schema"](text)))
    assert f"1. {text}" in made.text


def test_entries_joined_are_as_many_as_they_were() -> None:
    memory = replace(fetched(), episodes=tuple(told(f"deploy {i} {text}", i) for i, text in enumerate(ALL)))
    contents = [entry.content for entry in ask(memory).entries]
    assert len(contents) > 40
    assert len(re.findall(r"^\[hmx\]", "\n".join(contents), re.MULTILINE)) == len(contents)
    assert "\n".join(contents).count(ENTRY_MARK) == len(contents)
