"""Action traces as advice reads them: what each session did, in order, with results and errors.

Input: contributions of the kind `course`, or the steps of a running session. Output: `ActionTrace`. The result does not
depend on the order of the contributions.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from hmx_pipeline.compiler.action_trace import ACTIONS, asked_stems, body_of, said_stems
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from hmx_pipeline.segments.intent import goal_intent, goal_messages
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
    asked: int
    """Index in `ActionTrace.asked` of the user's newest message before this action; -1 if there is none."""
    found: tuple[str, ...]
    """Facts in the result, as `key=value`."""
    said: tuple[str, ...]
    """Stems of the agent's words before this action."""


class UnattributedError(NamedTuple):
    """An error that belongs to no action, such as an answer that could not be parsed."""

    at: int
    """Index in `ActionTrace.acts` of the next action."""
    error: str


class ActionTrace(NamedTuple):
    """The actions of one session, in order."""

    session_id: str
    agent_id: str
    success: bool | None
    goal: frozenset[str]
    """Stems of the first user messages."""
    classes: frozenset[str]
    """Intent classes of these messages."""
    asked: tuple[tuple[str, ...], ...]
    """Stems of the user messages that came before an action."""
    acts: tuple[TracedAction, ...]
    actions: int
    """Number of actions of the session; `acts` is bounded."""
    faults: tuple[UnattributedError, ...] = ()
    heard: tuple[str, ...] = ()
    """For a running session: stems of the user's newest message."""
    waiting: bool = False
    """For a running session: True if that message came after the last action."""
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
        found.append(
            _course(
                session_id,
                segments[0].agent_id,
                known[-1] if known else None,
                frozenset(segments[0].tags),
                [c.body for c in segments],
            )
        )
    return found


def under_way(steps: Sequence[Step], agent_id: str = "") -> ActionTrace:
    """Return the action trace of a running session; of a long one, the newest actions."""
    segment = Segment(tenant_id="", session_id="", agent_id=agent_id, segment_id="", steps=tuple(steps))
    done = actions(segment)
    acts = [at for at, action in enumerate(done) if action.verb]
    newest = done[acts[-ACTIONS] :] if len(acts) > ACTIONS else done
    body = body_of(segment, newest) | {"actions": len(acts)}
    classes = frozenset(goal_intent(goal_messages(steps)).classes)
    since = newest[-1].position if newest else -1
    heard, told = _last_message(steps, "user"), _last_message(steps, "assistant")
    return _course("", agent_id, None, classes, [body])._replace(
        heard=tuple(asked_stems(steps[heard].text)) if heard >= 0 else (),
        waiting=heard > since,
        said=tuple(said_stems(steps[told].text)) if told > since else (),
    )


def _last_message(steps: Sequence[Step], actor: str) -> int:
    """Return its index in `steps`, or -1."""
    own = (i for i in reversed(range(len(steps))) if steps[i].role is Role.MESSAGE and steps[i].actor == actor)
    return next(own, -1)


def _course(
    session_id: str, agent_id: str, success: bool | None, classes: frozenset[str], bodies: Sequence[dict[str, Any]]
) -> ActionTrace:
    asked: list[tuple[str, ...]] = []
    acts: list[TracedAction] = []
    faults: list[UnattributedError] = []
    for body in bodies:
        words: list[str] = body["words"]
        before, done = len(asked), len(acts)
        asked.extend(tuple(words[place] for place in stems) for stems in body["asked"])
        faults.extend(UnattributedError(done + at, words[error] if error >= 0 else "") for at, error in body["faults"])
        for verb, ok, error, newest, found, said in body["acts"]:
            if verb >= 0:
                acts.append(
                    TracedAction(
                        words[verb],
                        None if ok < 0 else bool(ok),
                        words[error] if error >= 0 else "",
                        newest + before if newest >= 0 else -1,
                        tuple(words[place] for place in found),
                        tuple(words[place] for place in said),
                    )
                )
    goal = frozenset(bodies[0]["words"][place] for place in bodies[0]["goal"])
    total = sum(body["actions"] for body in bodies)
    return ActionTrace(session_id, agent_id, success, goal, classes, tuple(asked), tuple(acts), total, tuple(faults))
