"""Readings: what a task's runs show about how their lines and calls are to be read.

Input: runs. Output: a set of texts, which `RunAction.parts` takes: options without a value (`program --flag`), forms of
lines that are one action (`a · | b`), and words in arguments that name what a call does (`http path orders`), or in
the paths of a command (`curl 0 orders`). The result depends on the set of runs only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from hmx_pipeline.segments.commands import Simple, simple_commands, whole_line, within, wordlike

if TYPE_CHECKING:
    from hmx_pipeline.compiler.tasks.task_run import Run

_SESSIONS: Final = 2
_OFTEN: Final = 0.5
_MOSTLY: Final = 0.6
_SOME: Final = 0.25
_NAMES: Final = 12
_PIECE: Final = re.compile(r"[^\s'\"{}\[\](),;=|&<>/:?]+")

PART: Final = re.compile(r"[^\s'\"{}\[\](),;=|&<>/\\]+")
"""What a value that is put together is made of."""
Readings = frozenset[str]
_Place = tuple[str, str]
"""A tool and one of its arguments, or a program and the number of one of its words."""
NONE: Final = Readings()


def readings(runs: Iterable["Run"]) -> Readings:
    runs = list(runs)
    return _switches(runs) | _wholes(runs) | _naming(runs)


def named(simple: Simple, known: Readings) -> Simple:
    """Return it with the words of its arguments, or in its paths, that name what it does."""
    if f"{simple.program} " not in known:
        return simple
    words = (f"{key} {word}" for key, value in _telling(simple) for word in pieces(value))
    return simple._replace(form=" ".join(w.rpartition(" ")[2] for w in words if f"{simple.program} {w}" in known))


def commands(line: str, known: Readings) -> Sequence[Simple]:
    """Return the simple commands of a line."""
    found = simple_commands(line, known)
    return [named(simple, known) for simple in found] if known else found


def _telling(simple: Simple) -> Iterable[tuple[str, str | None]]:
    """Return what may name what it does: arguments of a call, or the paths and addresses among a command's words."""
    return simple.options if simple.tool else ((str(i), w) for i, w in enumerate(simple.words) if "/" in w)


def pieces(value: str | None) -> list[str]:
    """Return the words in a path, an address, a command or a nested value; none of a text that somebody has written."""
    words = [word for word in _PIECE.findall(value or "") if wordlike(word)]
    return words if len(words) <= _NAMES else []


def _switches(runs: Iterable["Run"]) -> Readings:
    """Options that stood without a value in two sessions and in a fifth of those that used them. They take no value
    elsewhere either."""
    bare: dict[str, set[str]] = defaultdict(set)
    every: dict[str, set[str]] = defaultdict(set)
    for run in runs:
        for deed in run.deeds:
            for simple in simple_commands(deed.line) if deed.line else ():
                for key, value in simple.options:
                    (every if value is not None else bare)[f"{simple.program} {key}"].add(run.session)
    return frozenset(
        option for option, own in bare.items() if len(own) >= _SESSIONS and 5 * len(own) >= len(own | every[option])
    )


def _wholes(runs: Iterable["Run"]) -> Readings:
    """Forms of lines in which most sessions ran what their first command runs: such a line is one action."""
    forms: dict[str, set[str]] = defaultdict(set)
    firsts: dict[str, set[str]] = defaultdict(set)
    first: dict[str, str] = {}
    for run in runs:
        for deed in run.deeds:
            if deed.ok is False or not deed.line:
                continue
            whole = whole_line(deed.line)
            begin = " ".join(_begin(deed.line))
            firsts[begin].add(run.session)
            if whole is not None:
                forms[whole.form].add(run.session)
                first[whole.form] = min(begin, first.get(whole.form, begin))
    return frozenset(form for form, own in forms.items() if len(own) > _OFTEN * len(firsts[first[form]]))


def _begin(line: str) -> Iterator[str]:
    for simple in simple_commands(line)[:1]:
        yield simple.program
        yield from (word for word in simple.words[:1] if wordlike(word))


def _naming(runs: Iterable["Run"]) -> Readings:
    """Words in arguments, or in paths, that tell what a tool does. Two sessions have them, and their wishes do not, or
    most sessions have them; and some run has several in one place, as most runs have, or most have the same there."""
    used: dict[_Place, set[str]] = defaultdict(set)
    having: dict[tuple[_Place, str], set[str]] = defaultdict(set)
    unasked: dict[tuple[_Place, str], set[str]] = defaultdict(set)
    by: dict[tuple[_Place, str], set[str]] = defaultdict(set)
    given: dict[tuple[str, _Place], set[tuple[str, ...]]] = defaultdict(set)
    for run in runs:
        wish = "\n".join(run.asked).casefold()
        for deed in run.deeds:
            parts = () if deed.ok is False else deed.parts(NONE)
            for program, key, value in ((simple.program, *each) for simple in parts for each in _telling(simple)):
                place, words = (program, key), tuple(word for word in pieces(value) if word not in deed.seen)
                used[place].add(run.session)
                given[run.session, place].add(words)
                for word in words:
                    having[place, word].add(run.session)
                    by[place, word].add(run.subject)
                    if not within(word, wish):
                        unasked[place, word].add(run.session)
    steady = {
        (place, word)
        for (place, word), own in having.items()
        if ("" in by[place, word] or len(by[place, word]) >= _SESSIONS)
        and (
            len(own) >= _MOSTLY * len(used[place])
            or len(unasked[place, word]) >= max(_SESSIONS, _SOME * len(used[place]))
        )
    }
    several: Counter[_Place] = Counter()
    same: dict[_Place, Counter[tuple[str, ...]]] = defaultdict(Counter)
    for (_, place), own_words in given.items():
        names = {tuple(word for word in words if (place, word) in steady) for words in own_words}
        several[place] += len(names) > 1
        same[place].update(names - {()})
    found = {
        f"{place[0]} {place[1]} {word}"
        for place, word in steady
        if several[place] >= _OFTEN * len(used[place])
        or (several[place] and max(same[place].values()) >= _MOSTLY * len(used[place]))
    }
    return frozenset({*found, *(f"{each.split(' ')[0]} " for each in found)})
