"""Artifact summaries: an artifact without the parts that quote single sessions.

Input: an `Artifact`. Output: an `ArtifactSummary`, and how much it has mattered, from 0 to 1 (`weight`).
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from hmx_pipeline.compiler import causal_pattern, decision_policy, failure_playbook, task_schema
from hmx_pipeline.compiler.artifact_text import and_list
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.fingerprint import ArtifactSummary
from hmx_pipeline.fingerprints.contents import SHARED
from hmx_pipeline.segments.masking import mask, readable, sentence, shorten

_TITLE_STEPS: Final = 3
_TITLE: Final = 120
_SUPPORT: Final = 5
"""Number of observations that give an artifact half of the highest weight."""


def _chosen(options: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Keep only options that several sessions chose. The text of any other may be one user's own words."""
    return [
        {**option, "outcome": str(option.get("outcome", "")).partition(";")[0]}
        for option in options
        if option.get("chosen_count", 0) >= SHARED
    ]


def _alike(symptoms: list[str]) -> list[str]:
    """Mask symptoms to what all sessions share; a literal quote belongs to one session."""
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
"""How fields that quote single sessions or users are condensed, by type. Other fields hold what sessions share."""


def condensed(artifact: Artifact) -> ArtifactSummary:
    """Summarise an artifact. Nothing is validated: the artifact was, and a fingerprint validates its list."""
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
    """Return the title and summary without quotes. A task's title is made from its steps instead of its users' words, a
    decision's summary from its recommendation."""
    title, summary = artifact.title, artifact.summary
    if artifact.artifact_type == task_schema.NAME and content["steps"]:
        steps = [step["description"] for step in content["steps"][:_TITLE_STEPS]]
        title = shorten(sentence(and_list([f"{step[:1].lower()}{step[1:]}" for step in steps])), _TITLE)
    if artifact.artifact_type == decision_policy.NAME:
        chosen = [option["outcome"] for option in content["alternatives"][:1]]
        summary = f"{': '.join([content['recommendation'], *chosen])}."
    return title, summary


def weight(summary: ArtifactSummary) -> float:
    """Return how much an artifact has mattered: confidence × n / (n + `_SUPPORT`), with n = `observed_count` + 1."""
    return summary.confidence * (summary.observed_count + 1) / (summary.observed_count + 1 + _SUPPORT)
