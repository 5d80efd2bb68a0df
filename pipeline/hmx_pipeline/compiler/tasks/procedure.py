"""Procedure mining: the steps that the successful runs of a task share, in order, as whole actions.

Input: the runs of one task. Output: a procedure, or None if most successful runs share no step. Of each run only the
last successful instance of each action counts; earlier tries, refusals and corrections are how the agent learnt. A step
that replaced another at some time stands alone. The result depends on the set of runs only.
"""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import combinations
from typing import Final, NamedTuple

from hmx_pipeline.compiler.tasks.change_points import share_now, turned
from hmx_pipeline.compiler.tasks.goals import alike, goals
from hmx_pipeline.compiler.tasks.readings import Readings, readings
from hmx_pipeline.compiler.tasks.remedies import Remedy, concerns, remedies
from hmx_pipeline.compiler.tasks.slots import Goals, Instance, Slot, constants, goal_of, unified
from hmx_pipeline.compiler.tasks.task_run import Run, RunAction
from hmx_pipeline.compiler.tasks.templates import Template, share_obeyed, templates, with_told_options
from hmx_pipeline.segments.action_names import mutates
from hmx_pipeline.segments.commands import Simple, within, wordlike

_OFTEN: Final = 0.5
MOST: Final = 0.8
_WORSE: Final = 0.3
_FEW: Final = 2
_PART: Final = 100  # most simple commands of one line


class ProcedureStep(NamedTuple):
    template: Template
    share: float
    """Share of the successful runs that have it, since it came up."""
    told: bool
    """True if users have asked for it."""

    @property
    def optional(self) -> bool:
        return self.share < MOST and not self.told


class Procedure(NamedTuple):
    goals: tuple[str, ...]
    """In the users' words with `<slots>`, most frequent first."""
    steps: tuple[ProcedureStep, ...]
    remedies: tuple[Remedy, ...]
    slots: Mapping[str, Sequence[Slot]]
    alike: bool
    """True if the wishes have a word in common that says something."""
    readings: Readings
    """How its runs' lines and calls are read."""


def procedure(runs: Sequence[Run]) -> Procedure | None:
    runs = sorted(runs, key=lambda run: (run.at, run.name))
    good = [run for run in runs if run.good]
    options, goals_said = readings(runs), tuple(map(goal_of, runs))
    told = [run for run in runs if run.told]
    every_act = _every_act(good, told, options, goals_said)
    since, went_on = _since_something_ended(every_act, runs, options)
    if went_on:
        every_act = _every_act([run for run in runs if run.good or run.name in went_on], told, options, goals_said)
    every_act += _told_elsewhere(runs, told, every_act, options, goals_said)
    since |= _since_given_up(every_act, good)
    tellers = [run for run in runs if run.good or run.name in went_on]
    found = [_step(each, _telling(each, tellers, options), runs, len(every_act), since, told) for each in every_act]
    often = [step for step in found if step.share >= _OFTEN]
    kept = [step for step in often if step.share >= MOST or not _unclear(step.template)]
    steps = _in_order([step for step in kept if not _brings_trouble(step, kept, runs, options)], runs, options)
    if not any(step.share >= MOST for step in steps):
        return None
    steps = [step._replace(share=_OFTEN, told=False) if _is_replaceable(step, steps) else step for step in steps]
    for step in steps:
        step.template.fill(runs, options)
    ways = remedies(runs, options, [step.template for step in steps], goals_said)
    every = [step.template for step in steps] + [way.template for remedy in ways for way in remedy.ways]
    slots = unified(slot for template in every for slot in template.slots)
    later = {slot.name for step in steps[1:] for slot in step.template.slots}
    opening = {slot.name for slot in steps[0].template.slots} - later if len(steps) > 1 else ()
    wishes = tuple(goals([run for run in runs if _is_led(run, steps, options)], slots, opening))
    return Procedure(wishes, tuple(steps), tuple(ways), slots, alike(runs), options)


def _is_replaceable(step: ProcedureStep, steps: Sequence[ProcedureStep]) -> bool:
    """Return True if another step that is always done is done in other runs alone: each stands for the other."""
    own = {one.run.name for one in step.template.instances}
    others = ({one.run.name for one in each.template.instances} for each in steps if not each.optional)
    return not step.optional and any(min(len(own), len(o)) >= _FEW and own.isdisjoint(o) for o in others)


def _is_led(run: Run, steps: Sequence[ProcedureStep], options: Readings) -> bool:
    """Return True if what the run wished for led to what is always done: to all that nobody has to be told, and to some
    step that changes something, if there is one."""
    done = [(s, any(_does(s.template, deed, options) for deed in run.deeds)) for s in steps if not s.optional]
    changed = [did for step, did in done if mutates(step.template.program)]
    return all(did or step.told for step, did in done) and (not changed or any(changed))


def _every_act(runs: Sequence[Run], told: Sequence[Run], options: Readings, goals_said: Goals) -> list[Template]:
    acts = [instance for run in runs for instance in last_of(run, options)]
    return [with_told_options(each, told, goals_said) for each in templates(acts, goals_said)]


def verdict(found: Procedure, run: Run) -> bool | None:
    """Judge the procedure by a run: True if the run succeeded; False if its steps were done in order up to one that
    failed, or all were done; None if the run did something else, or nothing of what helps against that failure."""
    if run.good:
        return True
    options, at = found.readings, 0
    for deed in run.deeds:
        for simple in deed.parts(options):
            done = next((i for i, step in enumerate(found.steps) if step.template.covers(simple)), None)
            if done is None:
                continue
            if done > at and any(step.share >= MOST for step in found.steps[at:done]):
                return None
            if deed.ok is not False:
                at = max(at, done + 1)
    last = [deed for deed in run.deeds if any(s.template.covers(p) for s in found.steps for p in deed.parts(options))]
    stuck = bool(last) and last[-1].ok is False
    ways = [way for each in found.remedies if stuck and concerns(each, last[-1], options) for way in each.ways]
    if ways and not any(_does(way.template, deed, options) for way in ways for deed in run.deeds):
        return None
    return False if stuck or at == len(found.steps) else None


def last_of(run: Run, options: Readings) -> list[Instance]:
    """Return the last successful instance of each action of the run."""
    return list(_last(run, options).values())


def _last(run: Run, options: Readings) -> dict[tuple[str, ...], Instance]:
    last: dict[tuple[str, ...], Instance] = {}
    goal = goal_of(run)
    for i, deed in enumerate(run.deeds):
        if deed.ok is False:
            continue
        for k, simple in enumerate(deed.parts(options)):
            last[_head(simple, deed.seen, goal)] = Instance(run, deed, simple, _PART * i + k)
    return last


def _head(simple: Simple, seen: frozenset[str], goal: str) -> tuple[str, ...]:
    """Return the program and the words that name its action."""
    named = (word for word in simple.words if wordlike(word) and word not in seen and not within(word, goal))
    return (simple.program, simple.form, *named)


def _told_elsewhere(
    runs: Sequence[Run], told: Sequence[Run], known: Sequence[Template], options: Readings, goals_said: Goals
) -> list[Template]:
    """Return actions that users asked for and that worked, though in no successful run."""
    acts = [one for run in runs if not run.good for one in last_of(run, options)]
    new = [one for one in acts if not any(each.covers(one.simple) for each in known)]
    return [
        each for each in templates(new, goals_said) if any(each.meant_by(text) for run in told for text in run.told)
    ]


def _telling(template: Template, runs: Sequence[Run], options: Readings) -> list[Run]:
    """Those that went well, and of the others those that did it or that were refused it."""
    having = {one.run.name for one in template.instances}
    return [r for r in runs if r.good or r.name in having or any(_does(template, deed, options) for deed in r.deeds)]


def _step(
    template: Template, telling: Sequence[Run], runs: Sequence[Run], among: int, since: Set[int], told: Sequence[Run]
) -> ProcedureStep:
    """What users have told to do, and what has been done since then, is a step however seldom that was; what they spoke
    of and nobody has done since then is none. `since`: at these times something is otherwise."""
    having = {one.run.name for one in template.instances}
    told = [run for run in told if any(map(template.meant_by, run.told))]
    if 2 * len(told) > len(runs):  # what most users say is their wish, and no rule
        told = []
    known = {sum(run.at < at for run in telling) for at in {*since, *(run.at for run in told)}}
    share = share_now([run.name in having for run in telling], among, known)
    if not told:
        return ProcedureStep(template, share, told=False)
    now = share_obeyed(runs, having, told)
    return ProcedureStep(template, max(share, now), told=now >= _OFTEN)


def _since_given_up(found: Sequence[Template], good: Sequence[Run]) -> set[int]:
    """Since when nobody does what nearly all had done till then: then something has taken its place."""
    turns = set()
    for template in found:
        having = {one.run.name for one in template.instances}
        seen = [run.name in having for run in good]
        at = turned(seen)
        if at and _share_of(seen[:at]) >= MOST and _share_of(seen[at:]) <= 1 - MOST:
            turns.add(good[at].at)
    return turns


def _since_something_ended(
    found: Sequence[Template], runs: Sequence[Run], options: Readings
) -> tuple[set[int], set[str]]:
    """Since when a step that had worked is refused for good: each act that most runs had till then, and that works in
    none from then on. And the runs that did not go well, but went on with what nobody had done before and good runs do
    now: what worked then takes its place, whatever became of the run."""
    ended, went_on = set(), set()
    for template in found:
        worked = {one.run.name for one in template.instances}
        ends = 0
        for at in range(len(runs) - 1, -1, -1):
            if runs[at].name in worked:
                break
            if _refused(template, runs[at], options):
                ends = at
        before = [run.name in worked for run in runs[:ends] if run.good]
        if before and _share_of(before) >= _OFTEN:
            ended.add(runs[ends].at)
            known = {head for run in runs[:ends] for head in _last(run, options)}
            new = {head for run in runs[ends:] if run.good for head in _last(run, options)} - known
            others = (run for run in runs[ends:] if not run.good and _refused(template, run, options))
            went_on |= {run.name for run in others if not new.isdisjoint(_last(run, options))}
    return ended, went_on


def _refused(template: Template, run: Run, options: Readings) -> bool:
    return any(deed.ok is False and _does(template, deed, options) for deed in run.deeds)


def _unclear(template: Template) -> bool:
    """Return True if the step cannot be done with what is known, or is any call of a tool that does several things."""
    sources = {slot.source for slot in template.slots}
    return "unknown" in sources or (
        sources == {"chosen"} and template.tool and not any(map(constants, template.values))
    )


def _brings_trouble(
    step: ProcedureStep, steps: Sequence[ProcedureStep], runs: Sequence[Run], options: Readings
) -> bool:
    """Return True for an optional step after which other steps fail more often than without it, or that is mostly done
    because another has failed: it is a way out."""
    if not step.optional:
        return False
    others = [each.template for each in steps if each is not step]
    after: dict[bool, list[bool]] = {True: [], False: []}
    mends: list[bool] = []
    for run in runs:
        at = next((i for i, deed in enumerate(run.deeds) if _does(step.template, deed, options)), None)
        rest = run.deeds[at or 0 :]
        after[at is not None].append(any(d.ok is False and any(_does(o, d, options) for o in others) for d in rest))
        if at is not None:
            mends.append(any(_fails_till(other, run, at, options) for other in others))
    worse = all(after.values()) and _share_of(after[True]) - _share_of(after[False]) >= _WORSE
    return worse or 2 * sum(mends) > len(mends)


def _fails_till(step: Template, run: Run, at: int, options: Readings) -> bool:
    """Return True if it was done before this action and failed, and worked after it."""
    worked = [(i > at, deed.ok is not False) for i, deed in enumerate(run.deeds) if _does(step, deed, options)]
    return (False, False) in worked and (True, True) in worked


def _does(template: Template, deed: RunAction, options: Readings) -> bool:
    return any(template.covers(simple) for simple in deed.parts(options))


def _share_of(seen: Sequence[bool]) -> float:
    return sum(seen) / len(seen)


def _in_order(steps: list[ProcedureStep], runs: Sequence[Run], options: Readings) -> list[ProcedureStep]:
    """Each before those that it mostly comes before: over the good runs that have both and in which no step failed, for
    what is done once more comes late; where these are too few, over all good ones; else over all."""
    smooth = {run.name for run in runs if run.good and not any(_refused(s.template, run, options) for s in steps)}
    places = [{one.run.name: one.place for one in step.template.instances} for step in steps]
    elsewhere = [one for run in runs if not run.good for one in last_of(run, options)]
    others = [{one.run.name: one.place for one in elsewhere if step.template.covers(one.simple)} for step in steps]
    wins: Counter[int] = Counter()
    early: Counter[int] = Counter()
    for a, b in combinations(range(len(steps)), 2):
        both = places[a].keys() & places[b].keys()
        told = both & smooth if len(both & smooth) >= _FEW else both
        ahead = [places[a][run] < places[b][run] for run in told]
        if not told:
            ahead = [others[a][run] < others[b][run] for run in others[a].keys() & others[b].keys()]
        lead = 2 * sum(ahead) - len(ahead)
        wins[a] += (lead > 0) - (lead < 0)
        wins[b] += (lead < 0) - (lead > 0)
        early[a] += sum(ahead)
        early[b] += len(ahead) - sum(ahead)
    order = sorted(range(len(steps)), key=lambda i: (-wins[i], -early[i], steps[i].template.text))
    return [steps[i] for i in order]
