"""What a session's released events say, segment by segment: the second half of the reference of a partition.

A segment speaks when it ends, when it has been idle, when a barrier passes and when feedback comes late; what it says
goes out only if it differs from what it said before. Where segments are cut and what one says is decided by the pure
rooms (`hmx_pipeline.segments`, `hmx_pipeline.compiler`); when it is said, here.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

import msgspec
import xxhash

from hmx_pipeline.compiler.extract import contributions, withdrawal
from hmx_pipeline.compiler.registry import is_statement
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import (
    ASSERTED,
    EXTRACTED,
    Contribution,
    Pattern,
    Segment,
    Step,
    evidence_key,
)
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS, RECORD_BYTES, SEGMENT_EVENTS, SESSION_SEGMENTS, STATED_MS
from hmx_pipeline.intake.steps import step_of
from hmx_pipeline.segments.segment_boundary import SegmentHead, advance, open_head, starts_new

T = TypeVar("T")
LATE_FEEDBACK: Final = 16


class Said(NamedTuple):
    """A contribution, as it must stand on the evidence topic."""

    tenant_id: str
    key: str
    value: bytes
    origin: int = -1
    """The record, or the one whose arrival fired the timer."""


@dataclass(slots=True)
class Spoken:
    """A segment that has said something. Without its steps late feedback can't reach it any more."""

    first: int
    digests: dict[str, int] = field(default_factory=dict)
    """Pattern → digest of what was said last about it."""
    steps: tuple[Step, ...] = ()
    segment_id: str = ""
    agent_id: str = ""


class Segments:
    """Of one session."""

    __slots__ = (
        "_closed", "_counts", "_head", "_open", "_session_id", "_steps", "_tenant_id", "claimed_at", "dirty",
        "speaks_at", "subject",
    )  # fmt: skip

    def __init__(self, tenant_id: str, session_id: str, counts: Counter[str]) -> None:
        self._tenant_id, self._session_id, self._counts = tenant_id, session_id, counts
        self._head: SegmentHead | None = None
        self._open = Spoken(0)
        self._steps: list[Step] = []
        self._closed: list[Spoken] = []
        self.dirty = False
        """The open segment has steps that it has not spoken of."""
        self.speaks_at = 0
        """When it tells what was stated since it last spoke."""
        self.subject = ""
        """The first that an event of the session names."""
        self.claimed_at = 0
        """When that was appended, unless it was the session's first event."""

    @property
    def ended(self) -> bool:
        return self._head is not None and self._head.ended

    def add(self, fields: dict[str, Any], instant: int, log_time: int, index: int, clock: int) -> list[Said]:
        """An event released in order, at `index`."""
        was_ended = self.ended
        at = min(instant // 1_000_000, log_time + CLOCK_SKEW_MS)
        plain = Step(event_id=fields["event_id"], at=at, index=index, role=Role.OBSERVATION)
        step = self._try("step_not_mined", lambda: step_of(fields, at, index), plain)
        if step.role is Role.FEEDBACK and step.target and (again := self._again(step)) is not None:
            return again + self.passed_by(index + 1)
        said: list[Said] = []
        if (head := self._head) is not None and self._starts_new(head, step):
            said, head, was_ended = self._close(), None, False
        if head is None:
            self._head = self._try("step_not_mined", lambda: open_head(step), SegmentHead(last_at=at))
            self._open = Spoken(index, segment_id=step.event_id, agent_id=fields["agent_id"])
            self._steps = [step]
        else:
            self._head = self._advanced(head, step)
            self._steps.append(step)
        self.dirty = True
        by_user = step.role is Role.MESSAGE and step.actor == "user"
        asserts = (step.role, step.name) in ((Role.MESSAGE, EXTRACTED), (Role.OBSERVATION, ASSERTED))
        if step.role is Role.FEEDBACK or by_user or asserts or step.projected is not None or self.ended > was_ended:
            self.speaks_at = self.speaks_at or clock + STATED_MS
        return said

    def _starts_new(self, head: SegmentHead, step: Step) -> bool:
        return self._try("step_not_mined", lambda: starts_new(head, step, self._text), otherwise=False)

    def _text(self, index: int) -> str:
        return next(step.text for step in self._steps if step.index == index)

    def _advanced(self, head: SegmentHead, step: Step) -> SegmentHead:
        return self._try("step_not_mined", lambda: advance(head, step), head)

    def passed_by(self, released: int) -> list[Said]:
        """An event that joins no segment; `released` with it. A segment that spans too many is full."""
        full = self._head is not None and released - self._open.first >= SEGMENT_EVENTS
        return self._close() if full else []

    def so_far(self) -> list[Said]:
        """The open segment says what it can."""
        self.dirty, self.speaks_at = False, 0
        return self._speak(self._open, tuple(self._steps))

    def stated(self) -> list[Said]:
        """The open segment says what its user has stated, which holds whatever follows."""
        self.speaks_at = 0
        return self._speak(self._open, tuple(self._steps), of=is_statement)

    def _close(self) -> list[Said]:
        said = self._speak(self._open, tuple(self._steps))
        self._keep(self._open, tuple(self._steps))
        self._closed.append(self._open)
        self._counts["segment_out_of_reach"] += len(self._closed[:-SESSION_SEGMENTS])
        self._closed = self._closed[-SESSION_SEGMENTS:]
        self._head, self._steps, self.dirty, self.speaks_at = None, [], False, 0
        return said

    def _keep(self, spoken: Spoken, steps: tuple[Step, ...]) -> None:
        """For late feedback, if it fits into one record of state."""
        spoken.steps = steps
        if sum(len(step.text) + len(step.parent) + len(step.correlation) + 5_000 for step in steps) < RECORD_BYTES // 4:
            return
        said = {pattern: f"{digest:016x}" for pattern, digest in spoken.digests.items()}
        if len(msgspec.json.encode({"said": said, "segment": self._segment(spoken, steps)})) > RECORD_BYTES:
            spoken.steps = ()
            self._counts["segment_out_of_reach"] += 1

    def _again(self, step: Step) -> list[Said] | None:
        """Late feedback on a step of a closed segment, the newest first."""
        for spoken in reversed(self._closed):
            if any(known.event_id == step.target for known in spoken.steps):
                steps = spoken.steps
                if len(steps) >= SEGMENT_EVENTS + LATE_FEEDBACK:
                    steps = steps[:-1]
                    self._counts["feedback_replaced"] += 1
                said = self._speak(spoken, (*steps, step))
                self._keep(spoken, (*steps, step))
                return said
        return None

    def claimed(self, subject: str, at: int) -> list[Said]:
        """Now it is known whose the session is: what has been said is said again, as the subject's."""
        self.subject, self.claimed_at = subject, at
        found: list[Said] = []
        for spoken in reversed(self._closed):
            if spoken.steps:
                found += self._speak(spoken, spoken.steps)
                self._keep(spoken, spoken.steps)
        return found + (self.so_far() if self._head is not None and self._open.digests else [])

    def _segment(self, spoken: Spoken, steps: tuple[Step, ...]) -> Segment:
        return Segment(
            tenant_id=self._tenant_id,
            session_id=self._session_id,
            agent_id=spoken.agent_id,
            segment_id=spoken.segment_id,
            steps=steps,
            subject=self.subject,
            claimed_at=self.claimed_at,
        )

    def _speak(self, spoken: Spoken, steps: tuple[Step, ...], of: Callable[[str], bool] = lambda _: True) -> list[Said]:
        """The difference between what the segment says now, `of` some kinds, and what it said last."""
        segment = self._segment(spoken, steps)
        mined = self._try("segment_not_mined", lambda: contributions(segment), None)
        if mined is None:
            return []
        digests = {name: digest for name, digest in spoken.digests.items() if not of(split_key(name)[0])}
        found: list[Said] = []
        for contribution in (one for one in mined if of(one.pattern_type)):
            key, value, pattern = evidence_key(contribution), contribution.to_json(), contribution.pattern.text
            if len(key) + len(value) > RECORD_BYTES:
                self._counts["contribution_too_large"] += 1
                continue
            digests[pattern] = xxhash.xxh3_64_intdigest(value)
            if spoken.digests.get(pattern) != digests[pattern]:
                found.append(self._said(contribution, key, value))
        for pattern in sorted(spoken.digests.keys() - digests.keys()):
            gone = withdrawal(segment, Pattern(*split_key(pattern)))
            found.append(self._said(gone, evidence_key(gone), gone.to_json()))
        spoken.digests = digests
        return found

    def _said(self, contribution: Contribution, key: str, value: bytes) -> Said:
        self._counts["withdrawn" if contribution.withdrawn else "contributed"] += 1
        return Said(self._tenant_id, key, value)

    def _try(self, count: str, compute: Callable[[], T], otherwise: T) -> T:
        """Mining never stops events: what it cannot take is counted."""
        try:
            return compute()
        except (MemoryError, OSError):
            raise
        except Exception:  # noqa: BLE001
            self._counts[count] += 1
            return otherwise
