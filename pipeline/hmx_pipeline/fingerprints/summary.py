"""The semantic summary: sentences on what an agent is good at, made from the other parts of a fingerprint.

Input: the artifact summaries, behavioral patterns and graph digest. Output: a `SemanticSummary`: one text, and the
titles of at most eight artifacts, the best.
"""

from collections.abc import Sequence

from hmx_pipeline.compiler import decision_policy, failure_playbook, strategy_template, task_schema
from hmx_pipeline.compiler.artifact_text import and_list, percent, plural
from hmx_pipeline.compiler.usage_counts import REST
from hmx_pipeline.contracts.fingerprint import ArtifactSummary, BehavioralPatterns, GraphDigest, SemanticSummary
from hmx_pipeline.contracts.limits import FINGERPRINT_COMPETENCIES
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.fingerprints.summarise import weight
from hmx_pipeline.segments.action_names import phrase_of

_SHOWN = 3


def semantic_summary(
    summaries: Sequence[ArtifactSummary], behaviour: BehavioralPatterns, graph: GraphDigest
) -> SemanticSummary:
    active = [one for one in summaries if one.status is Status.ACTIVE]
    best = sorted(active, key=lambda one: (-round(weight(one), 6), one.pattern))
    tasks = _of(best, task_schema.NAME) + _of(best, strategy_template.NAME)
    sentences = [
        _practice(behaviour),
        _told("Best at", [_with_rate(one) for one in tasks]),
        _told("Gets past", [one.title for one in _of(best, failure_playbook.NAME)]),
        _told("Has decided before", [one.title for one in _of(best, decision_policy.NAME)]),
        _tools(behaviour),
        _known(graph),
    ]
    return SemanticSummary(
        text=" ".join(filter(None, sentences)), competencies=[one.title for one in best[:FINGERPRINT_COMPETENCIES]]
    )


def _of(best: Sequence[ArtifactSummary], kind: str) -> list[ArtifactSummary]:
    return [one for one in best if one.artifact_type == kind]


def _told(what: str, titles: Sequence[str]) -> str:
    more = len(titles) - _SHOWN
    shown = [f"“{title}”" for title in titles[:_SHOWN]] + ([f"{more} more"] if more > 0 else [])
    return f"{what}: {and_list(shown)}." if shown else ""


def _with_rate(one: ArtifactSummary) -> str:
    return one.title if one.success_rate is None else f"{one.title} ({percent(round(1000 * one.success_rate), 1000)})"


def _practice(behaviour: BehavioralPatterns) -> str:
    if not behaviour.segments:
        return ""
    good, bad = (behaviour.outcomes.get(name, 0) for name in ("success", "failure"))
    ended = f", of those with a known end {percent(good, good + bad)} went well" if good + bad else ""
    said = f"{plural(behaviour.segments, 'piece')} of work in {plural(behaviour.sessions, 'session')}{ended}"
    return f"{said}."


def _tools(behaviour: BehavioralPatterns) -> str:
    most = sorted((name for name in behaviour.tools if name != REST), key=lambda n: (-behaviour.tools[n].calls, n))
    shown = [f"{phrase_of(name)} ({percent(behaviour.tools[name].calls, behaviour.calls)})" for name in most[:_SHOWN]]
    if not shown:
        return ""
    failed = f"; {percent(round(1000 * behaviour.error_rate), 1000)} fail" if behaviour.error_rate is not None else ""
    return f"Of {plural(behaviour.calls, 'action')} most are to {and_list(shown)}{failed}."


def _known(graph: GraphDigest) -> str:
    entities, relations = sum(graph.entities.values()), sum(graph.relations.values())
    if not entities:
        return ""
    return f"Knows {plural(entities, 'thing')} and {plural(relations, 'relation')} between them."
