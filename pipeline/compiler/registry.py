"""Registry of evidence kinds and artifact types. A new one is one more module and one more entry."""

from collections.abc import Mapping
from typing import Final

from pipeline.compiler import (
    causal_pattern,
    conduct,
    course,
    decision_policy,
    failure_playbook,
    strategy_template,
    task_schema,
    touched,
)
from pipeline.compiler.knowledge import corrections, facts, graph
from pipeline.compiler.knowledge.model import KnowledgeKind
from pipeline.compiler.model import ArtifactType, Kind
from pipeline.compiler.tasks import own_values, runs
from pipeline.contracts.artifact_content import CONTENTS
from pipeline.contracts.evidence import Pattern

KINDS: Final[Mapping[str, Kind]] = {
    kind.name: kind
    for kind in (
        runs.KIND,
        task_schema.TYPE,
        own_values.KIND,
        failure_playbook.TYPE,
        decision_policy.TYPE,
        causal_pattern.TYPE,
        strategy_template.TYPE,
        course.KIND,
        touched.KIND,
        conduct.KIND,
        facts.FACT,
        facts.POLICY,
        facts.ENDINGS,
        corrections.CORRECTION,
        graph.ENTITY,
        graph.RELATION,
    )
}
ARTIFACT_TYPES: Final[Mapping[str, ArtifactType]] = {
    name: kind for name, kind in KINDS.items() if isinstance(kind, ArtifactType)
}
assert ARTIFACT_TYPES.keys() == CONTENTS.keys(), "every artifact type needs its content, and the other way round"


def whole(kind: str) -> list[Pattern]:
    """Return the patterns whose contributions together make those of other kinds; they are compiled with the first."""
    return [Pattern(kind, key) for key in runs.KEYS]


def knows(name: str) -> bool:
    """Return True if patterns of this kind publish knowledge records instead of an artifact."""
    return isinstance(KINDS.get(name), KnowledgeKind)


def ends(name: str) -> bool:
    """Return True if contributions of this kind only change how others are compiled."""
    return name == facts.ENDINGS.name


def speaks(name: str) -> bool:
    """Return True if patterns of this kind are ever compiled."""
    kind = KINDS[name]
    return kind.compile is not None or kind.group is not None or knows(name)
