"""In which words a task is wished for. In: the runs of a task, and the slots of what is done. Out: the wishes as users
put them, with `<slots>` for what differs from case to case, the most frequent first. Nothing fails.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Final

from pipeline.compiler.tasks.run import Run
from pipeline.compiler.tasks.slots import FROM_OUTSIDE, Slot
from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import remembered
from pipeline.segments.masking import mask

_SHOWN: Final = 4
_LONGEST: Final = 160
_SOME: Final = 0.2
_SLOT: Final = re.compile(r"<[^<>]*>")
_OPENING: Final = re.compile(r"(?:[^\W\d_]+ ?){1,3}[!,.:]\s+")
"""A clause of a few words, such as a greeting, in front of what is wished for."""
_WORD: Final = re.compile(r"\w+")


def goals(runs: Sequence[Run], slots: Mapping[str, Sequence[Slot]]) -> list[str]:
    values = _values(slots)
    often = Counter(word for run in runs for word in {w for text in run.asked for w in _words(text)})
    forms: Counter[str] = Counter()
    sessions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        own = values.get(run.name, {})
        best = max(run.asked, key=lambda text: (_held(text, own), _typical(text, often, len(runs)), text), default="")
        form = _form(best, own)
        if form:
            sessions[form].add(run.session)
    for form, own_sessions in sessions.items():
        forms[_without_opening(_filled(form, sessions), sessions)] += len(own_sessions)
    forms = _in_other_letters(forms)
    most = _most_slots(forms)
    told = [form for form in forms if len(form) <= _LONGEST and form.count("<") >= most]
    whole = {form: forms[form] for form in told if not _varies(form)} or _masked(told, forms, slots)
    return sorted(whole, key=lambda form: (-whole[form], len(form), form))[:_SHOWN]


def _in_other_letters(forms: Mapping[str, int]) -> Counter[str]:
    """Wishes that differ in capitals and marks alone are the one that was said most."""
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for form in forms:
        same[tuple(_words(form))].append(form)
    return Counter(
        {min(own, key=lambda form: (-forms[form], form)): sum(map(forms.__getitem__, own)) for own in same.values()}
    )


def _masked(told: Sequence[str], forms: Mapping[str, int], names: Container[str]) -> Counter[str]:
    """Where each wish holds what belongs to one case: with names for it that no slot has."""
    found: Counter[str] = Counter()
    for form in told:
        masked = mask(form)
        added = Counter(_SLOT.findall(masked)) - Counter(_SLOT.findall(form))
        if not any(name[1:-1] in names for name in added):
            found[masked] += forms[form]
    return found


def _most_slots(forms: Counter[str]) -> int:
    """How many slots a whole wish has: what has fewer still holds the values of one case."""
    numbers: Counter[int] = Counter()
    for form, sessions in forms.items():
        numbers[form.count("<")] += sessions
    return max((n for n, sessions in numbers.items() if sessions >= _SOME * numbers.total()), default=0)


def _filled(form: str, forms: Mapping[str, object]) -> str:
    """A wish that holds a value where another one has a slot is that one."""
    wider = [other for other in forms if other.count("<") > form.count("<") and _pattern(other).fullmatch(form)]
    return min(wider, key=lambda each: (-each.count("<"), each), default=form)


@remembered(MB)
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(r"\S+".join(map(re.escape, _SLOT.split(form))))


def _values(slots: Mapping[str, Sequence[Slot]]) -> dict[str, dict[str, str]]:
    """By run: value → name."""
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for name, group in slots.items():
        for slot in group:
            if slot.source in FROM_OUTSIDE:
                for run, value in slot.values.items():
                    found[run].setdefault(value, name)
    return found


def _words(text: str) -> list[str]:
    return [word.casefold() for word in _WORD.findall(text)]


def _held(text: str, values: Mapping[str, str]) -> int:
    low = text.casefold()
    return sum(value.casefold() in low for value in values)


def _typical(text: str, often: Mapping[str, int], runs: int) -> float:
    """How many of its words most runs say as well."""
    words = _words(text)
    return round(sum(often[word] for word in words) / (runs * len(words)), 6) if words else 0.0


def _form(text: str, values: Mapping[str, str]) -> str:
    form = " ".join(text.split())
    for value in sorted(values, key=lambda each: (-len(each), each)):
        form = re.sub(rf"(?<![\w<-]){re.escape(value)}(?![\w>-])", f"<{values[value]}>", form, flags=re.IGNORECASE)
    opening = _OPENING.match(form)
    rest = form[opening.end() :] if opening is not None else form
    return (rest if rest.count("<") == form.count("<") and " " in rest else form).rstrip(" .!?")


def _without_opening(form: str, forms: Mapping[str, object]) -> str:
    """Another's wish with something in front of it, such as a greeting, is that wish."""
    ends = [other for other in forms if other != form and form.endswith(f" {other}")]
    return min(ends, key=lambda each: (len(each), each), default=form)


def _varies(form: str) -> bool:
    """Whether it holds what belongs to one case."""
    return "<" in mask(_SLOT.sub("", form))
