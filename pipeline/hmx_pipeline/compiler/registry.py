"""Registry of evidence kinds and artifact types. A new one is one more module and one more entry.

Input: the name of a kind. Output: whether its patterns publish knowledge, may be private, or are compiled at all;
`KINDS` has the kinds in the order of extraction.
"""

from collections.abc import Mapping
from typing import Final

from hmx_pipeline.compiler import (
    action_trace,
    causal_pattern,
    decision_policy,
    failure_playbook,
    strategy_template,
    task_schema,
    touched_files,
    usage_counts,
)
from hmx_pipeline.compiler.evidence_kind import ArtifactType, EvidenceKind
from hmx_pipeline.compiler.knowledge import corrections, entities, facts, reinforcements
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind
from hmx_pipeline.compiler.tasks import own_values, runs
from hmx_pipeline.contracts.artifact_content import CONTENTS
from hmx_pipeline.contracts.event_types import namespaced
from hmx_pipeline.contracts.evidence import Pattern
from hmx_pipeline.contracts.retention import ARTIFACTS, KNOWLEDGE

KINDS: Final[Mapping[str, EvidenceKind]] = {
    kind.name: kind
    for kind in (
        runs.KIND,
        task_schema.TYPE,
        own_values.KIND,
        failure_playbook.TYPE,
        decision_policy.TYPE,
        causal_pattern.TYPE,
        strategy_template.TYPE,
        action_trace.KIND,
        touched_files.KIND,
        usage_counts.KIND,
        facts.FACT,
        facts.POLICY,
        facts.ENDINGS,
        corrections.CORRECTION,
        entities.ENTITY,
        entities.RELATION,
        reinforcements.REINFORCEMENT,
    )
}
ARTIFACT_TYPES: Final[Mapping[str, ArtifactType]] = {
    name: kind for name, kind in KINDS.items() if isinstance(kind, ArtifactType)
}
_STATING: Final = frozenset(
    name
    for name, kind in KINDS.items()
    if kind is facts.ENDINGS or (isinstance(kind, KnowledgeKind) and not kind.made_of)
)
assert CONTENTS.keys() == {name for name in ARTIFACT_TYPES if not namespaced(name)}, (
    "every standard type needs its content"
)


def task_patterns(kind: str) -> list[Pattern]:
    """Return the patterns whose contributions together make those of other kinds; they are compiled with the first."""
    return [Pattern(kind, key) for key in runs.KEYS]


def is_knowledge(name: str) -> bool:
    """Return True if patterns of this kind publish knowledge records instead of an artifact."""
    return isinstance(KINDS.get(name), KnowledgeKind)


def is_statement(name: str) -> bool:
    """Return True if its contributions are statements, which may be private."""
    return name in _STATING


def class_of(name: str) -> str:
    """Return the class by which a tenant's retention keeps contributions of this kind."""
    return KNOWLEDGE if is_statement(name) or is_knowledge(name) else ARTIFACTS


def is_ending_kind(name: str) -> bool:
    """Return True if contributions of this kind only change how others are compiled."""
    return name == facts.ENDINGS.name


def is_compiled(name: str) -> bool:
    """Return True if patterns of this kind are ever compiled."""
    kind = KINDS[name]
    return kind.compile is not None or kind.group is not None or is_knowledge(name)
