"""Recoveries from a failure: what was done after it, and what helped.

Input: a failed action among those of its segment, or all contributions of one failure. Output: what followed, or
recoveries, best first. A recovery is what was changed between the failure and the next try of the same or a similar
action. A later try that works proves it. Without one, only the outcome of the segment counts.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from hmx_pipeline.compiler.artifact_text import worked
from hmx_pipeline.compiler.confidence import Tally, Verdict, contradicted, recent, tally
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, SegmentOutcome
from hmx_pipeline.contracts.limits import MB, STEP_VALUES
from hmx_pipeline.segments.action_names import ASK, EDIT, mutates, phrase_of, words_of
from hmx_pipeline.segments.intent import verb_class
from hmx_pipeline.segments.masking import sentence
from hmx_pipeline.segments.pairing import Action

HELPED: Final = 2
_PATH: Final = 6  # most different steps between an error and the next try
_LATER: Final = "later"
_RETRIES: Final = ("again", "changed")  # the same call again shows that the failure passes by itself
_TRIED: Final = {"same": " unchanged", "again": "", "changed": " with other arguments"}
_LOOKS: Final = 2
_ALIKE: Final = 0.5  # share of common words from which two tools count as similar
_SHOWN: Final = 5
_SHOWN_ONCE: Final = 2


class After(NamedTuple):
    steps: tuple[str, ...]
    again: str
    """How the action was retried: `same` or `changed` arguments, `again`, or the similar verb; empty if it was not.
    `later`: too many steps lie between to know what helped."""
    worked: bool
    rests_on: tuple[int, ...]


def after(at: int, done: Sequence[Action], outcome: SegmentOutcome) -> After:
    """Return the steps up to the next try of the same or a similar verb; without one, up to the goal."""
    failed = done[at]
    if not failed.verb:
        following = done[at + 1 : at + 2]
        return After((), "again" if following else "", any(a.verb and a.ok is not False for a in following), ())
    steps: dict[str, int] = {}
    for i in range(at + 1, len(done)):
        action = done[i]
        if action.asked:
            steps.setdefault(ASK, i)
        if action.verb == failed.verb or _alike(action.verb, failed.verb):
            if len(steps) > _PATH:
                return After((), _LATER, action.ok is not False, (i,))
            again = _again(failed, action) if action.verb == failed.verb else action.verb
            return After(tuple(steps), again, action.ok is not False, (*steps.values(), i))
        if action.verb and action.ok is not False and len(steps) <= _PATH:
            steps.setdefault(action.verb, i)
    tried = list(steps)[: _detour(list(steps))]
    worked = bool(tried) and outcome is SegmentOutcome.SUCCESS
    return After(tuple(tried), "", worked, tuple(steps[step] for step in tried))


def _detour(steps: Sequence[str]) -> int:
    """Return how many steps helped if there was no retry: up to the first change, else the next few reads."""
    return next((i for i, verb in enumerate(steps, 1) if mutates(verb)), _LOOKS)


def _again(failed: Action, action: Action) -> str:
    """Compare the arguments. Only a short call shows all of them; otherwise equal values prove nothing."""
    if action.values != failed.values:
        return "changed"
    return "same" if action.role is Role.CALL and len(action.values) < STEP_VALUES else "again"


def once(steps: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(steps))


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
    """True if it is more than an edit and another try."""

    @property
    def how_often(self) -> str:
        return worked(self.counts.successes, self.counts.sessions)


def recoveries(contributions: Sequence[Contribution], acts: Mapping[str, str] = MappingProxyType({})) -> list[Recovery]:
    """What was tried and has worked, by the bound of how often over independent sessions; last what works no more.
    What worked once only is shown where nothing worked twice. `acts`: by verb the whole action."""
    tried: dict[_RecoveryPath, dict[str, bool]] = {}
    forms: dict[_RecoveryPath, list[tuple[str, ...]]] = {}
    for c in contributions:
        for after in c.body["after"]:
            way = _way(after["steps"], after["again"])
            if way is not None:
                seen = tried.setdefault(way, {})
                seen[c.session_id] = after["worked"] or seen.get(c.session_id, False)
                forms.setdefault(way, []).append(tuple(after["steps"]))
    verb = contributions[0].body["verb"]
    found = []
    for way, seen in tried.items():
        usual, counts = _usual(forms[way]), tally(seen.items())
        words, whole = _words(usual, way.again, verb), _acts(usual, way.again, verb, acts)
        found.append(Recovery(words, whole, counts, list(seen.items()), _telling(way, verb)))
    ranked = sorted(
        (recovery for recovery in found if recovery.counts.successes),
        key=lambda r: (contradicted(recent(r.verdicts)), -r.counts.bound, -r.counts.successes, r.words),
    )
    return [r for r in ranked if r.counts.successes >= HELPED][:_SHOWN] or ranked[:_SHOWN_ONCE]


class _RecoveryPath(NamedTuple):
    steps: tuple[str, ...]
    again: str


def _way(steps: Sequence[str], again: str) -> _RecoveryPath | None:
    """Return the identity of a recovery: its changes, else all its steps. None if it only reads until the goal is
    reached, or gives up."""
    if again == _LATER or (
        not again and any(verb_class(word) == "cancel" for step in steps for word in words_of(step))
    ):
        return None
    changes = tuple(step for step in steps if mutates(step))
    if changes:
        return _RecoveryPath(changes, again)
    return _RecoveryPath(tuple(steps), again) if again else None


def _telling(way: _RecoveryPath, verb: str) -> bool:
    """Return True if it is specific. Without a verb the agent's own words were refused, and trying again is all it can
    do: the error says as much."""
    return bool(verb) and (way.again not in _RETRIES or not {EDIT}.issuperset(way.steps))


def _usual(forms: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    counts = Counter(forms)
    return min(counts, key=lambda form: (-counts[form], len(form), form))


def _acts(steps: Sequence[str], again: str, verb: str, acts: Mapping[str, str]) -> str:
    """Nothing stands between backticks that one could not run."""

    def named(step: str) -> str:
        return f"run `{acts[step]}`" if step in acts else phrase_of(step).replace("`", "")

    if not verb:
        return "Try again"
    last = {"": [], **{each: [f"try again{how}"] for each, how in _TRIED.items()}}.get(
        again, [f"{named(again)} instead"]
    )
    return sentence(", then ".join([*map(named, steps), *last]))


def _words(steps: Sequence[str], again: str, verb: str) -> str:
    """Describe a recovery in words."""
    words = [phrase_of(step) for step in steps]
    if not verb:
        return "Try again"
    match again:
        case "":
            pass
        case "same":
            words.append(f"{phrase_of(verb)} again unchanged")
        case "again":
            words.append(f"{phrase_of(verb)} again")
        case "changed":
            words.append(f"{phrase_of(verb)} again with other arguments")
        case _:
            words.append(f"{phrase_of(again)} instead")
    return sentence(", then ".join(words))
