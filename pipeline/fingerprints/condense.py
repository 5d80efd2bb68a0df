"""An artifact → its summary: what helps elsewhere, without what quotes single sessions. Pure; nothing fails."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pipeline.compiler import causal_pattern, decision_policy, failure_playbook, task_schema
from pipeline.compiler.wording import and_list
from pipeline.contracts.artifact import Artifact
from pipeline.contracts.canonical import content_hash
from pipeline.contracts.fingerprint import ArtifactSummary
from pipeline.fingerprints.learnt import SHARED
from pipeline.segments.masking import mask, readable, sentence, shorten

_TITLE_STEPS: Final = 3
_TITLE: Final = 120
_SUPPORT: Final = 5
"""An artifact observed this often weighs half of what one can."""


def _chosen(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was offered or tried once is somebody's own words."""
    return [
        {**option, "outcome": str(option.get("outcome", "")).partition(";")[0]}
        for option in options
        if option.get("chosen_count", 0) >= SHARED
    ]


def _alike(symptoms: list[str]) -> list[str]:
    """As all sessions showed them: what is quoted is one session's."""
    return list(dict.fromkeys(filter(None, (sentence(readable(mask(symptom))) for symptom in symptoms))))


def _without_examples(slots: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {**slot, "like": []} for name, slot in slots.items()}


_CONDENSED: Final[Mapping[tuple[str, str], Callable[[Any], Any]]] = {
    (decision_policy.NAME, "outcomes"): lambda _: [],
    (decision_policy.NAME, "alternatives"): _chosen,
    (causal_pattern.NAME, "counterexamples"): lambda _: [],
    (failure_playbook.NAME, "symptoms"): _alike,
    (task_schema.NAME, "goals"): lambda _: [],
    (task_schema.NAME, "slots"): _without_examples,
}
"""Fields that quote single sessions or users, by type; the rest of a content is what sessions have in common."""


def condensed(artifact: Artifact) -> ArtifactSummary:
    """Not validated: it comes of an artifact that was, and a fingerprint validates those that it lists."""
    kind, content, digest = artifact.artifact_type, artifact.content, artifact.content_hash
    if any((kind, name) in _CONDENSED for name in content):
        content = {name: _CONDENSED.get((kind, name), _same)(value) for name, value in content.items()}
        digest = content_hash(content)
    title, summary = _told(artifact, content)
    return ArtifactSummary.model_construct(
        pattern=artifact.metadata["pattern"],
        artifact_type=kind,
        title=title,
        summary=summary,
        content=content,
        content_hash=digest,
        confidence=artifact.confidence,
        status=artifact.status,
        observed_count=artifact.observed_count or 0,
        tags=artifact.tags or [],
        success_rate=artifact.success_rate,
    )


def _same(value: Any) -> Any:
    return value


def _told(artifact: Artifact, content: dict[str, Any]) -> tuple[str, str]:
    """Title and summary. A task's title is in its users' words; a decision's summary tells of what was tried once."""
    title, summary = artifact.title, artifact.summary
    if artifact.artifact_type == task_schema.NAME and content["steps"]:
        steps = [step["description"] for step in content["steps"][:_TITLE_STEPS]]
        title = shorten(sentence(and_list([f"{step[:1].lower()}{step[1:]}" for step in steps])), _TITLE)
    if artifact.artifact_type == decision_policy.NAME:
        chosen = [option["outcome"] for option in content["alternatives"][:1]]
        summary = f"{': '.join([content['recommendation'], *chosen])}."
    return title, summary


def weight(summary: ArtifactSummary) -> float:
    """How much it has mattered: how sure it is, by how often it was seen."""
    return summary.confidence * (summary.observed_count + 1) / (summary.observed_count + 1 + _SUPPORT)
