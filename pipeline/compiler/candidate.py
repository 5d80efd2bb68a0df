"""What a pattern's contributions say by now. In: its map, in any order. Out: a candidate or None. Nothing fails.

The same map gives the same candidate: what counts of it is put in event-time order and compiled; sources are trimmed to
what an artifact may hold, each time to the same ones (HMX-A §12). A map at its bound is a sample: every count in the
artifact is then the sample's, and `sampled` says of about how many it is one.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from pipeline.compiler.confidence import CONTRADICTED, Tally, Verdict, contradicted, recent
from pipeline.compiler.model import Candidate
from pipeline.compiler.registry import KINDS
from pipeline.contracts.artifact import ValidityScope
from pipeline.contracts.canonical import canonical_json
from pipeline.contracts.evidence import Contribution, SegmentOutcome, segment_rank
from pipeline.contracts.limits import (
    ARTIFACT_BYTES,
    ARTIFACT_SOURCES,
    ARTIFACT_TAGS,
    KB,
    PATTERN_COMPILED,
    PATTERN_CONTRIBUTIONS,
    TAG,
)

_FRAME_BYTES: Final = 16 * KB
"""Room for all fields of an artifact but content and ids."""
SCOPE_RUNS: Final = 3
"""So many successes of an agent, and so many failures of the others, show that a pattern is the agent's own."""
_ID_OVERHEAD: Final = 3  # two quotes and a comma


def in_order(contributions: Sequence[Contribution]) -> list[Contribution]:
    return sorted(contributions, key=lambda c: (c.first_at, c.contribution_id))


def counting(contributions: Sequence[Contribution]) -> list[Contribution]:
    """What counts of a map, in event-time order: of what is not withdrawn the lowest ranks. What is withdrawn keeps its
    place in a full map, and whether it ever came is chance: a barrier made an open segment speak, or none did. So the
    highest ranks of a full map are a reserve, and as long as no more are withdrawn than it holds, what counts is the
    same as if these had never come."""
    standing = [c for c in contributions if not c.withdrawn]
    if len(standing) > PATTERN_COMPILED:
        standing = sorted(standing, key=rank)[:PATTERN_COMPILED]
    return in_order(standing)


def rank(contribution: Contribution) -> int:
    """What decides who stays at a bound, the lowest first."""
    return segment_rank(contribution.session_id, contribution.segment_id)


def alone(names: Iterable[str]) -> str:
    """The one name that there is; empty where there are several, or nothing could be filtered by it."""
    found = set(names)
    one = found.pop() if len(found) == 1 else ""
    return one if len(one) <= TAG else ""


def candidate(contributions: Sequence[Contribution], kind: str = "") -> Candidate | None:
    """`kind`: what they are to be compiled to; else what they are."""
    kept = counted = counting(contributions)
    compiled = KINDS[kind or kept[0].pattern_type].compile if kept else None
    found = compiled(kept) if compiled is not None else None
    if found is None:
        return None
    if found.rests_on is not None:
        kept = list(found.rests_on)
    memory_ids = [c.contribution_id for c in kept]
    room = ARTIFACT_BYTES - _FRAME_BYTES - len(canonical_json(found.content)) - len(canonical_json(memory_ids))
    sources, omitted = _sources(kept, room)
    lineage_tags = sorted(set.intersection(*(set(c.lineage_tags) for c in kept)))
    checked: dict[str, Any] = dict(found.checked)
    if len(contributions) >= PATTERN_CONTRIBUTIONS or len(counted) < sum(not c.withdrawn for c in contributions):
        checked["sampled"] = {"kept": len(kept), "of_about": _population(counted, len(kept))}
    if omitted:
        checked["source_events_omitted"] = omitted
    scope = _scope(kept)
    lately = recent(_within(scope, kept, found.verdicts))
    if lately.sessions:
        checked["recent"] = {"successes": lately.successes, "sessions": lately.sessions, "bound": lately.bound}
    return Candidate(
        title=found.title,
        summary=found.summary,
        content=found.content,
        confidence=found.confidence,
        status=found.status,
        source_events=sources,
        tags=_tags(kept, lineage_tags),
        lineage_tags=lineage_tags,
        lineage_session=alone(c.session_id for c in kept),
        lineage_agent=alone(c.agent_id for c in kept),
        observed_count=len(kept),
        success_rate=found.success_rate,
        newest_at=max(c.last_at for c in kept),
        source_memory_ids=memory_ids,
        validity_scope=scope,
        checked=checked,
        contradicted=_contradiction(lately),
    )


def _scope(contributions: Sequence[Contribution]) -> ValidityScope | None:
    """Agents are named only where it works for them and never once for the others, who have tried (HMX-A §6)."""
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
    """What befell agents that it is not for does not speak against it."""
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
    """How many there are, from how closely the lowest of their evenly spread ranks lie; 2 % off at our bound."""
    highest, size = max(map(rank, sample)), len(sample)
    return max(kept, (size - 1) * kept * 2**64 // (size * (highest + 1)))


def _tags(contributions: Sequence[Contribution], lineage_tags: Sequence[str]) -> list[str]:
    """Those of the whole lineage, then those that the type found, by how often."""
    counts = Counter(tag for c in contributions for tag in dict.fromkeys(c.tags))
    found = sorted(counts, key=lambda tag: (-counts[tag], tag))
    return list(dict.fromkeys([*lineage_tags, *found]))[:ARTIFACT_TAGS]


def _sources(contributions: Sequence[Contribution], room: int) -> tuple[list[str], int]:
    """Distinct source events in event-time order; at the bound whole contributions go, the highest ranks
    first."""
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
