"""strategy_template artifacts: the phases that different tasks of one kind share (HMX-A §4.5).

Input of `extract`: a segment, its outcome and its actions. Output: one contribution; none without a goal or without
actions. Input of `compile`: all contributions of one verb class. Output: a `Finding`, or None. The key is the verb
class of the intent. A segment contributes what it does to its task_schema, and its phases with their tools. The phases
are mined from at least two tasks whose schema would be active.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any, Final

from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.artifact_text import and_list, listed, most_frequent, or_list, plural
from hmx_pipeline.compiler.confidence import contradicted, outcomes, recent, verdicts
from hmx_pipeline.compiler.evidence_kind import ArtifactType, Extracted, Finding, Need
from hmx_pipeline.compiler.mining import Mined, mine, share_with
from hmx_pipeline.compiler.tasks import runs
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments.action_names import phase_of, phrase_of, silent, tool_of
from hmx_pipeline.segments.intent import content_words, goal_intent, goal_messages, intent_key, stem
from hmx_pipeline.segments.lexicon import LEXICON_VERSION
from hmx_pipeline.segments.masking import sentence, shorten
from hmx_pipeline.segments.pairing import Action

NAME: Final = "strategy_template"
_RUNS: Final = 24
_TOOLS: Final = 6
_TASKS: Final = 2
_SHARED: Final = 0.5
_OFTEN: Final = 0.3
_MOST: Final = 0.8
_SHOWN: Final = 3
_CONDITIONS: Final = 8
_LOOKS: Final = ("inspect", "plan")
_EVERYBODY: Final = frozenset((*_LOOKS, "modify", "verify"))
"""To look, to change and to check is known to whoever reads it."""


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    goal = goal_messages(segment.steps)
    said = goal_intent(goal)
    task, ran = (
        intent_key(said.classes, goal),
        [one for one in runs.extract(segment, outcome, actions) if one.key == runs.KEY],
    )
    if not task or not ran:
        return []
    wanted = content_words(goal[0].text)
    kind = said.classes[0].split(".")[0] if said.classes else stem(wanted[0])
    verb = said.phrases[0].split()[0] if said.phrases else wanted[0]
    told = {"task": task, "verb": verb, "phrases": list(said.phrases), "phases": _phases(actions)}
    return [replace(ran[0], key=f"{LEXICON_VERSION}:{kind}", body={**ran[0].body, **told})]


def _phases(actions: Sequence[Action]) -> list[list[Any]]:
    """Return consecutive actions of one phase: its name, the verbs that did not fail, and those known to
    have worked."""
    worked = [(_phase_name(a), a) for a in actions if a.verb and a.ok is not False]
    runs = []
    for phase, own in groupby((one for one in worked if one[0]), key=lambda found: found[0]):
        done = [action for _, action in own]
        passed = dict.fromkeys(action.verb for action in done if action.ok)
        runs.append([phase, list(dict.fromkeys(a.verb for a in done))[:_TOOLS], list(passed)[:_TOOLS]])
    return runs[:_RUNS]


def _phase_name(action: Action) -> str:
    """Return the phase; empty for an agent that talks to itself, except planning."""
    if action.role is Role.TEST:
        return "verify"
    phase = phase_of(action.verb)
    return "" if silent(action.verb) and phase != "plan" else phase


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    tasks: dict[str, list[Contribution]] = {}
    for c in contributions:
        tasks.setdefault(c.body["task"], []).append(c)
    schemas = {task: found for task, own in sorted(tasks.items()) if (found := task_schema.compile_(own)) is not None}
    proven = {
        task: found
        for task, found in schemas.items()
        if found.status is Status.ACTIVE and not contradicted(recent(found.verdicts))
    }
    used = proven if len(proven) >= _TASKS else schemas
    if len(used) < _TASKS:
        return None
    rests_on = [c for c in contributions if c.body["task"] in used]
    good = [c for c in rests_on if c.outcome is SegmentOutcome.SUCCESS]
    mined = _shared(good)
    if mined is None:
        return None
    counts = outcomes(rests_on)
    names = [step.name for step in mined.steps]
    active = len(proven) >= _TASKS and not _EVERYBODY.issuperset(names)
    goal = _goal([[c for c in good if c.body["task"] == task] for task in used])
    return Finding(
        title=shorten(f"{goal}: {', then '.join(names)}", 120),
        summary=(
            f"{sentence(', then '.join(names))}, in {plural(len(used), 'task')} of this kind. "
            f"{counts.successes} of {plural(counts.sessions, 'session')} with a known outcome went well."
        ),
        content={
            "goal": goal,
            "phases": [_phase(order, name, good) for order, name in enumerate(names, 1)],
            "applicability_conditions": [_wish(good, task) for task in used][:_CONDITIONS],
            "estimated_complexity": task_schema.complexity(good),
        },
        confidence=counts.bound,
        status=Status.ACTIVE if active else Status.DRAFT,
        success_rate=counts.rate,
        checked={
            "tasks": {task: found.status is Status.ACTIVE for task, found in schemas.items()},
            "successes": len(good),
            "bound": counts.bound,
            "support": {step.name: step.support for step in mined.steps},
            "order_agreement": mined.agreement,
            "rule": f"active: {_TASKS} tasks whose task_schema is active, and more than to look, change and check",
            "enough": active,
        },
        rests_on=rests_on,
        verdicts=verdicts(rests_on),
    )


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    tasks: dict[str, list[Contribution]] = {}
    for c in contributions:
        tasks.setdefault(c.body["task"], []).append(c)
    proven = [task for task, own in tasks.items() if all(need.met for need in task_schema.needs(own))]
    return [Need("tasks of this kind whose procedure is proven", len(proven), _TASKS)]


def _shared(good: Sequence[Contribution]) -> Mined | None:
    """Mine the phases that at least two of the tasks usually have."""
    runs: dict[str, list[list[str]]] = {}
    for c in good:
        runs.setdefault(c.body["task"], []).append([phase for phase, *_ in c.body["phases"]])
    names = {name for own in runs.values() for run in own for name in run}
    shared = {name for name in names if sum(share_with(own, name) >= _SHARED for own in runs.values()) >= _TASKS}
    return mine([[name for name in run if name in shared] for own in runs.values() for run in own])


def _goal(tasks: Sequence[Sequence[Contribution]]) -> str:
    verb = most_frequent(c.body["verb"] for own in tasks for c in own)[0]
    about = [most_frequent(_object(c) for c in own if _object(c))[0] for own in tasks]
    names = list(dict.fromkeys(name for name in about if name))
    return sentence(f"{verb} {or_list(names[:_SHOWN])}".strip())


def _wish(good: Sequence[Contribution], task: str) -> str:
    """Return what the task is about, in classes or stems that all its sessions share, not in the words of one."""
    own = (c.body for c in good if c.body["task"] == task)
    return sentence(most_frequent(and_list(b["phrases"]) or " ".join(content_words(b["goal"])[:2]) for b in own)[0])


def _object(c: Contribution) -> str:
    """Return the object of the first wish: `order` for `modify order`; else the second word of the goal."""
    words = (c.body["phrases"] or [" ".join(content_words(c.body["goal"])[:2])])[0].split()
    return " ".join(words[1:])


def _phase(order: int, name: str, good: Sequence[Contribution]) -> dict[str, Any]:
    runs = [[(verbs, passed) for phase, verbs, passed in c.body["phases"] if phase == name] for c in good]
    runs = [run for run in runs if run]
    used = [list(dict.fromkeys(verb for verbs, _ in run for verb in verbs)) for run in runs]
    passed = [list(dict.fromkeys(verb for _, own in run for verb in own)) for run in runs]
    counts = Counter(verb for verbs in used for verb in verbs)
    often = [v for v in sorted(counts, key=lambda v: (-counts[v], v)) if counts[v] >= _OFTEN * len(runs)]
    told = [] if name in _LOOKS else sorted({v for own in passed for v in own if share_with(passed, v) >= _MOST})
    return {
        "order": order,
        "name": name,
        "description": sentence(", ".join(phrase_of(verb) for verb in often[:_SHOWN])),
        "tools_used": list(dict.fromkeys(tool_of(verb) for verb in often))[:_TOOLS],
        "success_criteria": [f"{sentence(phrase_of(verb))} has succeeded" for verb in told],
    }


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    for phase in content.get("phases", ()):
        told = f": {phase['description']}" if phase.get("description") else ""
        yield f"{phase['order']}. {sentence(phase['name'])}{told}"
        yield from listed("   until", phase.get("success_criteria", ()))
    yield from listed("For", content.get("applicability_conditions", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, "procedures", lines, needs)
