"""Action traces as advice reads them: what each session did, in order, with results and errors.

Input: contributions of the kind `course`, or the steps of a running session. Output: `ActionTrace`. The result does not
depend on the order of the contributions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hmx_pipeline.compiler.action_trace import ACTIONS, body_of, said_stems
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from hmx_pipeline.segments.pairing import actions


class Recommendation(NamedTuple):
    verb: str
    share: float
    """Share of all that might be recommended, 0 to 1."""


class TracedAction(NamedTuple):
    verb: str
    ok: bool | None
    error: str
    """Class of the error, as the event names it."""
    said: tuple[str, ...] = ()
    """Stems of the agent's words before this action."""


class UnattributedError(NamedTuple):
    """An error that belongs to no action, such as an answer that could not be parsed."""

    at: int
    """Index in `ActionTrace.acts` of the next action."""
    error: str


class ActionTrace(NamedTuple):
    """The actions of one session, in order."""

    session_id: str
    success: bool | None
    goal: frozenset[str]
    """Stems of the first user messages."""
    acts: tuple[TracedAction, ...]
    faults: tuple[UnattributedError, ...] = ()
    said: tuple[str, ...] = ()
    """For a running session: stems of the agent's words since the last action."""


def courses(contributions: Iterable[Contribution]) -> list[ActionTrace]:
    """Join the segments of each session into one action trace; sorted by session id. The goal is the first segment's,
    the outcome the last known one."""
    sessions: dict[str, list[Contribution]] = defaultdict(list)
    for contribution in contributions:
        sessions[contribution.session_id].append(contribution)
    found = []
    for session_id in sorted(sessions):
        segments = sorted(sessions[session_id], key=lambda c: (c.first_at, c.contribution_id))
        known = [c.outcome is SegmentOutcome.SUCCESS for c in segments if c.outcome is not SegmentOutcome.UNKNOWN]
        found.append(_course(session_id, known[-1] if known else None, [c.body for c in segments]))
    return found


def under_way(steps: Sequence[Step]) -> ActionTrace:
    """Return the action trace of a running session; of a long one, the newest actions."""
    segment = Segment(tenant_id="", session_id="", agent_id="", segment_id="", steps=tuple(steps))
    done = actions(segment)
    acts = [at for at, action in enumerate(done) if action.verb]
    newest = done[acts[-ACTIONS] :] if len(acts) > ACTIONS else done
    since = newest[-1].position if newest else -1
    told = (step for step in reversed(steps[since + 1 :]) if step.role is Role.MESSAGE and step.actor == "assistant")
    said = next((said_stems(step.text) for step in told), ())
    return _course("", None, [body_of(segment, newest)])._replace(said=tuple(said))


def _course(session_id: str, success: bool | None, bodies: Sequence[dict[str, Any]]) -> ActionTrace:
    acts: list[TracedAction] = []
    faults: list[UnattributedError] = []
    for body in bodies:
        words: list[str] = body["words"]
        done = len(acts)
        faults.extend(UnattributedError(done + at, words[error] if error >= 0 else "") for at, error in body["faults"])
        for verb, ok, error, _, _, said in body["acts"]:
            if verb >= 0:
                told = tuple(words[place] for place in said)
                result = None if ok < 0 else bool(ok)
                acts.append(TracedAction(words[verb], result, words[error] if error >= 0 else "", told))
    goal = frozenset(bodies[0]["words"][place] for place in bodies[0]["goal"])
    return ActionTrace(session_id, success, goal, tuple(acts), tuple(faults))
