"""Recoveries of procedure steps: what was done between a failure and the next try, if it beats plain retries.

Input: the runs of one task and the steps of its procedure. Output: remedies: step, masked error, the actions to run
first, and in how many sessions that helped. Playbooks have theirs from `compiler/recoveries`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.compiler.confidence import wilson
from hmx_pipeline.compiler.tasks.readings import Readings, commands
from hmx_pipeline.compiler.tasks.slots import Goals, Instance
from hmx_pipeline.compiler.tasks.task_run import Run, RunAction
from hmx_pipeline.compiler.tasks.templates import Template, templates
from hmx_pipeline.segments.action_names import blamed
from hmx_pipeline.segments.commands import Simple
from hmx_pipeline.segments.masking import mask, shorten

_SESSIONS: Final = 2
_MOST: Final = 0.6  # share of the sessions that recovered which must have done it
_ERROR: Final = 120
_CLASS: Final = re.compile(r"^\w+: (?=\S)")
"""Of an error: one that only stood in the output has none."""
_HELD: Final = re.compile(r"<(?:id|path|number|num|n)>")


class RemedyVariant(NamedTuple):
    template: Template
    sessions: int


class Remedy(NamedTuple):
    step: Template
    error: str
    """The message, with values masked."""
    ways: tuple[RemedyVariant, ...]
    """Actions to run in order before the step."""
    same: bool
    """True if the step then worked as it had failed; else with other values."""
    worked: int
    tried: int
    """Number of sessions with the error."""


class _Try(NamedTuple):
    run: Run
    between: tuple[Instance, ...]
    worked: bool
    same: bool = False
    """True if the next try was given the same."""


def remedies(runs: Sequence[Run], options: Readings, steps: Sequence[Template], goals: Goals) -> list[Remedy]:
    tries: dict[tuple[int, str], list[_Try]] = defaultdict(list)
    said: dict[tuple[int, str], Counter[str]] = defaultdict(Counter)
    for run in runs:
        for step, error, tried in _tries(run, options, steps):
            what = step, _CLASS.sub("", error)
            tries[what].append(tried)
            said[what][error] += 1
    found = (
        _remedy(steps[what[0]], min(said[what], key=lambda each: (-said[what][each], each)), own, goals)
        for what, own in sorted(tries.items())
    )
    return [each for each in found if each is not None]


def _tries(run: Run, options: Readings, steps: Sequence[Template]) -> Iterator[tuple[int, str, _Try]]:
    """Yield each failure of a step with what was done until its next try."""
    failed: dict[int, tuple[str, Simple]] = {}
    between: dict[int, list[Instance]] = {}
    for i, deed in enumerate(run.deeds):
        parts = deed.parts(options)
        accused = commands(blamed(deed.line, deed.error), options) if len(parts) > 1 else parts
        for simple in parts:
            at = next((k for k, step in enumerate(steps) if step.covers(simple)), None)
            if at is not None and at in failed:
                error, old = failed.pop(at)
                yield at, error, _Try(run, tuple(between[at]), deed.ok is not False, simple[:3] == old[:3])
            for known in failed:
                if at is None and deed.ok is not False:
                    between[known].append(Instance(run, deed, simple, i))
            if at is not None and deed.ok is False and deed.error and simple in accused:
                failed[at] = _said(deed.error, simple), simple
                between[at] = []
    for at, (error, _) in failed.items():
        yield at, error, _Try(run, (), False)


def concerns(remedy: Remedy, deed: RunAction, options: Readings) -> bool:
    """Return True if this is the failure that it helps against."""
    steps = (simple for simple in deed.parts(options) if deed.ok is False and remedy.step.covers(simple))
    return any(_CLASS.sub("", _said(deed.error, simple)) == _CLASS.sub("", remedy.error) for simple in steps)


def _said(error: str, simple: Simple) -> str:
    """Mask the values of the action in the message."""
    own = {word for word in (*simple.words, *(value for _, value in simple.options if value)) if len(word) > 1}
    for value in sorted(own, key=lambda each: (-len(each), each)):
        error = re.sub(rf"(?<![\w-]){re.escape(value)}(?![\w-])", "…", error)
    return shorten(mask(error), _ERROR)


def _remedy(step: Template, error: str, tries: Sequence[_Try], goals: Goals) -> Remedy | None:
    sessions = {each.run.session for each in tries}
    through = [each for each in tries if each.worked]
    mended = [each for each in through if each.between]
    if len({each.run.session for each in mended}) < _SESSIONS:
        return None
    found = templates([one for each in mended for one in each.between], goals)
    by_run: Mapping[str, set[str]] = {t.text: {one.run.session for one in t.instances} for t in found}
    after = Counter(each.run.session for each in mended)
    kept = [t for t in found if len(by_run[t.text]) >= max(_SESSIONS, _MOST * len(after))]
    if not kept:
        return None
    again = [each for each in tries if not each.between]
    plain = sum(each.worked for each in again)
    worked = len(set.intersection(*(by_run[t.text] for t in kept)))
    if worked / len(after) <= plain / len(again) if again else False:
        return None
    places = {t.text: sorted(one.place for one in t.instances)[len(t.instances) // 2] for t in kept}
    ways = tuple(RemedyVariant(t, len(by_run[t.text])) for t in sorted(kept, key=lambda t: (places[t.text], t.text)))
    same = 2 * sum(each.same for each in mended) > len(mended)
    return Remedy(step, error, ways, same, worked, len(sessions)) if wilson(worked, len(sessions)) > 0 else None
