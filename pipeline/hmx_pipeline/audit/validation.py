"""Validation of NDJSON events without Kafka: what the pipeline would reject, and why (`hmx validate`).

Enters: lines in order. Leaves: a `Validation`. Pure; no line makes it raise. Events already in the log are unknown
here, so duplicates of those are not found.
"""

import difflib
from collections import defaultdict
from collections.abc import Set
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, NamedTuple

from hmx_pipeline.audit.record_digests import identity_of
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event_types import AGENT_TYPES, AUDIT, EVENT_TYPES, UNKNOWN_TYPE, event_type
from hmx_pipeline.contracts.keys import CONTROL_TENANT, session_key, split_key
from hmx_pipeline.contracts.limits import KB
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.intake.deviations import FORM

KEPT: Final = 1_000
"""Findings kept per kind, and kinds of notes; all are counted."""
_NEAR: Final = 0.8
"""Least likeness of a misspelt type to the one that is meant."""
_LONGEST: Final = 64
"""Most characters of a type that is compared with those that are known."""


class LineFinding(NamedTuple):
    """A message about a line; `path` is the JSON path of the cause."""

    line: int
    path: str
    detail: str


class Gap(NamedTuple):
    """Missing sequences of a session, from 0 to its highest."""

    tenant_id: str
    session_id: str
    missing: int
    first: int


@dataclass
class Findings:
    count: int = 0
    first: list[LineFinding] = field(default_factory=list)

    def add(self, finding: LineFinding) -> None:
        self.count += 1
        if len(self.first) < KEPT:
            self.first.append(finding)


@dataclass
class Validation:
    lines: int = 0
    """Number of lines that are not blank."""
    rejected: dict[Reason, Findings] = field(default_factory=dict)
    notes: dict[str, Findings] = field(default_factory=dict)
    """Deviations from HMX-E §3 or §4 that are accepted."""
    duplicates: Findings = field(default_factory=Findings)
    redacted: int = 0
    """Number of lines with secrets that would be redacted."""
    gaps: list[Gap] = field(default_factory=list)
    sessions: int = 0

    @property
    def rejections(self) -> int:
        return sum(found.count for found in self.rejected.values())

    @property
    def accepted(self) -> int:
        return self.lines - self.rejections - self.duplicates.count

    def as_json(self) -> dict[str, Any]:
        return {
            "lines": self.lines,
            "accepted": self.accepted,
            "rejected": self.rejections,
            "duplicates": self.duplicates.count,
            "redacted": self.redacted,
            "sessions": self.sessions,
            "reasons": [
                {"reason": str(reason), "step": str(reason.step), "advice": reason.advice, **_listed(found)}
                for reason, found in by_count(self.rejected)
            ],
            "notes": [{"note": note, **_listed(found)} for note, found in by_count(self.notes)],
            "duplicate_lines": [finding._asdict() for finding in self.duplicates.first],
            "gaps": [gap._asdict() for gap in self.gaps[:KEPT]],
            "sessions_with_gaps": len(self.gaps),
        }


def by_count(found: dict[Any, Findings]) -> list[tuple[Any, Findings]]:
    """Sorts by count, the most frequent first."""
    return sorted(found.items(), key=lambda item: -item[1].count)


def _listed(found: Findings) -> dict[str, Any]:
    return {"count": found.count, "first": [finding._asdict() for finding in found.first]}


class Validator:
    """`line` for each line in its order, then `result`. Keeps two digests and the sequence of each event."""

    def __init__(self) -> None:
        self._result = Validation()
        self._seen: dict[bytes, tuple[bytes, int]] = {}
        self._sequences: defaultdict[str, set[int]] = defaultdict(set)

    def line(self, number: int, line: bytes) -> None:
        """Checks one line; `number` counts blank lines too, as editors do."""
        if not line.strip():
            return
        self._result.lines += 1
        found = decode(line)
        if isinstance(found, Rejection):
            self._reject(number, found)
        elif found.control:
            path = "$.tenant_id" if found.event.tenant_id == CONTROL_TENANT else "$.event_type"
            self._reject(number, Rejection(Reason.RESERVED, path))
        else:
            self._accepted(number, found)

    def result(self) -> Validation:
        """Returns the result; gaps are sorted by size."""
        result, gaps = self._result, []
        for session, sequences in self._sequences.items():
            missing, first = lacking(sequences)
            if missing:
                tenant_id, session_id = split_key(session)
                gaps.append(Gap(tenant_id, session_id, missing, first))
        result.gaps = sorted(gaps, key=lambda gap: -gap.missing)
        result.sessions = len(self._sequences)
        return result

    def _reject(self, number: int, rejection: Rejection) -> None:
        finding = LineFinding(number, rejection.path, rejection.said)
        self._result.rejected.setdefault(rejection.reason, Findings()).add(finding)

    def _accepted(self, number: int, found: Accepted) -> None:
        known = self._seen.setdefault(identity_of(found.event), (found.digest, number))
        if known[0] != found.digest:
            detail = f"same id as line {known[1]}, but other content"
            return self._reject(number, Rejection(Reason.EVENT_ID_REUSED, "$.event_id", detail))
        if known[1] != number:
            return self._result.duplicates.add(LineFinding(number, "$", f"same event as line {known[1]}"))
        session = session_key(found.event.tenant_id, found.event.session_id)
        sequences = self._sequences[session]
        if not found.arrival:
            sequences.add(found.event.sequence)
        self._result.redacted += bool(found.redacted)
        notes = self._result.notes
        for note in _unknown(found.event.event_type) if FORM in found.notes else found.notes:
            kept = note if note in notes or len(notes) < KEPT else FORM
            notes.setdefault(kept, Findings()).add(LineFinding(number, "$", note))
        return None


@remembered(256 * KB)
def _unknown(name: str) -> tuple[str, ...]:
    """Names the type that is meant; empty for a type of agents' own work, whose name needs no vendor."""
    row = event_type(name)
    if row not in (UNKNOWN_TYPE, AUDIT):
        return ()
    near = difflib.get_close_matches(name, [*EVENT_TYPES, *AGENT_TYPES], 1, _NEAR) if len(name) <= _LONGEST else []
    if row is AUDIT and not near:
        return ()
    meant = f"did you mean {near[0]}?" if near else "types of your own have the form x-{vendor}-{type}"
    return (f"unknown event_type {name[:_LONGEST]}: {meant}",)


def lacking(sequences: Set[int]) -> tuple[int, int]:
    """How many are not there below the highest, and the first of them."""
    missing = max(sequences, default=-1) + 1 - len(sequences)
    return missing, next(n for n in count() if n not in sequences) if missing else 0
