"""Context priors: how much each pack section, pattern and word has mattered to the source of a fingerprint.

Input: artifact summaries, of which active ones count, and how many entities and relations there are. Output:
`ContextPriors` with weights from 0 to 1.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import log1p

from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.fingerprint import ArtifactSummary, ContextPriors
from hmx_pipeline.contracts.limits import FINGERPRINT_PATTERNS, FINGERPRINT_TERMS
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.fingerprints.bounded_counts import scaled
from hmx_pipeline.fingerprints.summarise import weight
from hmx_pipeline.retrieval.terms import terms


def context_priors(summaries: Sequence[ArtifactSummary], entities: int, relations: int) -> ContextPriors:
    """Compute priors from active artifacts and from the numbers of entities and relations."""
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
    """Take the logarithm: a thousand entities matter more than ten procedures, but not a hundred times more."""
    return {name: log1p(value) for name, value in sums.items() if value > 0}
