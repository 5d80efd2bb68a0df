"""Context priors: how much each section, pattern and word has mattered to whoever learnt it. Pure; nothing fails."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log1p

from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.artifact import Status
from pipeline.contracts.fingerprint import ArtifactSummary, ContextPriors
from pipeline.contracts.limits import FINGERPRINT_PATTERNS, FINGERPRINT_TERMS
from pipeline.contracts.pack import Section
from pipeline.fingerprints.condense import weight
from pipeline.fingerprints.counting import scaled
from pipeline.retrieval.terms import terms


def context_priors(summaries: Sequence[ArtifactSummary], entities: int, relations: int) -> ContextPriors:
    """Of active artifacts, by pattern, and of how many entities and relations there are."""
    active = [one for one in summaries if one.status is Status.ACTIVE]
    sections: dict[str, float] = defaultdict(float)
    words: dict[str, float] = defaultdict(float)
    for one in active:
        kind = ARTIFACT_TYPES.get(one.artifact_type)
        sections[kind.section if kind is not None else Section.PROCEDURES] += weight(one)
        for word in sorted(set(terms("\n".join([one.title, *one.tags])))):
            words[word] += weight(one)
    sections[Section.FACTS], sections[Section.GRAPH_RELATIONS] = entities, relations
    return ContextPriors(
        sections=scaled(_damped(sections), len(Section)),
        patterns=scaled({one.pattern: weight(one) for one in active}, FINGERPRINT_PATTERNS),
        terms=scaled(words, FINGERPRINT_TERMS),
    )


def _damped(sums: Mapping[str, float]) -> dict[str, float]:
    """A thousand entities matter more than ten procedures, but not a hundred times."""
    return {name: log1p(value) for name, value in sums.items() if value > 0}
