"""The outcome of a segment: success, failure or unknown.

Input: a segment and its actions, paired with their results. Output: a `SegmentOutcome`, unknown if nothing tells.
Explicit feedback wins over the last test run, and that over the last action with a known result.
"""

from collections.abc import Sequence

from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Segment, SegmentOutcome
from hmx_pipeline.segments.pairing import Action

_TEST, _FEEDBACK = Role.TEST, Role.FEEDBACK  # enum lookups are ten times slower


def outcome_of(segment: Segment, acted: Sequence[Action]) -> SegmentOutcome:
    said = _feedback(segment)
    if said is None:
        said = next((a.ok for a in reversed(acted) if a.role is _TEST and a.ok is not None), None)
    if said is None:
        said = next((a.ok for a in reversed(acted) if a.ok is not None), None)
    if said is None:
        return SegmentOutcome.UNKNOWN
    return SegmentOutcome.SUCCESS if said else SegmentOutcome.FAILURE


def _feedback(segment: Segment) -> bool | None:
    """Return the last verdict. A correction, or a rejection after which the agent went on, judges only the work before
    it."""
    acted_since = False
    for step in reversed(segment.steps):
        if step.role in ACTS:
            acted_since = True
        elif step.role is _FEEDBACK:
            signal = step.name.lower()
            if signal == "positive":
                return True
            if signal == "negative" and not acted_since:
                return False
    return None
