"""Readings: what a task's runs show about how their lines and calls are to be read.

Input: runs. Output: a set of texts, which `RunAction.parts` takes: options without a value (`program --flag`), forms of
lines that are one action (`a · | b`), and words in arguments that name what a call does (`http path orders`). The
result depends on the set of runs only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from hmx_pipeline.segments.commands import Simple, simple_commands, whole_line, within, wordlike

if TYPE_CHECKING:
    from hmx_pipeline.compiler.tasks.task_run import Run

_SESSIONS: Final = 2
_OFTEN: Final = 0.5
_MOSTLY: Final = 0.6
_SOME: Final = 0.25
_PIECE: Final = re.compile(r"[^\s'\"{}\[\](),;=|&<>/:?]+")

Readings = frozenset[str]
NONE: Final = Readings()


def readings(runs: Iterable["Run"]) -> Readings:
    runs = list(runs)
    return _switches(runs) | _wholes(runs) | _naming(runs)


def named(simple: Simple, known: Readings) -> Simple:
    """Return the call with the words of its arguments that name what it does."""
    if f"{simple.program} " not in known:
        return simple
    words = (
        word for key, value in simple.options for word in pieces(value) if f"{simple.program} {key} {word}" in known
    )
    return simple._replace(form=" ".join(words))


def pieces(value: str | None) -> list[str]:
    """Return the words in a path, an address or a nested value."""
    return [word for word in _PIECE.findall(value or "") if wordlike(word)]


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
    """Words in the arguments of calls that tell what a tool does: some run has several in one place, as most runs have,
    or most have the same there. They are words of two sessions, and of no wish."""
    several: dict[tuple[str, str], set[str]] = defaultdict(set)
    used: dict[tuple[str, str], set[str]] = defaultdict(set)
    same: dict[tuple[str, str], Counter[tuple[str, ...]]] = defaultdict(Counter)
    having: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    by: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for run in runs:
        wish = "\n".join(run.asked).casefold()
        calls: dict[tuple[str, str], set[tuple[str, ...]]] = defaultdict(set)
        for deed in run.deeds:
            for key, value in deed.arguments if deed.ok is not False and not deed.line else ():
                words = [word for word in pieces(value) if not within(word, wish) and word not in deed.seen]
                calls[deed.name, key].add(tuple(words))
                for word in words:
                    having[deed.name, key, word].add(run.session)
                    by[deed.name, key, word].add(run.subject)
        for place, own in calls.items():
            used[place].add(run.session)
            same[place].update(own)
            if len(own) > 1:
                several[place].add(run.session)
    places = {
        place
        for place, own in several.items()
        if len(own) >= _OFTEN * len(used[place]) or max(same[place].values()) >= _MOSTLY * len(used[place])
    }
    found = {
        f"{tool} {key} {word}"
        for (tool, key, word), own in having.items()
        if (tool, key) in places
        and len(own) >= max(_SESSIONS, _SOME * len(used[tool, key]))
        and ("" in by[tool, key, word] or len(by[tool, key, word]) >= _SESSIONS)
    }
    return frozenset({*found, *(f"{each.split(' ')[0]} " for each in found)})
