"""The kinds of evidence there are, artifact types among them. One more is one more module and one more entry here."""

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
    """The patterns of a kind whose contributions together make those of others; the first one speaks for all."""
    return [Pattern(kind, key) for key in runs.KEYS]


def knows(name: str) -> bool:
    """Whether patterns of this kind say knowledge records instead of an artifact."""
    return isinstance(KINDS.get(name), KnowledgeKind)


def ends(name: str) -> bool:
    """Whether contributions of this kind are read beside those that they touch, and say nothing by themselves."""
    return name == facts.ENDINGS.name


def speaks(name: str) -> bool:
    """Whether patterns of this kind, one of `KINDS`, are ever compiled."""
    kind = KINDS[name]
    return kind.compile is not None or kind.group is not None or knows(name)
