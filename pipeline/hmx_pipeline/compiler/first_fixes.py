"""First fixes: what helped against one failure in one session, which `hmx mine` shows and packs do not.

It is too little for a playbook, yet true of its user.

Input: a contribution to a failure playbook. Output: the command or call that failed, why, and what worked; None unless
commands alone helped, or the argument that the error names.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.tasks.readings import NONE
from hmx_pipeline.compiler.tasks.task_run import RunAction, read_act
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.segments.action_names import EDIT, checks, mutates
from hmx_pipeline.segments.commands import simple_commands

_SHOWN: Final = 200
"""Characters of the longest line that a reader takes in."""
_WORD: Final = re.compile(r"[\w.-]+")


class FirstFix(NamedTuple):
    failed: str
    error: str
    worked: tuple[str, ...]
    """What to run, in order."""

    @property
    def likeness(self) -> float:
        """Share of words that what failed and what worked have in common: the more is the same, the plainer is what was
        wrong."""
        before, now = (set(_WORD.findall(line)) for line in (self.failed, self.worked[-1]))
        return len(before & now) / max(1, len(before | now))


def first_fix(contribution: Contribution) -> FirstFix | None:
    body = contribution.body
    failed = next(map(read_act, body.get("failed", ())), None)
    after = next((one for one in reversed(body["after"]) if one["worked"]), None)
    # Why a check fails is in the code, not in the command; and nobody can run an edit.
    if failed is None or not failed.error or after is None or checks(body["verb"]) or EDIT in after["steps"]:
        return None
    known = dict(zip(body.get("verbs", ()), map(read_act, body.get("acts", ())), strict=False))
    acts = tuple(_done(after, body["verb"], failed, known))
    if not failed.line:
        return _other_argument(failed, acts[-1]) if len(acts) == 1 and mutates(body["verb"]) else None
    worked = tuple(act.line if act is not None else "" for act in acts)
    if not all(map(_short, (failed.line, *worked))) or worked == (failed.line,):
        return None
    at_fault = mutates(body["verb"]) or any(key in failed.error for key in _options(failed.line))
    return FirstFix(failed.line, failed.error, worked) if at_fault else None  # else it looked elsewhere


def _done(
    after: Mapping[str, Any], verb: str, failed: RunAction, known: Mapping[str, RunAction]
) -> Iterator[RunAction | None]:
    """Yield each step that changed something, and the try that worked; None for one that is not known whole."""
    yield from (known.get(step) for step in after["steps"] if mutates(step))
    yield (
        failed
        if after["again"] == "same"
        else known.get(verb if after["again"] in ("changed", "again") else after["again"])
    )


def _other_argument(failed: RunAction, worked: RunAction | None) -> FirstFix | None:
    """Return the arguments that the error names, if the same tool then worked with others."""
    now = dict(worked.arguments) if worked is not None and worked.name == failed.name else {}
    named = [(name, old) for name, old in failed.arguments if old and old in failed.error and now.get(name, old) != old]
    before, after = (
        f"{failed.name}({', '.join(f'{name}={value}' for name, value in own)})"
        for own in (named, [(name, now[name]) for name, _ in named])
    )
    return FirstFix(before, failed.error, (after,)) if named and _short(before) and _short(after) else None


def _short(line: str) -> bool:
    return 0 < len(line) <= _SHOWN and "\n" not in line


def _options(line: str) -> set[str]:
    return {key for part in simple_commands(line, NONE) for key, _ in part.options}
