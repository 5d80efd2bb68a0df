"""Assembly of a fingerprint in one of three tiers, within its size bounds (HMX-F).

Input: `FingerprintContents` and a tier. Output: a `Fingerprint` with its hash and parts of at most 8 MB (full) or 96
KB; those that the tier leaves out are empty. The same memory gives the same bytes: everything is sorted, and nothing
depends on versions, ids or arrival order. What exceeds a bound is dropped, the least important first, and counted.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.fingerprint import (
    PARTS,
    ArtifactSummaries,
    ArtifactSummary,
    Fingerprint,
    Tier,
    fingerprint_hash,
)
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.limits import (
    FINGERPRINT_COMPACT_BYTES,
    FINGERPRINT_FULL_BYTES,
    FINGERPRINT_HUBS,
    FINGERPRINT_NAMED,
    FINGERPRINT_NAMED_FULL,
    FINGERPRINT_QUESTIONS,
)
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.fingerprints.behaviour import behavioral_patterns
from hmx_pipeline.fingerprints.contents import FingerprintContents, portable
from hmx_pipeline.fingerprints.graph_digest import graph_digest
from hmx_pipeline.fingerprints.priors import context_priors
from hmx_pipeline.fingerprints.summarise import condensed, weight
from hmx_pipeline.fingerprints.summary import semantic_summary


class _Bounds(NamedTuple):
    size: int
    """Bytes of all parts together."""
    named: int
    questions: int
    hubs: int


_BOUNDS: Final[Mapping[Tier, _Bounds]] = {
    Tier.FULL: _Bounds(FINGERPRINT_FULL_BYTES, *(3 * (FINGERPRINT_NAMED_FULL,))),
    Tier.COMPACT: _Bounds(FINGERPRINT_COMPACT_BYTES, FINGERPRINT_NAMED, FINGERPRINT_QUESTIONS, FINGERPRINT_HUBS),
    Tier.MINIMAL: _Bounds(FINGERPRINT_COMPACT_BYTES, FINGERPRINT_NAMED, FINGERPRINT_QUESTIONS, FINGERPRINT_HUBS),
}
_HOLDS: Final[Mapping[Tier, frozenset[str]]] = {
    Tier.FULL: frozenset(PARTS),
    Tier.COMPACT: frozenset({"artifact_summaries", "behavioral_patterns", "graph_digest"}),
    Tier.MINIMAL: frozenset({"semantic_summary", "context_priors"}),
}
"""Parts of each tier; the other parts are empty."""


def fingerprint(learnt: FingerprintContents, tier: Tier) -> Fingerprint:
    bounds = _BOUNDS[tier]
    summaries = sorted(map(condensed, filter(portable, learnt.artifacts)), key=lambda one: one.pattern)
    behaviour = behavioral_patterns(learnt.conduct, learnt.counted, bounds.named, bounds.questions)
    graph = graph_digest(
        learnt.entities, learnt.relations, learnt.unread, bounds.named, bounds.hubs, whole=tier is Tier.FULL
    )
    made: dict[str, Model] = {
        "behavioral_patterns": behaviour,
        "graph_digest": graph,
        "semantic_summary": semantic_summary(summaries, behaviour, graph),
        "context_priors": context_priors(summaries, sum(graph.entities.values()), sum(graph.relations.values())),
    }
    wanted = summaries if tier is Tier.FULL else [one for one in summaries if one.status is Status.ACTIVE]
    rest = sum(len(part.to_json()) for name, part in made.items() if name in _HOLDS[tier])
    made["artifact_summaries"] = _within(wanted, bounds.size - rest)
    parts = {name: made[name] if name in _HOLDS[tier] else type(made[name])() for name in PARTS}
    return _sealed(learnt, tier, parts)


def _within(summaries: Sequence[ArtifactSummary], room: int) -> ArtifactSummaries:
    """Keep the most important summaries that fit into `room` bytes; sorted by pattern."""
    listed = []
    for one in sorted(summaries, key=lambda one: (-round(weight(one), 6), one.pattern)):
        size = len(one.to_json()) + 1
        if size <= room:
            room -= size
            listed.append(one)
    return ArtifactSummaries(
        counts=dict(sorted(Counter(one.artifact_type for one in summaries).items())),
        artifacts=sorted(listed, key=lambda one: one.pattern),
        omitted=len(summaries) - len(listed),
    )


def _sealed(learnt: FingerprintContents, tier: Tier, parts: dict[str, Model]) -> Fingerprint:
    digest = fingerprint_hash(parts)
    about = (learnt.tenant_id, learnt.agent_id or "", tier, digest)
    return Fingerprint.model_validate(
        {
            "fingerprint_id": content_id(learnt.newest, "fingerprint", *about),
            "tenant_id": learnt.tenant_id,
            "created_at": format_ms(learnt.newest),
            **parts,
            "fingerprint_hash": digest,
            "metadata": {},
            "compression_tier": tier,
            "agent_id": learnt.agent_id,
        }
    )
