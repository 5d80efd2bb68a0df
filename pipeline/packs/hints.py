"""Workflow hints: where the asking session stands in the best-matching procedure, and what is next (HMX-C §6). Pure."""

from collections.abc import Sequence
from typing import Any

from pipeline.contracts.artifact import Artifact
from pipeline.contracts.event_types import ACTS
from pipeline.contracts.evidence import Step
from pipeline.contracts.limits import PACK_NEXT_STEPS
from pipeline.contracts.pack import NextStep, WorkflowHints


def workflow_hints(schema: Artifact, session: Sequence[Step]) -> WorkflowHints | None:
    """None where the schema has no steps."""
    steps = schema.content.get("steps", ())
    if not steps:
        return None
    done = steps_done(steps, session)
    return WorkflowHints(
        suggested_next_steps=[
            NextStep(
                description=step["description"],
                artifact_id=schema.artifact_id,
                confidence=schema.confidence,
                tools=list(step.get("tools_used", ())),
            )
            for step in steps[done : done + PACK_NEXT_STEPS]
        ],
        active_task_schema=schema.artifact_id,
        current_step=min(done + 1, len(steps)),
        total_steps=len(steps),
        blockers=blockers(session),
    )


def steps_done(steps: Sequence[dict[str, Any]], session: Sequence[Step]) -> int:
    """How far the session is: steps may be skipped, and doing one again changes nothing."""
    done = 0
    for act in session:
        if act.role in ACTS:
            matching = (i for i in range(done, len(steps)) if _does(act.name, steps[i].get("tools_used", ())))
            done = next(matching, done - 1) + 1
    return done


def _does(name: str, tools: Sequence[str]) -> bool:
    """A command is known by its first word too."""
    return name in tools or name.split(" ", 1)[0] in tools


def blockers(session: Sequence[Step]) -> list[str]:
    """The session's last step whose success is known, if it failed."""
    known = [step for step in session if step.ok is not None]
    if not known or known[-1].ok:
        return []
    last = known[-1]
    return [f"{last.name}: {last.text}" if last.text else last.name]
