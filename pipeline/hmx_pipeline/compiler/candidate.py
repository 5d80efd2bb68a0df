"""An artifact candidate, compiled from the contributions of one pattern.

Input: all contributions of one pattern, withdrawn ones too. Output: an `ArtifactCandidate`, which `compiler/lifecycle`
gives an id and a version; None without a finding. The same map gives the same candidate, in whatever order its
contributions came. Sources are trimmed to the bound of an artifact, always to the same ones (HMX-A §12). A full map is
a sample: then all counts are the sample's, and `sampled` estimates the size of the population.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final

from hmx_pipeline.compiler.confidence import CONTRADICTED, Tally, Verdict, contradicted, recent
from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate, Finding
from hmx_pipeline.compiler.private_words import of_several, only_subject, several
from hmx_pipeline.compiler.registry import KINDS
from hmx_pipeline.contracts.artifact import ValidityScope
from hmx_pipeline.contracts.canonical import canonical_json
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome, mean_salience, segment_rank
from hmx_pipeline.contracts.limits import (
    ARTIFACT_BYTES,
    ARTIFACT_SOURCES,
    ARTIFACT_TAGS,
    KB,
    PATTERN_COMPILED,
    PATTERN_CONTRIBUTIONS,
    TAG,
)

_FRAME_BYTES: Final = 16 * KB
"""Bytes reserved for all fields of an artifact but content and ids."""
SCOPE_RUNS: Final = 3
"""An artifact is limited to some agents after this many successes of theirs and failures of the others."""
_ID_OVERHEAD: Final = 3  # two quotes and a comma


def in_order(contributions: Sequence[Contribution]) -> list[Contribution]:
    return sorted(contributions, key=lambda c: (c.first_at, c.contribution_id))


def counting(contributions: Sequence[Contribution]) -> list[Contribution]:
    """Return the contributions that count, in event-time order: those with the lowest ranks that are not withdrawn.
    Withdrawn ones keep their place in a full map, and whether they ever came is chance: a barrier may have made an open
    segment contribute. So the highest ranks of a full map are a reserve. While it holds more than were withdrawn, the
    result is the same as if they had never come."""
    standing = [c for c in contributions if not c.withdrawn]
    if len(standing) > PATTERN_COMPILED:
        standing = sorted(standing, key=rank)[:PATTERN_COMPILED]
    return in_order(standing)


def rank(contribution: Contribution) -> int:
    """Return the key that decides which contributions stay at a bound, lowest first."""
    return segment_rank(contribution.session_id, contribution.segment_id)


def alone(names: Iterable[str]) -> str:
    """Return the only name; empty if there are several, or if it is too long for a label."""
    found = set(names)
    one = found.pop() if len(found) == 1 else ""
    return one if len(one) <= TAG else ""


def candidate(contributions: Sequence[Contribution], kind: str = "") -> ArtifactCandidate | None:
    """Compile the contributions to `kind`, by default their own; None without a finding. What rests on one subject
    alone is private to it; else the words of single subjects are masked."""
    kept = counted = counting(contributions)
    compiled = KINDS[kind or kept[0].pattern_type].compile if kept else None
    found = compiled(kept) if compiled is not None else None
    if found is None:
        return None
    if found.rests_on is not None:
        kept = list(found.rests_on)
    owner = only_subject(kept)
    if not owner:
        found = of_several(found, kept)
    memory_ids = [c.contribution_id for c in kept]
    room = ARTIFACT_BYTES - _FRAME_BYTES - len(canonical_json(found.content)) - len(canonical_json(memory_ids))
    sources, omitted = _sources(kept, room)
    shared_tags = set.intersection(*(set(c.lineage_tags) for c in kept))
    lineage_tags = sorted(tag for tag in shared_tags if owner or several(kept, tag))
    checked: dict[str, Any] = dict(found.checked)
    if len(contributions) >= PATTERN_CONTRIBUTIONS or len(counted) < sum(not c.withdrawn for c in contributions):
        checked["sampled"] = {"kept": len(kept), "of_about": _population(counted, len(kept))}
    if omitted:
        checked["source_events_omitted"] = omitted
    scope = _scope(kept)
    lately = recent(_within(scope, kept, found.verdicts))
    if lately.sessions:
        checked["recent"] = {"successes": lately.successes, "sessions": lately.sessions, "bound": lately.bound}
    told: dict[str, Any] = {each.name: getattr(found, each.name) for each in fields(Finding)}
    return ArtifactCandidate(
        **told | {"checked": checked},
        source_events=sources,
        tags=_tags(kept, lineage_tags, owned=bool(owner)),
        lineage_tags=lineage_tags,
        salience=mean_salience(c.salience for c in kept),
        lineage_session=alone(c.session_id for c in kept),
        lineage_agent=alone(c.agent_id for c in kept),
        subject=owner,
        observed_count=len(kept),
        newest_at=max(c.last_at for c in kept),
        source_memory_ids=memory_ids,
        validity_scope=scope,
        contradicted=_contradiction(lately),
    )


def _scope(contributions: Sequence[Contribution]) -> ValidityScope | None:
    """Limit to agents for whom it works, if it never worked for the others, who have tried (HMX-A §6)."""
    runs: dict[str, Counter[SegmentOutcome]] = defaultdict(Counter)
    for c in contributions:
        runs[c.agent_id][c.outcome] += 1
    able = sorted(agent for agent, seen in runs.items() if seen[SegmentOutcome.SUCCESS] >= SCOPE_RUNS)
    others = sum((seen for agent, seen in runs.items() if agent not in able), Counter[SegmentOutcome]())
    if not able or others[SegmentOutcome.FAILURE] < SCOPE_RUNS or others[SegmentOutcome.SUCCESS]:
        return None
    return ValidityScope(agent_ids=able)


def _within(
    scope: ValidityScope | None, contributions: Sequence[Contribution], verdicts: Sequence[Verdict]
) -> Iterable[Verdict]:
    """Drop the verdicts of agents that it does not apply to."""
    if scope is None or not scope.agent_ids:
        return verdicts
    able = {c.session_id for c in contributions if c.agent_id in scope.agent_ids}
    return (verdict for verdict in verdicts if verdict[0] in able)


def _contradiction(lately: Tally) -> str:
    if not contradicted(lately):
        return ""
    counts = f"{lately.successes} of the last {lately.sessions} sessions"
    return f"it went well in {counts} only: bound {lately.bound:.2f}, less than {CONTRADICTED}"


def _population(sample: Sequence[Contribution], kept: int) -> int:
    """Estimate the population from the highest rank in the sample, because ranks are evenly distributed (2 % error at
    our bound)."""
    highest, size = max(map(rank, sample)), len(sample)
    return max(kept, (size - 1) * kept * 2**64 // (size * (highest + 1)))


def _tags(contributions: Sequence[Contribution], lineage_tags: Sequence[str], *, owned: bool) -> list[str]:
    """Return the tags of all sources, then those that the type found, most frequent first."""
    counts = Counter(tag for c in contributions for tag in dict.fromkeys(c.tags))
    found = sorted(counts, key=lambda tag: (-counts[tag], tag))
    told = [tag for tag in dict.fromkeys([*lineage_tags, *found]) if owned or several(contributions, tag)]
    return told[:ARTIFACT_TAGS]


def _sources(contributions: Sequence[Contribution], room: int) -> tuple[list[str], int]:
    """Return distinct source events in event-time order, and how many were left out. At the bound whole contributions
    are left out, highest ranks first."""
    everything = {event for c in contributions for event in c.source_events}
    chosen: set[str] = set()
    for c in sorted(contributions, key=rank):
        fresh = [event for event in dict.fromkeys(c.source_events) if event not in chosen]
        size = sum(len(canonical_json(event)) + _ID_OVERHEAD for event in fresh)
        if len(chosen) + len(fresh) > ARTIFACT_SOURCES or size > room:
            break
        chosen.update(fresh)
        room -= size
    listed = dict.fromkeys(event for c in contributions for event in c.source_events if event in chosen)
    return list(listed), len(everything) - len(listed)
