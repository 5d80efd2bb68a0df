"""How a segment went. In: a segment. Out: success, failure or unknown. Nothing fails.

Explicit feedback beats the last test run, that the last exit code or success flag, that an error nothing followed.
"""

from collections.abc import Sequence

from pipeline.contracts.event_types import ACTS, Role
from pipeline.contracts.evidence import Segment, SegmentOutcome
from pipeline.segments.pairing import Action


def outcome_of(segment: Segment, acted: Sequence[Action]) -> SegmentOutcome:
    """`acted`: the segment's actions."""
    said = _feedback(segment)
    if said is None:
        said = next((a.ok for a in reversed(acted) if a.role is Role.TEST and a.ok is not None), None)
    if said is None:
        said = next((a.ok for a in reversed(acted) if a.ok is not None), None)
    if said is None:
        return SegmentOutcome.UNKNOWN
    return SegmentOutcome.SUCCESS if said else SegmentOutcome.FAILURE


def _feedback(segment: Segment) -> bool | None:
    """The last verdict. A correction, or a rejection after which the agent went on, is about the span before it
    only."""
    acted_since = False
    for step in reversed(segment.steps):
        if step.role in ACTS:
            acted_since = True
        elif step.role is Role.FEEDBACK:
            signal = step.name.lower()
            if signal == "positive":
                return True
            if signal == "negative" and not acted_since:
                return False
    return None
