"""task_schema artifacts: the procedure that the runs of one task share (HMX-A §4.1).

Input of `compile`: the runs of one task, as contributions in event-time order. Output: a `Finding` with goals, slots,
steps and recoveries; None with fewer than three successes. Which runs belong to one task is learnt in
`compiler/tasks/runs`, the procedure in `compiler/tasks/procedure`. Without a step that the successful runs share there
is no finding.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import takewhile
from typing import Any, Final

from hmx_pipeline.compiler.artifact_text import listed, most_frequent, percent, plural, worked
from hmx_pipeline.compiler.confidence import CONTRADICTED, Tally, Verdict, outcomes, tally
from hmx_pipeline.compiler.evidence_kind import ArtifactType, Finding, Need, nothing
from hmx_pipeline.compiler.tasks.procedure import Procedure, ProcedureStep, procedure, verdict
from hmx_pipeline.compiler.tasks.remedies import Remedy
from hmx_pipeline.compiler.tasks.slot_texts import described, slot_lines
from hmx_pipeline.compiler.tasks.task_run import Run, run_of
from hmx_pipeline.compiler.tasks.templates import Template
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments.action_names import EDIT, mutates
from hmx_pipeline.segments.masking import sentence, shorten

NAME: Final = "task_schema"
MADE_OF: Final = "run"
_COURSE: Final = 5
"""So many different actions in order say something, even if what they take is open."""
_TOLD_OF: Final = 3
"""Steps that tell less than one in so many of a run's actions are its beginning, unless one is in the second half."""
_DRAFT_SUCCESSES: Final = 3
_ACTIVE_SUCCESSES: Final = 5
_ACTIVE_SESSIONS: Final = 2
_ACTIVE_BOUND: Final = 0.5
_MOST: Final = 0.8
_COMPLEXITY: Final = ((4, "low"), (12, "medium"))


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    good = [c for c in contributions if c.outcome is SegmentOutcome.SUCCESS]
    if len(good) < _DRAFT_SUCCESSES:
        return None
    found = procedure([run_of(c) for c in contributions])
    if found is None or not _worth_telling(found, good):
        return None
    told, counts = _verdicts(contributions, found), outcomes(contributions)
    sure = tally(told).bound
    content = _content(found, good)
    return Finding(
        title=_title(content, good),
        summary=_summary(found, counts),
        content=content,
        confidence=sure,
        status=Status.ACTIVE if all(need.met for need in _needs(contributions, found)) else Status.DRAFT,
        success_rate=counts.rate,
        checked={
            "successes": len(good),
            "failures": sum(c.outcome is SegmentOutcome.FAILURE for c in contributions),
            "sessions": len({c.session_id for c in good}),
            "bound": sure,
            "support": {step.template.text: round(step.share, 4) for step in found.steps},
            "rule": f"active: {_ACTIVE_SUCCESSES} successes, {_ACTIVE_SESSIONS} sessions, bound {_ACTIVE_BOUND}",
        },
        verdicts=told,
    )


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    return _needs(contributions, procedure([run_of(c) for c in contributions]))


def _needs(contributions: Sequence[Contribution], found: Procedure | None) -> list[Need]:
    good = [c for c in contributions if c.outcome is SegmentOutcome.SUCCESS]
    steps = found.steps if found is not None else ()
    bound = tally(_verdicts(contributions, found)).bound if found is not None else 0.0
    return [
        Need("successes", len(good), _ACTIVE_SUCCESSES),
        Need("sessions with a success", len({c.session_id for c in good}), _ACTIVE_SESSIONS),
        Need("bound of success where it was followed", bound, _ACTIVE_BOUND),
        Need("bound of success of all runs", outcomes(contributions).bound, CONTRADICTED),
        Need("steps that the runs have in common", len(steps), 1),
        Need(
            "wishes in like words, or steps that are the same each time",
            int(found is not None and _said(found, good)),
            1,
        ),
        Need("steps that could be done from what is known", sum(map(_telling, steps)), 1),
    ]


def _verdicts(contributions: Sequence[Contribution], found: Procedure) -> list[Verdict]:
    """Return the outcomes of those who followed the procedure, in event-time order."""
    told = ((c, verdict(found, run_of(c))) for c in contributions if c.outcome is not SegmentOutcome.UNKNOWN)
    return [(c.session_id, well) for c, well in told if well is not None]


def _worth_telling(found: Procedure, good: Sequence[Contribution]) -> bool:
    """Return True if some step leads to the goal: it is always done, or mostly and goals in like words say what for,
    leaves nothing open, and is not usual in all that is done here. If most runs did much more than the steps tell, it
    stands in the second half of most, or a goal asks for it."""
    wished = bool(found.goals) and found.alike
    is_course, usual = _is_course(found), frozenset(good[0].body.get("usual", ()))
    clear = filter(_telling if is_course else _settled, found.steps)
    leads = [step for step in clear if (wished or not step.optional) and not _is_usual(step, usual)]
    if not is_course and 2 * sum(_does_more(run_of(c), found) for c in good) >= len(good):
        later = [run.deeds[len(run.deeds) // 2 :] for run in map(run_of, good)]
        ends = [{simple for deed in deeds for simple in deed.parts(found.readings)} for deeds in later]
        asked = [goal.casefold() for goal in found.goals]
        leads = [
            step
            for step in leads
            if 2 * sum(any(map(step.template.covers, end)) for end in ends) >= len(good)
            or any(map(step.template.meant_by, asked))
        ]
    return bool(leads) and _changes(found, good) and (is_course or _said(found, good))


def _changes(found: Procedure, good: Sequence[Contribution]) -> bool:
    """Return False if all that is always done is to look, and of the runs that changed something some changed only what
    no step tells: what is to be done differs from case to case."""
    steps = [step for step in found.steps if mutates(step.template.program)]
    if any(not step.optional for step in steps):
        return True
    changing = [run for run in map(run_of, good) if any(mutates(deed.name) for deed in run.deeds)]
    done = [[part for deed in run.deeds for part in deed.parts(found.readings)] for run in changing]
    return sum(any(any(map(step.template.covers, own)) for step in steps) for own in done) >= _MOST * len(changing)


def _is_course(found: Procedure) -> bool:
    return found.alike and len({step.template.program for step in found.steps}) >= _COURSE


def _does_more(run: Run, found: Procedure) -> bool:
    """Return True if the steps tell less than a third of what the run did."""
    done = [simple for deed in run.deeds for simple in deed.parts(found.readings)]
    told = sum(any(step.template.covers(simple) for step in found.steps) for simple in done)
    return _TOLD_OF * told < len(done)


def _is_usual(step: ProcedureStep, usual: frozenset[str]) -> bool:
    """`usual`: what is done in half of the other tasks' runs."""
    named, own = step.template, [step.template.program]
    for word in takewhile(lambda word: isinstance(word, str), named.words):
        own.append(f"{own[-1]} {word}")
    given = (f"{named.program} {key}={value}" for key, value in named.options if isinstance(value, str))
    return usual.issuperset((own[-1], *given))


def _said(found: Procedure, good: Sequence[Contribution]) -> bool:
    """Return True if its purpose is clear: by goals in like words and some steps that leave nothing open, or many
    different ones; else by more such steps; where nobody wished for anything, by steps that are mostly the same each
    time. What is done for wishes that have nothing in common is a habit."""
    if not found.goals:
        return not any(c.body.get("asked") for c in good) and 2 * sum(
            not step.template.slots for step in found.steps
        ) >= len(found.steps)
    return _is_course(found) or (4 if found.alike else 2) * sum(map(_settled, found.steps)) >= len(found.steps)


def _telling(step: ProcedureStep) -> bool:
    """Return True if the step can be done with what is known. Of an edit only the file is known."""
    return step.template.program != EDIT and not any(slot.source == "unknown" for slot in step.template.slots)


def _settled(step: ProcedureStep) -> bool:
    """Return True if it says more than which tool to use: nothing is unknown, and not all is a choice."""
    return _telling(step) and {slot.source for slot in step.template.slots} != {"chosen"}


def _content(found: Procedure, good: Sequence[Contribution]) -> dict[str, Any]:
    reached = [c.body["states"] for c in good]
    common = sorted(
        {text for texts in reached for text in texts if sum(text in r for r in reached) >= _MOST * len(good)}
    )
    content: dict[str, Any] = {
        "goals": list(found.goals),
        "slots": described(found.slots),
        "steps": [_step(order, step) for order, step in enumerate(found.steps, 1)],
        "recovery": [_recovery(remedy) for remedy in found.remedies],
        "preconditions": [],
        "postconditions": [f"State: {text}" for text in common],
        "tools_used": list(dict.fromkeys(step.template.program for step in found.steps)),
        "estimated_complexity": complexity(good),
    }
    return content


def _step(order: int, step: ProcedureStep) -> dict[str, Any]:
    return {
        "order": order,
        "description": f"Run `{step.template.text}`",
        **_action(step.template),
        "tools_used": [step.template.program],
        "optional": step.optional,
    }


def _action(template: Template) -> dict[str, Any]:
    if template.tool:
        return {"tool_name": template.program, "arguments": {key: str(value) for key, value in template.options}}
    return {"command": template.text}


def _recovery(remedy: Remedy) -> dict[str, Any]:
    return {
        "step": remedy.step.text,
        "error": remedy.error,
        "run": [*(way.template.text for way in remedy.ways), *([] if remedy.same else [remedy.step.text])],
        "worked": remedy.worked,
        "sessions": remedy.tried,
    }


def complexity(good: Sequence[Contribution]) -> str:
    """Rate the median number of actions."""
    median = sorted(c.body["actions"] for c in good)[len(good) // 2]
    return next((name for bound, name in _COMPLEXITY if median <= bound), "high")


def _title(content: Mapping[str, Any], good: Sequence[Contribution]) -> str:
    """Return the users' shared words, else the first step."""
    if content["goals"]:
        return sentence(shorten(content["goals"][0], 120))
    goal, share = most_frequent(c.body["goal"] for c in good if c.body["goal"])
    return sentence(goal) if share > 0.5 else shorten(f"{content['steps'][0]['description']}, …", 120)


def _summary(found: Procedure, counts: Tally) -> str:
    steps = plural(len(found.steps), "step")
    known_ends = f"{plural(counts.successes, 'success', 'successes')} in {plural(counts.sessions, 'session')}"
    return f"{steps}; {known_ends} with a known outcome ({percent(counts.successes, counts.sessions)})."


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"Goal: {goal}" for goal in content.get("goals", ()))
    yield from slot_lines(content.get("slots", {}))
    yield from listed("Before", content.get("preconditions", ()))
    for step in content.get("steps", ()):
        tools = [tool for tool in step.get("tools_used", ()) if tool not in step["description"]]
        optional = "(optional) " if step.get("optional") else ""
        yield f"{step['order']}. {optional}{step['description']}" + (f" ({', '.join(tools)})" if tools else "")
    for way in content.get("recovery", ()):
        then = ", then ".join(f"`{text}`" for text in way["run"])
        helped = worked(way["worked"], way["sessions"])
        again = "" if way["step"] in way["run"][-1:] else ", then try again"
        yield f"If `{way['step']}` fails with “{way['error']}”: run {then}{again} ({helped})"
    yield from listed("Done when", content.get("postconditions", ()))


TYPE: Final = ArtifactType(NAME, nothing, compile_, Section.PROCEDURES, "procedures", lines, needs, made_of=MADE_OF)
