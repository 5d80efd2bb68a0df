"""Goal phrases of a task: its wishes in the users' words, with `<slots>` for values, most frequent first.

Input: the runs of one task, and its slots by name. Output: at most four phrases; and whether the first wishes of most
runs share a word (`alike`).
"""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence
from typing import Final

from hmx_pipeline.compiler.tasks.slots import FROM_OUTSIDE, Slot
from hmx_pipeline.compiler.tasks.task_run import Run, stems_in
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.intent import content_words, first_wish, stem
from hmx_pipeline.segments.masking import mask

_SHOWN: Final = 4
_LONGEST: Final = 160
_SOME: Final = 0.2
_SLOT: Final = re.compile(r"<[^<>]*>")
_OPENING: Final = re.compile(r"(?:[^\W\d_]+ ?){1,3}[!,.:]\s+")
"""A short clause before the wish, such as a greeting."""
_WORD: Final = re.compile(r"\w+")
_JOINS: Final = "[^\\W\u2e80-\U0010ffff]"
"""What makes a value part of a longer word; in other scripts endings follow it."""


def goals(runs: Sequence[Run], slots: Mapping[str, Sequence[Slot]], opening: Container[str] = ()) -> list[str]:
    """`opening`: slots of the first step that no later step has, such as those by which somebody is looked up."""
    values = _values(slots)
    often = Counter(word for run in runs for word in {w for text in run.asked for w in _words(text)})
    forms: Counter[str] = Counter()
    sessions: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        own = values.get(run.name, {})
        first = run.asked[0] if run.asked and first_wish(run.asked[0]) else ""
        best = max(run.asked, key=lambda t: (_held(t, own), t == first, _typical(t, often, len(runs)), t), default="")
        if best != first and _only_answers(best, first, own, opening):
            best = first_wish(first)
        form = _form(best, own)
        if form:
            sessions[form].add(run.session)
    for form, own_sessions in sessions.items():
        forms[_without_opening(_filled(form, sessions), sessions)] += len(own_sessions)
    forms = _in_other_letters(forms)
    most = _most_slots(forms)
    told = [form for form in forms if len(form) <= _LONGEST and form.count("<") >= most]
    whole = {form: forms[form] for form in told if not _varies(form)} or _masked(told, forms, slots)
    common = Counter(word for run in runs for word in {w for text in run.asked for w in content_words(text)})
    shared = {word for word, n in common.items() if n >= _SOME * len(runs)}
    whole = {form: n for form, n in whole.items() if "<" in form or not shared.isdisjoint(_said_words(form))} or whole
    apart = frozenset[str]().union(*(run.apart for run in runs))
    whole = {form: n for form, n in whole.items() if "<" in form or not apart.isdisjoint(stems_in([form]))} or whole
    return sorted(whole, key=lambda form: (-whole[form], -_like_others(form, common), len(form), form))[:_SHOWN]


def alike(runs: Sequence[Run]) -> bool:
    """Return True if a word that says something stands in the first wish of most runs."""
    wished = [set(map(stem, content_words(run.asked[0]))) for run in runs if run.asked]
    often = Counter(word for words in wished for word in words)
    return bool(often) and 2 * max(often.values()) >= len(wished)


def _in_other_letters(forms: Mapping[str, int]) -> Counter[str]:
    """Merge wishes that differ in capitals and punctuation only, under the most frequent."""
    same: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for form in forms:
        same[tuple(_words(form))].append(form)
    return Counter(
        {min(own, key=lambda form: (-forms[form], form)): sum(map(forms.__getitem__, own)) for own in same.values()}
    )


def _masked(told: Sequence[str], forms: Mapping[str, int], names: Container[str]) -> Counter[str]:
    """Mask values that belong to one case, unless a mask has the name of a slot."""
    found: Counter[str] = Counter()
    for form in told:
        masked = mask(form)
        added = Counter(_SLOT.findall(masked)) - Counter(_SLOT.findall(form))
        if not any(name[1:-1] in names for name in added):
            found[masked] += forms[form]
    return found


def _most_slots(forms: Counter[str]) -> int:
    """Return the number of slots in a complete wish; one with fewer still contains values of one case."""
    numbers: Counter[int] = Counter()
    for form, sessions in forms.items():
        numbers[form.count("<")] += sessions
    return max((n for n, sessions in numbers.items() if sessions >= _SOME * numbers.total()), default=0)


def _filled(form: str, forms: Mapping[str, object]) -> str:
    """Return the wish that has a slot where this one has a value, if there is one."""
    wider = [other for other in forms if other.count("<") > form.count("<") and _pattern(other).fullmatch(form)]
    return min(wider, key=lambda each: (-each.count("<"), each), default=form)


@remembered(MB)
def _pattern(form: str) -> re.Pattern[str]:
    return re.compile(r"\S+".join(map(re.escape, _SLOT.split(form))))


def _values(slots: Mapping[str, Sequence[Slot]]) -> dict[str, dict[str, str]]:
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
    """Return how common the text's words are among the runs."""
    words = _words(text)
    return round(sum(often[word] for word in words) / (runs * len(words)), 6) if words else 0.0


def _only_answers(text: str, first: str, values: Mapping[str, str], opening: Container[str]) -> bool:
    """Return True if a text only says who or what it is about, and the first text what is wanted."""
    wish = content_words(first_wish(first))
    named = {name for value, name in values.items() if value.casefold() in text.casefold()}
    if not wish or not named:
        return False
    return all(name in opening for name in named) or len(wish) > len(content_words(_form(text, values)))


def _like_others(form: str, often: Mapping[str, int]) -> float:
    """Return in how many runs the words stand that say something, on average."""
    words = _said_words(form)
    return round(sum(often[word] for word in words) / len(words), 6) if words else 0.0


def _said_words(form: str) -> tuple[str, ...]:
    return content_words(_SLOT.sub("", form))


def _form(text: str, values: Mapping[str, str]) -> str:
    form = " ".join(text.split())
    for value in sorted(values, key=lambda each: (-len(each), each)):
        whole = rf"(?<![<-])(?<!{_JOINS}){re.escape(value)}(?!{_JOINS})(?![>-])"
        form = re.sub(whole, f"<{values[value]}>", form, flags=re.IGNORECASE)
    opening = _OPENING.match(form)
    rest = form[opening.end() :] if opening is not None else form
    return (rest if rest.count("<") == form.count("<") and " " in rest else form).rstrip(" .!?")


def _without_opening(form: str, forms: Mapping[str, object]) -> str:
    """Drop an opening, if the rest is a wish of its own."""
    ends = [other for other in forms if other != form and form.endswith(f" {other}")]
    return min(ends, key=lambda each: (len(each), each), default=form)


def _varies(form: str) -> bool:
    """Return True if it contains a value that belongs to one case."""
    return "<" in mask(_SLOT.sub("", form))
