"""Workflow hints: the current step of the best-matching procedure, open failures and next steps (HMX-C §6).

Input: the procedure (if any), known failures, the session's recent steps, and recommendations from similar sessions.
Output: hints, or None if there is nothing to say.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple

from hmx_pipeline.advice.recommendations import NOTHING, Advice
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Segment, Step
from hmx_pipeline.contracts.limits import PACK_NEXT_STEPS
from hmx_pipeline.contracts.pack import NextStep, WorkflowHints
from hmx_pipeline.retrieval.terms import terms
from hmx_pipeline.segments.action_names import phrase_of, tool_of
from hmx_pipeline.segments.masking import sentence
from hmx_pipeline.segments.pairing import Action, actions

# Score of an action that does a later step, repeats the last step at once, starts the procedure anew, or repeats an
# earlier step; and the cost of each step left out. The alignment with the highest sum is the current position.
_DONE: Final = 20
_AT_ONCE: Final = 18
_ANEW: Final = 15
_AGAIN: Final = 10
_LEFT_OUT: Final = 4
_OPTIONAL: Final = 1
_BLOCKERS: Final = 5
_KNOWN_AGAIN: Final = 0.5
"""Share of a known failure's words that an open failure must contain."""

Schema = Sequence[Mapping[str, Any]]


class Blocker(NamedTuple):
    verb: str
    text: str
    """What failed and how, in the session's words."""


def workflow_hints(
    schema: Artifact | None,
    session: Sequence[Step],
    playbooks: Sequence[Artifact] = (),
    guidance: Advice = NOTHING,
) -> WorkflowHints | None:
    """Build the hints: first what has helped with an open failure, then recommendations, then the procedure's next
    steps."""
    steps: Schema = schema.content.get("steps", ()) if schema is not None else ()
    acts = actions(Segment(tenant_id="", session_id="", agent_id="", segment_id="", steps=tuple(session)))
    blocking = blockers(acts, session)
    if not steps and not blocking and guidance == NOTHING:
        return None
    done = steps_done(steps, acts, session)
    next_steps = [_next(schema, step) for step in steps[done:] if schema is not None]
    return WorkflowHints(
        suggested_next_steps=[
            *_recoveries(blocking, playbooks),
            *_advised(guidance, next_steps[:1]),
            *next_steps,
        ][:PACK_NEXT_STEPS],
        active_task_schema=schema.artifact_id if schema is not None and steps else None,
        current_step=min(done + 1, len(steps)) if steps else None,
        total_steps=len(steps) if steps else None,
        blockers=[blocker.text for blocker in blocking],
    )


def _next(schema: Artifact, step: Mapping[str, Any]) -> NextStep:
    return NextStep(
        description=step["description"],
        artifact_id=schema.artifact_id,
        confidence=schema.confidence,
        tools=list(step.get("tools_used", ())),
    )


def _advised(guidance: Advice, expected: Sequence[NextStep]) -> Iterator[NextStep]:
    """Turn recommendations into next steps, up to the first that the procedure says next anyway. Each names the
    contribution of a session that did so."""
    for one in guidance.steps:
        tool, description = tool_of(one.verb), sentence(phrase_of(one.verb))
        if any(step.description == description for step in expected):
            break
        yield NextStep(
            description=description,
            artifact_id=one.precedent,
            confidence=one.share,
            tools=[tool] if tool else [],
        )
    if guidance.files is not None:
        files = guidance.files
        yield NextStep(
            description=f"Look at {', '.join(files.paths)}",
            artifact_id=files.precedent,
            confidence=files.share,
            tools=[],
        )


def _recoveries(blocking: Sequence[Blocker], playbooks: Sequence[Artifact]) -> list[NextStep]:
    """Return the most helpful recovery for each open failure that is known."""
    found = []
    for playbook in playbooks:
        known = set(terms(str(playbook.content.get("failure_pattern", ""))))
        ways = playbook.content.get("recovery_actions") or playbook.content.get("recovery_steps") or ()
        if not known or not ways or not isinstance(ways[0], str):
            continue
        if any(len(known & set(terms(blocker.text))) >= _KNOWN_AGAIN * len(known) for blocker in blocking):
            found.append(
                NextStep(
                    description=ways[0], artifact_id=playbook.artifact_id, confidence=playbook.confidence, tools=[]
                )
            )
    return found


def steps_done(steps: Schema, acts: Sequence[Action], session: Sequence[Step]) -> int:
    """Align the session's actions with the procedure and return how many steps are done. A failed action does no step;
    steps may be left out or repeated, and a finished procedure may start anew."""
    costs = [_OPTIONAL if step.get("optional") else _LEFT_OUT for step in steps]
    before = [0, *accumulate(costs)]
    never = -len(acts) * _DONE - before[-1] - 1
    best = [0, *(never for _ in steps)]
    for act in acts:
        if act.ok is False or not act.verb:
            continue
        places = _places(steps, act, session[act.position].name)
        reach = list(accumulate((value + before[at] for at, value in enumerate(best)), max))
        after = [value + _repeated(at, places) for at, value in enumerate(best)]
        for place in places:
            after[place] = max(after[place], reach[place - 1] - before[place - 1] + _DONE)
        if 1 in places:
            after[1] = max(after[1], best[-1] + _ANEW)
        best = after
    return max(range(len(best)), key=lambda at: (best[at], -at))


def _repeated(at: int, places: Sequence[int]) -> int:
    return _AT_ONCE if at in places else _AGAIN if any(place < at for place in places) else 0


def _places(steps: Schema, act: Action, name: str) -> list[int]:
    """Return the numbers, from 1, of the steps that an action does: by description, else by tool."""
    said = sentence(phrase_of(act.verb))
    exact = [at for at, step in enumerate(steps, 1) if step["description"] == said]
    tools = {act.verb, tool_of(act.verb), name, name.split(" ", 1)[0]} - {""}
    return exact or [at for at, step in enumerate(steps, 1) if not tools.isdisjoint(step.get("tools_used", ()))]


def blockers(acts: Sequence[Action], session: Sequence[Step]) -> list[Blocker]:
    """Return the newest failures, in order, that no success of the same verb has followed."""
    failed: dict[str, Action] = {}
    for act in acts:
        if act.ok is False:
            failed.pop(act.verb, None)
            failed[act.verb] = act
        elif act.ok:
            failed.pop(act.verb, None)
            failed.pop("", None)  # an error that belongs to no action
    texts = {step.event_id: step for step in session}
    return [_blocker(act, texts[act.events[-1]], session[act.position]) for act in failed.values()][-_BLOCKERS:]


def _blocker(act: Action, last: Step, first: Step) -> Blocker:
    name = first.name or last.name
    return Blocker(act.verb, f"{name}: {last.text}" if last.text else name)
