"""What must come of one partition of the evidence topic: a plain reference of the patterns stage.

Enters: its rows in the order of their offsets. Leaves: `Patterns`, every pattern with its map, and when it spoke. What
the map says is decided by `pipeline.compiler`; when it is asked, and over which contributions, here. Nothing is
compiled while the partition is read: only the last thing that a pattern said must be what its map says (law 5).
"""

import hashlib
import heapq
from collections import Counter
from dataclasses import dataclass, field

from pydantic import ValidationError

from pipeline.compiler.candidate import candidate
from pipeline.compiler.model import Candidate
from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.evidence import Contribution, EvidenceControl, evidence_key
from pipeline.contracts.keys import join_key
from pipeline.contracts.limits import BARRIER_KEPT_MS, PATTERN_CONTRIBUTIONS, PATTERN_DEBOUNCE_MS
from pipeline.contracts.rejections import Reason, Rejection
from tests.verifier.log import Row
from tests.verifier.sessions import Letter


@dataclass(slots=True)
class Pattern:
    tenant_id: str
    text: str
    heard: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Offset, evidence key and value of every contribution, in order."""
    speak_at: int | None = None
    spoke: dict[int, int] = field(default_factory=dict)
    """Offset of the record that made it speak → the clock then."""

    def last(self, before: int | None = None) -> dict[str, bytes]:
        """Evidence key → what counts, of all that came before that offset; at its bound those of the lowest rank."""
        last = {key: value for at, key, value in self.heard if before is None or at < before}
        if len(last) > PATTERN_CONTRIBUTIONS:
            last = {key: last[key] for key in sorted(last, key=_rank)[:PATTERN_CONTRIBUTIONS]}
        return last

    def says(self) -> Candidate | None:
        """When it spoke last."""
        if not self.spoke:
            return None
        return candidate([Contribution.model_validate_json(value) for value in self.last(max(self.spoke)).values()])


def _rank(key: str) -> int:
    """64 bits of a hash of session and segment, the last two parts of an evidence key."""
    session_and_segment = "/".join(key.split("/")[-2:])
    return int.from_bytes(hashlib.sha256(session_and_segment.encode()).digest()[:8], "big")


@dataclass(slots=True)
class Passage:
    """A barrier on its way: the events partitions that have forwarded it."""

    partitions: int
    seen: set[int] = field(default_factory=set)
    passed: bool = False
    forget_at: int = 0


class Patterns:
    """One partition of the evidence topic."""

    def __init__(self) -> None:
        self.clock = 0
        self.patterns: dict[str, Pattern] = {}
        """By the key tenant/pattern."""
        self.passages: dict[str, Passage] = {}
        self.letters: list[Letter] = []
        self.counts: Counter[str] = Counter()
        self._known: dict[str, tuple[set[str], list[tuple[int, str]]]] = {}
        """Pattern → the keys that its map holds, and the same by rank, the highest first."""
        self._timers: list[tuple[int, str]] = []

    def take(self, row: Row) -> None:
        self.clock = max(self.clock, row.at)
        self._fire(row.offset)
        rejection = self._read(row)
        if rejection is not None:
            self.letters.append(Letter(row, rejection))
            self.counts[f"rejected.{rejection.reason}"] += 1

    def _read(self, row: Row) -> Rejection | None:
        if row.value is None:
            return Rejection(Reason.NULL_VALUE)
        try:
            if row.header("hmx-kind") in (b"tick", b"barrier"):
                self._control(row, EvidenceControl.model_validate_json(row.value))
                return None
            contribution = Contribution.model_validate_json(row.value)
        except ValidationError:
            return Rejection(Reason.WRONG_TYPE)
        if contribution.pattern_type not in ARTIFACT_TYPES:
            return Rejection(Reason.WRONG_TYPE, "$.pattern_type")
        self._contribution(row, contribution)
        return None

    def _contribution(self, row: Row, contribution: Contribution) -> None:
        name = join_key(contribution.tenant_id, contribution.pattern.text)
        pattern = self.patterns.setdefault(name, Pattern(contribution.tenant_id, contribution.pattern.text))
        key = evidence_key(contribution)
        self.counts["withdrawn" if contribution.withdrawn else "contributed"] += 1
        if not self._has_place(name, key):
            return
        pattern.heard.append((row.offset, key, row.value or b""))
        if pattern.speak_at is None:
            pattern.speak_at = self.clock + PATTERN_DEBOUNCE_MS
            heapq.heappush(self._timers, (pattern.speak_at, f"p/{name}"))

    def _has_place(self, name: str, key: str) -> bool:
        """A full map keeps the lowest ranks of all that ever came."""
        known, ranks = self._known.setdefault(name, (set(), []))
        if key in known:
            return True
        known.add(key)
        heapq.heappush(ranks, (-_rank(key), key))
        if len(known) > PATTERN_CONTRIBUTIONS:
            self.counts["contribution_out_of_sample"] += 1
            known.remove(heapq.heappop(ranks)[1])
        return key in known

    def _control(self, row: Row, control: EvidenceControl) -> None:
        self.counts["control"] += 1
        if control.kind != "barrier":
            return
        passage = self.passages.setdefault(control.barrier_id, Passage(control.partitions))
        passage.seen.add(control.partition)
        passage.partitions = control.partitions
        passes = len(passage.seen) == control.partitions
        if passes and not passage.passed:
            for name in [name for name, pattern in self.patterns.items() if pattern.speak_at is not None]:
                self._speak(name, row.offset)
        passage.passed = passes
        passage.forget_at = self.clock + BARRIER_KEPT_MS
        heapq.heappush(self._timers, (passage.forget_at, f"b/{control.barrier_id}"))

    def _fire(self, offset: int) -> None:
        """In any order: what patterns say and which barriers are forgotten does not touch each other."""
        while self._timers and self._timers[0][0] <= self.clock:
            at, key = heapq.heappop(self._timers)
            kind, _, name = key.partition("/")
            if kind == "b":
                if name in self.passages and self.passages[name].forget_at == at:
                    del self.passages[name]
            elif self.patterns[name].speak_at == at:
                self._speak(name, offset)

    def _speak(self, name: str, offset: int) -> None:
        pattern = self.patterns[name]
        pattern.spoke[offset] = self.clock
        pattern.speak_at = None
