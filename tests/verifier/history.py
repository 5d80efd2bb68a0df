"""Every version that a pattern has published, in order and to the byte (law 4): its maps compiled again, one by one.

That costs what the patterns stage has spent, so it is done for the patterns with the least to compile, up to a bound.
Enters: the patterns that a reference of the evidence partition has found, and the partition of the artifacts topic.
Leaves: faults.
"""

from collections import defaultdict
from typing import Final

import orjson

from hmx_pipeline.compiler.candidate import candidate
from hmx_pipeline.compiler.imported_artifacts import Imported, believed
from hmx_pipeline.compiler.lifecycle import LastPublished, step
from hmx_pipeline.contracts.evidence import Pattern as Name
from hmx_pipeline.contracts.keys import join_key, split_key
from tests.verifier.faults import Item, Report, align, difference
from tests.verifier.log import Part
from tests.verifier.patterns import Pattern, Patterns
from tests.verifier.rules import ARTIFACTS

BOUND: Final = 200_000
"""Contributions compiled again, of one partition: some seconds."""
Published = tuple[int, bytes]
"""Offset of the record that made the pattern speak, and the artifact."""


def compare_history(report: Report, part: Part, number: int, patterns: Patterns) -> None:
    """Of a partition whose artifacts hold together, so that nothing is said twice."""
    published = _published(part)
    spent = 0
    for name, pattern in sorted(patterns.patterns.items(), key=lambda named: (_work(named[1]), named[0])):
        if pattern.maker is not None and pattern.maker.forgot:
            continue  # what an erasure changes of it, and what not, is told by its maker's grouping alone
        spent += _work(pattern)
        if spent > BOUND:
            return
        align(report, f"{ARTIFACTS}/{number}", _compiled(pattern), published.get(name, []), _differ)
        report.compared["patterns compiled again"] += 1


def _work(pattern: Pattern) -> int:
    told = pattern if pattern.maker is None else pattern.maker
    return len(told.heard) * len(pattern.times)


def _published(part: Part) -> dict[str, list[Item]]:
    """By pattern, tombstones left out."""
    found: dict[str, list[Item]] = defaultdict(list)
    for row in part.rows:
        if row.value is not None:
            artifact = orjson.loads(row.value)
            about = artifact["artifact_id"], artifact["status"]
            name = f"{about[0]} {about[1]}, offset {row.offset}"
            says = row.number("hmx-origin-offset"), row.value
            found[join_key(artifact["tenant_id"], artifact["metadata"]["pattern"])].append(Item(about, says, name))
    return found


def _compiled(pattern: Pattern) -> list[Item]:
    items: list[Item] = []
    said: LastPublished | None = None
    for offset, clock in pattern.times.items():
        evidence = pattern.evidence(offset)
        if offset in pattern.forgot:
            said = None
        for cause, imported in _turns(pattern, offset):
            own = candidate(evidence, split_key(pattern.text)[0]) if cause is None else None
            found = believed(own, imported)
            said, artifacts = step(said, found, pattern.tenant_id, Name(*split_key(pattern.text)), clock, cause)
            for artifact in artifacts:
                about = artifact.artifact_id, str(artifact.status)
                items.append(Item(about, (offset, artifact.to_json()), " ".join(about)))
            if not evidence and cause is None and imported is None and pattern.maker is None:
                said = None
    return items


def _turns(pattern: Pattern, offset: int) -> list[tuple[str | None, Imported | None]]:
    """Each time that it speaks because of this record: why it is silent, and what had been imported by then."""
    before, after = pattern.imported(offset), pattern.imported(pattern.decided_before(offset))
    turns = [(cause, after) for cause in _causes(pattern, offset)]
    was_due = any(due for place, due, _ in pattern.gifts if place == offset)
    return [(turns[0][0], before), *turns] if was_due else turns


def _causes(pattern: Pattern, offset: int) -> list[str | None]:
    """Why it is silent each time that it speaks because of this record; None: it is not."""
    silence = pattern.silence(offset)
    if silence is None:
        return [None]
    return [None, silence.cause] if offset == silence.offset and silence.was_due else [silence.cause]


def _differ(expected: Published, found: Published) -> tuple[str, str] | None:
    if expected[0] != found[0]:
        return f"of evidence offset {expected[0]}", f"of {found[0]}"
    return None if expected[1] == found[1] else difference(expected[1], found[1])
