"""Recoveries: what was done after a failure in a segment, and over all sessions the ways out, best first, in words.

Input: a failed action among those of its segment, or all contributions of one failure. Output: what followed, or
recoveries, best first. A recovery is what was changed between the failure and the next try of the same action, or
another action to the same end: one with a similar name, or of the same phase and with a value of the failed one. If
something was changed before, or the failed action itself works soon after, the other action proves nothing. Only a
try that works proves a recovery. One is worth telling if it names what to run: a whole action, or arguments.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.artifact_text import and_list
from hmx_pipeline.compiler.association import by_chance
from hmx_pipeline.compiler.confidence import Tally, Verdict, contradicted, recent, tally
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome, Step
from hmx_pipeline.contracts.limits import MB, STEP_VALUES
from hmx_pipeline.segments.action_names import ASK, EDIT, mutates, phase_of, phrase_of, verb_of, words_of
from hmx_pipeline.segments.commands import simple_commands, wordlike
from hmx_pipeline.segments.masking import sentence
from hmx_pipeline.segments.pairing import Action

HELPED: Final = 2
_PATH: Final = 6  # most different steps between an error and the next try
_SOON: Final = 16
"""Actions within which what failed may be tried again after another action."""
_LATER: Final = "later"
_TRIED: Final = {"same": " unchanged", "again": "", "changed": " with other arguments"}
_ALIKE: Final = 0.5  # share of common words from which two tools count as similar
_SHOWN: Final = 5
_SHOWN_ONCE: Final = 2
_ALONE: Final = 3
"""Fewest sessions in which only another try helped: that may have been anything."""
_LETTERS: Final = 4  # shortest value that can show that two actions are about the same thing
_MOSTLY: Final = 0.8
_USUAL: Final = 5  # fewest tries after which one can tell what is done before a try anyway
_CHANCE: Final = 0.2
_OPEN: Final = re.compile(r"[^\s(]+\((?:[^\s=,]+=<\w+>(?:, )?)*\)")
"""A call of a tool whose arguments are all slots."""

Arguments = Mapping[str, str]
"""Values by option or name; those without one by their place."""


class After(NamedTuple):
    steps: tuple[str, ...]
    again: str
    """How it was retried: `same` or `changed` arguments, `again`, or the similar verb; empty if it was not. `later`:
    too many steps lie between to know what helped."""
    worked: bool
    rests_on: tuple[int, ...]
    changed: tuple[str, ...] = ()
    """Which arguments the next try had otherwise, if others were the same."""


def after(at: int, done: Sequence[Action], steps: Sequence[Step], outcome: SegmentOutcome) -> After:
    """Return the steps up to the next try of the same verb or another to the same end; without one, up to the goal."""
    failed = done[at]
    if not failed.verb:
        following = done[at + 1 : at + 2]
        return After((), "again" if following else "", any(a.verb and a.ok is not False for a in following), ())
    given = arguments(failed, steps)
    path: dict[str, int] = {}
    for i in range(at + 1, len(done)):
        action = done[i]
        if action.asked:
            path.setdefault(ASK, i)
        again = action.verb == failed.verb
        unchanged = again or not any(map(mutates, path))
        tried = unchanged and (_keeps if again else _to_the_same_end)(failed, given, action, steps)
        if tried and (again or not _works_in(done[i + 1 : i + 1 + _SOON], failed, given, steps)):
            if len(path) > _PATH:
                return After((), _LATER, action.ok is not False, (i,))
            rests_on = (*path.values(), i)
            if not again:
                return After(tuple(path), action.verb, action.ok is not False, rests_on)
            how, changed = _again(given, arguments(action, steps), all_known=_known(failed, given))
            return After(tuple(path), how, action.ok is not False, rests_on, changed)
        if action.verb and action.ok is not False and len(path) <= _PATH:
            path.setdefault(action.verb, i)
    return After((), "", bool(path) and outcome is SegmentOutcome.SUCCESS, ())


def arguments(action: Action, steps: Sequence[Step]) -> Arguments:
    """Return what the action was given, as far as its event tells; empty if it does not, as for an edit."""
    step = steps[action.position]
    if action.role is Role.CALL:
        given = step.arguments or [(str(at), value) for at, value in enumerate(action.values)]
        return {name: "\n".join(value for other, value in given if other == name) for name, _ in given}
    parts = simple_commands(step.name) if action.verb != EDIT else ()
    if not parts:
        return {}
    own = next((p for p in parts if verb_of(step.role, " ".join((p.program, *p.words))) == action.verb), parts[-1])
    words = {str(at): word for at, word in enumerate((step.name, own.program, *own.words))}
    return words | {key: value or "" for key, value in own.options}


def _to_the_same_end(failed: Action, given: Arguments, action: Action, steps: Sequence[Step]) -> bool:
    """Return True if it is called alike, or was given half of the names and ids of the failed one at least."""
    if _alike(action.verb, failed.verb):
        return True
    if not action.verb or phase_of(action.verb) != phase_of(failed.verb):
        return False
    own = _names(given)
    return bool(own) and len(own & _names(arguments(action, steps))) >= _ALIKE * len(own)


def _works_in(following: Sequence[Action], failed: Action, given: Arguments, steps: Sequence[Step]) -> bool:
    """Return True if the failed action itself works: then what came between prepared it, and took no one's place."""
    same = (action for action in following if action.verb == failed.verb and action.ok)
    return any(_keeps(failed, given, action, steps) for action in same)


def _keeps(failed: Action, given: Arguments, action: Action, steps: Sequence[Step]) -> bool:
    """Return True if it keeps a name or a value of the failed action, or that had none. `tool --version` is no try of
    `tool build x`."""
    program = {given.get("0"), given.get("1"), *words_of(failed.verb)} if failed.role is not Role.CALL else set[str]()
    before, now = (
        {each for name, value in own.items() if value not in program for each in (value, name) if not each.isdigit()}
        for own in (given, arguments(action, steps))
    )
    return not before or not before.isdisjoint(now)


def _names(given: Arguments) -> set[str]:
    return {value for value in given.values() if len(value) >= _LETTERS and " " not in value and not wordlike(value)}


def _known(action: Action, given: Arguments) -> bool:
    """Return True if the event tells all arguments; of a long call or an edit it does not."""
    return len(action.values) < STEP_VALUES if action.role is Role.CALL else bool(given)


def _again(old: Arguments, new: Arguments, *, all_known: bool) -> tuple[str, tuple[str, ...]]:
    """Compare the arguments. Those that differ are told if their new values are words; of an id nobody knows which."""
    if old == new:
        return "same" if all_known else "again", ()
    named = [name for name in sorted(old.keys() | new.keys()) if not name.isdigit()]
    more = [
        f"{name}={new[name]}".rstrip("=") + (f", not {old[name]}" if wordlike(old.get(name, "")) else "")
        for name in named
        if new.get(name) != old.get(name) and name in new and (wordlike(new[name]) or not new[name])
    ]
    return "changed", (*more, *(f"no {name}" for name in named if name not in new))


@remembered(MB)
def _alike(verb: str, other: str) -> bool:
    a, b = set(words_of(verb)), set(words_of(other))
    return bool(a & b) and len(a & b) / len(a | b) >= _ALIKE


class Recovery(NamedTuple):
    words: str
    acts: str
    """The same with whole actions, as far as these are known."""
    counts: Tally
    verdicts: list[Verdict]
    """One verdict per session: whether it ever worked there."""
    telling: bool
    """True if it says what to do, and that is done more than anyway and helps more than another try."""


def tried_again(contributions: Sequence[Contribution]) -> bool:
    """Return True if something followed that may have helped; else there are no recoveries."""
    return any(_way(after["steps"], after["again"]) is not None for c in contributions for after in c.body["after"])


def recoveries(contributions: Sequence[Contribution], acts: Mapping[str, str] = MappingProxyType({})) -> list[Recovery]:
    """What was tried and has worked, by the bound of how often over independent sessions; last what works no more.
    What only was tried again is left out where something tells more. What worked once only is shown where nothing
    worked twice. `acts`: by verb the whole action."""
    tried: dict[_RecoveryPath, dict[str, bool]] = {}
    forms: dict[_RecoveryPath, list[Mapping[str, Any]]] = {}
    for c in contributions:
        changes = c.body.get("changed") or repeat(())
        for after, changed in zip(c.body["after"], changes, strict=False):
            way = _way(after["steps"], after["again"])
            if way is not None:
                seen = tried.setdefault(way, {})
                seen[c.session_id] = after["worked"] or seen.get(c.session_id, False)
                forms.setdefault(way, []).append({**after, "changed": changed})
    verb = contributions[0].body["verb"]
    anyway = _anyway(contributions)
    found = []
    for way, seen in tried.items():
        usual, counts = _usual(way, forms[way]), tally(seen.items())
        changed = _changed(forms[way])
        words, whole = _words(usual, way.again, verb), _acts(usual, way.again, verb, acts, changed)
        others = tally((s, ok) for w, own in tried.items() if w != way and _plain(w) for s, ok in own.items())
        beats = way.again not in _TRIED or not others.sessions or counts.bound > others.bound
        telling = bool(verb) and beats and _telling(way, forms[way], counts, changed, anyway, acts, contributions[0])
        found.append(Recovery(words, whole, counts, list(seen.items()), telling))
    ranked = sorted(
        (recovery for recovery in found if recovery.counts.successes),
        key=lambda r: (contradicted(recent(r.verdicts)), -r.counts.bound, -r.counts.successes, r.words),
    )
    helped = [r for r in ranked if r.counts.successes >= HELPED]
    return ([r for r in helped if r.telling] or helped)[:_SHOWN] or ranked[:_SHOWN_ONCE]


class _RecoveryPath(NamedTuple):
    steps: tuple[str, ...]
    again: str


def _way(steps: Sequence[str], again: str) -> _RecoveryPath | None:
    """Return the identity of a recovery: its changes; else what took the place of what failed, or all its steps. None
    without another try close by."""
    if again in ("", _LATER):
        return None
    changes = tuple(step for step in steps if mutates(step))
    return _RecoveryPath(changes or (tuple(steps) if again in _TRIED else ()), again)


def _plain(way: "_RecoveryPath") -> bool:
    """Return True for just another try, which others are to be better than."""
    return not way.steps and way.again in _TRIED


def _anyway(contributions: Sequence[Contribution]) -> list[set[str]]:
    """What was done before each try that followed no failure, without the first of a segment: before that is all. And
    what was done after other failures."""
    tries = [set(t["before"]) for c in contributions for t in c.body["tries"][1:]]
    return tries + [set(steps) for c in contributions for steps in c.body.get("elsewhere", ())]


def _telling(
    way: "_RecoveryPath",
    seen: Sequence[Mapping[str, Any]],
    counts: Tally,
    changed: Sequence[str],
    anyway: Sequence[set[str]],
    acts: Mapping[str, str],
    one: Contribution,
) -> bool:
    """Return True if it names an action or arguments that neither the error nor what failed has, and that are not as
    usual before any try and after other failures. A look before a try that may be another one says nothing. Another
    try tells something if nothing else was needed."""
    if way.again == "same" and not way.steps:
        return counts.successes >= _ALONE
    good = [{*after["steps"], after["again"]} for after in seen if after["worked"]]
    done = (step for step in (*way.steps, way.again) if step in acts and (way.again in (step, "same") or mutates(step)))
    named = [acts[step] for step in done if not _usually(step, good, anyway)]
    if way.again == "changed":
        named = [*changed, *(acts[verb] for verb in (one.body["verb"],) if verb in acts)]
    elif way.again not in _TRIED and (way.again not in acts or _beside(way.again, one.body["verb"], acts)):
        named = []
    if not named:
        return False
    told = f"{one.body['surface']} {one.body.get('failed', ())}"
    said = set(words_of(told))
    return any(not said.issuperset(words_of(text)) or _is_other_path(text.split()[0], told) for text in named)


def _is_other_path(program: str, told: str) -> bool:
    """`bin/test` is news, though an error says `/usr/bin/python` and a path `test`."""
    return "/" in program and program not in told


def _beside(tool: str, failed: str, acts: Mapping[str, str]) -> bool:
    """Return True for a tool that is called like the one that failed, and that takes nothing but values of the case:
    whoever has the one sees the other beside it."""
    return _alike(tool, failed) and _OPEN.fullmatch(acts[tool]) is not None


def _usually(step: str, good: Sequence[set[str]], anyway: Sequence[set[str]]) -> bool:
    """Return True if it is done about as often anyway."""
    done, usual = sum(step in steps for steps in good), sum(step in steps for steps in anyway)
    return len(anyway) >= _USUAL and by_chance(done, len(good), usual, len(anyway)) > _CHANCE


def _changed(seen: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the arguments that nearly all tries that worked had otherwise."""
    good = [after["changed"] for after in seen if after["worked"]]
    counts = Counter(name for changed in good for name in changed)
    return sorted(name for name, count in counts.items() if count >= HELPED and count >= _MOSTLY * len(good))


def _usual(way: "_RecoveryPath", seen: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """Return the steps as most took them; where another tool took the place of what failed, without what several did
    without: they looked for the way that is told here."""
    counts = Counter(tuple(after["steps"]) for after in seen)
    worked = Counter(tuple(after["steps"]) for after in seen if after["worked"])
    often = [form for form, n in worked.items() if n >= HELPED] if way.again not in _TRIED else []
    fewest = min((len([s for s in form if s != ASK]) for form in often), default=_PATH)
    short = [form for form in often if len([s for s in form if s != ASK]) == fewest]
    return min(short or counts, key=lambda form: (-counts[form], len(form), form))


def _acts(steps: Sequence[str], again: str, verb: str, acts: Mapping[str, str], changed: Sequence[str]) -> str:
    """Nothing stands between backticks that one could not run."""

    def named(step: str) -> str:
        return f"run `{acts[step]}`" if step in acts else phrase_of(step).replace("`", "")

    if not verb:
        return "Try again"
    tried = {each: f"try again{how}" for each, how in _TRIED.items()}
    tried["again"] = named(verb)  # nobody knows whether it was the same again
    if changed:
        tried["changed"] = f"try again with {and_list(changed)}"
    if verb in acts:
        tried["changed"] = f"{named(verb)} instead"
    last = tried.get(again) or f"{named(again)} instead"
    return sentence(", then ".join([*map(named, steps), last]))


def _words(steps: Sequence[str], again: str, verb: str) -> str:
    """Describe a recovery in words."""
    if not verb:
        return "Try again"
    tried = {how: f"{phrase_of(verb)} again{than}" for how, than in _TRIED.items()}
    return sentence(", then ".join([*map(phrase_of, steps), tried.get(again) or f"{phrase_of(again)} instead"]))
