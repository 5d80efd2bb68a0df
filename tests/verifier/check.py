"""Read, compute, compare.

Enters: addresses and the deployment's rules, or a snapshot that was read. Leaves: a `Report`. Fails as reading does.
"""

from collections import Counter
from collections.abc import Iterator

from hmx_pipeline.contracts.limits import WINDOW_MS
from tests.verifier.artifacts import compare_artifacts, count_statuses
from tests.verifier.faults import Kind, Report
from tests.verifier.history import compare_history
from tests.verifier.knowledge import compare_knowledge
from tests.verifier.log import Part, Progress, Row, Snapshot, read
from tests.verifier.outputs import (
    By,
    by_origin,
    compare_copies,
    compare_episodes,
    compare_erasures,
    compare_evidence,
    compare_letters,
)
from tests.verifier.patterns import Patterns
from tests.verifier.projection import compare_memory
from tests.verifier.rules import (
    ARTIFACTS,
    EPISODES,
    ERASURES,
    EVENTS,
    EVENTS_DLQ,
    EVIDENCE,
    EVIDENCE_DLQ,
    KNOWLEDGE,
    LOST,
    PATTERN_STATE,
    SESSION_STATE,
    Rules,
)
from tests.verifier.sessions import Made, Reference
from tests.verifier.tables import (
    POSITION,
    Table,
    compare_artifact_counts,
    compare_knowledge_counts,
    compare_patterns,
    compare_position,
    compare_sessions,
    of_kind,
    table,
)

Ranges = list[tuple[int, int]]


def check(
    bootstrap: str,
    prefix: str,
    redis_url: str,
    control_key: str,
    *,
    strict: bool = False,
    window_ms: int = WINDOW_MS,
    earlier: Snapshot | None = None,
    progress: Progress = lambda _: None,
) -> Report:
    """Of a pipeline at rest. `earlier` was read before retention deleted what its records came from.

    Without a Redis URL Redis is not looked at.
    """
    snapshot = read(bootstrap, prefix, redis_url, progress)
    if earlier is not None:
        snapshot = snapshot.after(earlier)
    return compare(snapshot, Rules(control_key, strict, window_ms), progress)


def compare(snapshot: Snapshot, rules: Rules, progress: Progress = lambda _: None) -> Report:
    report = Report()
    mades = []
    evidence = by_origin(report, snapshot.topics[EVIDENCE], len(snapshot.topics[EVENTS]))
    for number in range(len(snapshot.topics[EVENTS])):
        progress(f"computing {EVENTS}/{number}")
        mades.append(_compare_events(report, snapshot, rules, number, evidence))
    compare_copies(report, mades, snapshot.topics[EVENTS], rules)
    for number, part in enumerate(snapshot.topics[EVIDENCE]):
        progress(f"computing {EVIDENCE}/{number}")
        _compare_patterns(report, snapshot, number, part)
    if snapshot.memory is not None:
        progress("computing Redis")
        compare_memory(report, snapshot)
    return report


def _compare_events(report: Report, snapshot: Snapshot, rules: Rules, number: int, evidence: By) -> Made:
    part, partitions = snapshot.topics[EVENTS][number], len(snapshot.topics[EVENTS])
    found = table(snapshot.topics[SESSION_STATE][number])
    lost = _lost(report, number, part, found)
    reference = Reference(number, partitions, rules)
    reference.lost(lost)
    for row in _read_by_the_stage(part.rows, lost):
        reference.take(row)
    made = reference.made
    compare_episodes(report, number, made, snapshot.topics[EPISODES][number])
    compare_erasures(report, number, made, snapshot.topics[ERASURES][number])
    compare_letters(report, EVENTS, EVENTS_DLQ, number, made.letters, snapshot.topics[EVENTS_DLQ][number])
    compare_evidence(report, number, made, evidence, len(snapshot.topics[EVIDENCE]), partitions)
    where, topic_id = f"{SESSION_STATE}/{number}", snapshot.topic_ids[EVENTS]
    compare_position(report, where, found, topic_id, made.clock, made.counts, part.rows)
    compare_sessions(report, number, found, made, rules)
    report.records += len(part.rows)
    report.outcomes.update(made.outcomes.values())
    if lost:
        report.outcomes[LOST] += sum(end - start for start, end in lost)
    made.episodes, made.evidence, made.letters = [], [], []
    return made


def _lost(report: Report, number: int, part: Part, found: Table) -> Ranges:
    """Offsets that the stage says were deleted unread; whatever else is gone can't be verified any more."""
    ranges = [(start, end) for start, end in found.get(POSITION, {}).get("lost", [])]
    gone = part.low - sum(min(end, part.low) - start for start, end in ranges if start < part.low)
    if gone:
        where = f"{EVENTS}/{number}"
        report.add(Kind.BEHIND, where, "every record, or one read before it was deleted", f"{gone} offsets are gone")
    return ranges


def _read_by_the_stage(rows: list[Row], lost: Ranges) -> Iterator[Row]:
    return (row for row in rows if not any(start <= row.offset < end for start, end in lost))


def _compare_patterns(report: Report, snapshot: Snapshot, number: int, part: Part) -> None:
    found = table(snapshot.topics[PATTERN_STATE][number])
    patterns = Patterns()
    for row in part.rows:
        patterns.take(row)
    patterns.add_made()
    artifacts, before = snapshot.topics[ARTIFACTS][number], len(report.faults)
    versions = compare_artifacts(report, artifacts, number, patterns)
    if len(report.faults) == before and not count_statuses(artifacts)[1]:
        compare_history(report, artifacts, number, patterns)
    knowledge = snapshot.topics[KNOWLEDGE][number]
    told = compare_knowledge(report, knowledge, number, patterns, of_kind(found, "p"), of_kind(found, "d"))
    compare_letters(report, EVIDENCE, EVIDENCE_DLQ, number, patterns.letters, snapshot.topics[EVIDENCE_DLQ][number])
    counts: Counter[str] = Counter(patterns.counts)
    counts.update(compare_artifact_counts(report, number, found, artifacts, patterns))
    counts["archived_inactive"] = patterns.decisions - counts["artifact_archived"]
    counts.update(compare_knowledge_counts(report, number, found, told, knowledge))
    where, topic_id = f"{PATTERN_STATE}/{number}", snapshot.topic_ids[EVIDENCE]
    compare_position(report, where, found, topic_id, patterns.clock, counts, part.rows)
    compare_patterns(report, number, found, patterns, versions)
