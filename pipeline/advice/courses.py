"""Courses as advice reads them. In: contributions of the kind `course`, or the steps of a session that is under way.
Out: `Course`. Nothing fails.

Advice is a pure function of the courses it is given, whatever their order, and of the session that asks.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from pipeline.compiler.course import ACTIONS, asked_stems, body_of, said_stems
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from pipeline.segments.intent import goal_intent, goal_messages
from pipeline.segments.pairing import actions


class Advised(NamedTuple):
    verb: str
    share: float
    """Of all that might be advised."""


class Act(NamedTuple):
    verb: str
    ok: bool | None
    error: str
    """The error's class, as the event names it."""
    asked: int
    """Position in `Course.asked` of the user's newest message before it; -1: none."""
    found: tuple[str, ...]
    """What the result says, as `key=value`."""
    said: tuple[str, ...]
    """Stems of what the agent said before it."""


class Fault(NamedTuple):
    """An error that is no action's, such as an answer that could not be read."""

    at: int
    """Position in `Course.acts` of the act after it."""
    error: str


class Course(NamedTuple):
    """What a session did, in order."""

    session_id: str
    agent_id: str
    success: bool | None
    goal: frozenset[str]
    """Stems of the first user messages."""
    classes: frozenset[str]
    """Intent classes of these messages."""
    asked: tuple[tuple[str, ...], ...]
    """Stems of the user's messages that came before an action."""
    acts: tuple[Act, ...]
    actions: int
    """How many there were; `acts` is bounded."""
    faults: tuple[Fault, ...] = ()
    heard: tuple[str, ...] = ()
    """Of a session that is under way: stems of the user's newest message."""
    waiting: bool = False
    """Likewise: that message came after the last action."""
    said: tuple[str, ...] = ()
    """Likewise: stems of what the agent has said since."""


def courses(contributions: Iterable[Contribution]) -> list[Course]:
    """One for each session, by its id: its segments one after the other, its goal that of the first, its outcome the
    last that is known."""
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


def under_way(steps: Sequence[Step], agent_id: str = "") -> Course:
    """The course of a session so far. Of a long one the newest actions."""
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
    """Its position; -1: none."""
    own = (i for i in reversed(range(len(steps))) if steps[i].role is Role.MESSAGE and steps[i].actor == actor)
    return next(own, -1)


def _course(
    session_id: str, agent_id: str, success: bool | None, classes: frozenset[str], bodies: Sequence[dict[str, Any]]
) -> Course:
    asked: list[tuple[str, ...]] = []
    acts: list[Act] = []
    faults: list[Fault] = []
    for body in bodies:
        words: list[str] = body["words"]
        before, done = len(asked), len(acts)
        asked.extend(tuple(words[place] for place in stems) for stems in body["asked"])
        faults.extend(Fault(done + at, words[error] if error >= 0 else "") for at, error in body["faults"])
        for verb, ok, error, newest, found, said in body["acts"]:
            if verb >= 0:
                acts.append(
                    Act(
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
    return Course(session_id, agent_id, success, goal, classes, tuple(asked), tuple(acts), total, tuple(faults))
