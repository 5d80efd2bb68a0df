"""Procedure mining: the steps that the successful runs of a task share, in order, as whole actions.

Input: the runs of one task. Output: a procedure, or None if most successful runs share no step. Of each run only the
last successful instance of each action counts; earlier tries, refusals and corrections are how the agent learnt. A step
that replaced another at some time stands alone. The result depends on the set of runs only.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import combinations
from typing import Final, NamedTuple

from pipeline.compiler.tasks.goals import goals
from pipeline.compiler.tasks.remedies import Remedy, remedies
from pipeline.compiler.tasks.run import Deed, Run
from pipeline.compiler.tasks.slots import Goals, Instance, Slot, common_start, goal_of, unified
from pipeline.compiler.tasks.templates import Template, share_obeyed, switches, templates, with_told_options
from pipeline.compiler.tasks.turning import share_now, turned
from pipeline.segments.commands import Simple, within, wordlike

_OFTEN: Final = 0.5
MOST: Final = 0.8
_WORSE: Final = 0.3
_FEW: Final = 2
_PART: Final = 100  # most simple commands of one line
_SHAPES: Final = 2
_LONGEST: Final = 40  # the shape of a longer value says nothing
_SHOWN_FROM: Final = 3  # so many values show their common prefix
_DIGIT: Final = re.compile(r"\d")
_LETTER: Final = re.compile(r"[^\W\d_]")


class Step(NamedTuple):
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
    steps: tuple[Step, ...]
    remedies: tuple[Remedy, ...]
    slots: Mapping[str, Sequence[Slot]]

    def like(self, name: str) -> list[str]:
        """Return example values of a slot: those of several subjects, else shapes with `x` for letters and `0` for
        digits."""
        group = self.slots[name]
        if group[0].source == "user":
            return []
        values = sorted({v for slot in group for v, _ in slot.pairs if _DIGIT.search(v) and len(v) <= _LONGEST})
        choices = next((slot.choices for slot in group if slot.choices), ())
        if choices and not values:
            return list(choices)
        shapes = Counter(map(_shape, values))
        first = sorted(shapes, key=lambda shape: (-shapes[shape], shape))[:_SHAPES]
        return [_masked([value for value in values if _shape(value) == shape]) for shape in first]


def procedure(runs: Sequence[Run]) -> Procedure | None:
    runs = sorted(runs, key=lambda run: (run.at, run.name))
    good = [run for run in runs if run.good]
    options, goals_said = switches(runs), tuple(map(goal_of, runs))
    acts = [instance for run in good for instance in last_of(run, options)]
    told = [run for run in runs if run.told]
    every_act = [with_told_options(each, told, goals_said) for each in templates(acts, goals_said)]
    every_act += _told_elsewhere(runs, told, every_act, options, goals_said)
    since = _since_something_ended(every_act, runs, options) | _since_given_up(every_act, good)
    found = [_step(each, runs, len(every_act), since, told) for each in every_act]
    often = [step for step in found if step.share >= _OFTEN]
    kept = [step for step in often if step.share >= MOST or not _unclear(step.template)]
    steps = _in_order([step for step in kept if not _brings_trouble(step, kept, runs, options)], runs, options)
    if not any(step.share >= MOST for step in steps):
        return None
    for step in steps:
        step.template.fill(runs, options)
    ways = remedies(runs, options, [step.template for step in steps], goals_said)
    every = [step.template for step in steps] + [way.template for remedy in ways for way in remedy.ways]
    slots = unified(slot for template in every for slot in template.slots)
    return Procedure(tuple(goals(runs, slots)), tuple(steps), tuple(ways), slots)


def verdict(found: Procedure, run: Run) -> bool | None:
    """Judge the procedure by a run: True if the run succeeded; False if its steps were done in order up to one that
    failed, or all were done; None if the run did something else."""
    if run.good:
        return True
    options = frozenset[str]()
    at = 0
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
    return False if stuck or at == len(found.steps) else None


def last_of(run: Run, options: frozenset[str]) -> list[Instance]:
    """Return the last successful instance of each action of the run."""
    last: dict[tuple[str, ...], Instance] = {}
    goal = goal_of(run)
    for i, deed in enumerate(run.deeds):
        if deed.ok is False:
            continue
        for k, simple in enumerate(deed.parts(options)):
            last[_head(simple, deed.seen, goal)] = Instance(run, deed, simple, _PART * i + k)
    return list(last.values())


def _head(simple: Simple, seen: frozenset[str], goal: str) -> tuple[str, ...]:
    """Return the program and the words that name its action."""
    named = (word for word in simple.words if wordlike(word) and word not in seen and not within(word, goal))
    return (simple.program, *named)


def _told_elsewhere(
    runs: Sequence[Run], told: Sequence[Run], known: Sequence[Template], options: frozenset[str], goals_said: Goals
) -> list[Template]:
    """Return actions that users asked for and that worked, though in no successful run."""
    acts = [one for run in runs if not run.good for one in last_of(run, options)]
    new = [one for one in acts if not any(each.covers(one.simple) for each in known)]
    return [
        each for each in templates(new, goals_said) if any(each.meant_by(text) for run in told for text in run.told)
    ]


def _step(template: Template, runs: Sequence[Run], among: int, since: Collection[int], told: Sequence[Run]) -> Step:
    """Make a step. An action that users asked for is a step, however rare, if it has been done since; if not, it is
    none."""
    good = [run for run in runs if run.good]
    having = {one.run.name for one in template.instances}
    told = [run for run in told if any(map(template.meant_by, run.told))]
    spoken_of = {sum(run.at < each.at for run in good) for each in told}
    share = share_now([run.name in having for run in good], among, {*since, *spoken_of})
    if not told:
        return Step(template, share, told=False)
    now = share_obeyed(runs, having, told)
    return Step(template, max(share, now), told=now >= _OFTEN)


def _since_given_up(found: Sequence[Template], good: Sequence[Run]) -> set[int]:
    """Return the indexes of successful runs from which an action is missing that nearly all earlier ones did, so
    something replaced it."""
    turns = set()
    for template in found:
        having = {one.run.name for one in template.instances}
        seen = [run.name in having for run in good]
        at = turned(seen)
        if at and _share_of(seen[:at]) >= MOST and _share_of(seen[at:]) <= 1 - MOST:
            turns.add(at)
    return turns


def _since_something_ended(found: Sequence[Template], runs: Sequence[Run], options: frozenset[str]) -> set[int]:
    """Return the indexes of successful runs from which a step that had worked fails in every run."""
    ended = set()
    for template in found:
        worked = {one.run.name for one in template.instances}
        ends = 0
        for at in range(len(runs) - 1, -1, -1):
            if runs[at].name in worked:
                break
            if any(deed.ok is False and _does(template, deed, options) for deed in runs[at].deeds):
                ends = at
        before = [run.name in worked for run in runs[:ends] if run.good]
        if before and _share_of(before) >= _OFTEN:
            ended.add(len(before))
    return ended


def _unclear(template: Template) -> bool:
    """Return True if the step cannot be done with what is known."""
    return any(slot.source == "unknown" for slot in template.slots)


def _brings_trouble(step: Step, steps: Sequence[Step], runs: Sequence[Run], options: frozenset[str]) -> bool:
    """Return True for an optional step after which other steps fail more often than without it."""
    if not step.optional:
        return False
    others = [each.template for each in steps if each is not step]
    after: dict[bool, list[bool]] = {True: [], False: []}
    for run in runs:
        at = next((i for i, deed in enumerate(run.deeds) if _does(step.template, deed, options)), None)
        rest = run.deeds[at or 0 :]
        after[at is not None].append(any(d.ok is False and any(_does(o, d, options) for o in others) for d in rest))
    return all(after.values()) and _share_of(after[True]) - _share_of(after[False]) >= _WORSE


def _does(template: Template, deed: Deed, options: frozenset[str]) -> bool:
    return any(template.covers(simple) for simple in deed.parts(options))


def _share_of(seen: Sequence[bool]) -> float:
    return sum(seen) / len(seen)


def _in_order(steps: list[Step], runs: Sequence[Run], options: frozenset[str]) -> list[Step]:
    """Sort the steps by pairwise precedence: over the successful runs without a failure, because a repeated step comes
    late; if these are too few, over all successful runs; else over all runs."""
    smooth = {run.name for run in runs if run.good and all(deed.ok is not False for deed in run.deeds)}
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


def _shape(value: str) -> str:
    return _LETTER.sub("x", _DIGIT.sub("0", value))


def _masked(values: Sequence[str]) -> str:
    """Mask values of one shape, but keep their common prefix."""
    kept = len(common_start(values)) if len(values) >= _SHOWN_FROM else 0
    return values[0][:kept] + _shape(values[0])[kept:]
