"""Action templates: what the successful actions of a task's runs share, as constants and slots.

Input: instances that did not fail. Output: templates. No program, option or value is known by name; the result depends
on the set of instances only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

from hmx_pipeline.compiler.tasks.change_points import share_now
from hmx_pipeline.compiler.tasks.readings import Readings
from hmx_pipeline.compiler.tasks.slots import (
    FROM_OUTSIDE,
    Goals,
    Instance,
    Mixed,
    Position,
    Slot,
    constants,
    named,
    position,
    source_of,
    supported,
)
from hmx_pipeline.compiler.tasks.task_run import MEANT, Run, act_words, words_in
from hmx_pipeline.segments.commands import OPEN, Simple, is_option, quoted, within, wordlike

_OFTEN: Final = 0.5  # share of instances with an option that makes it part of the template
_FORMS: Final = 0.6
_SEVERAL: Final = 2  # fewest runs that show whether a rule is obeyed, if all were asked
_LETTER: Final = 2  # `-n` is in many texts
_ANY: Final = Slot("", "unknown", ())
_NOT_ONE_VALUE: Final = re.compile(r"[\s,]|^['\"]|^$")


@dataclass(slots=True, eq=False)
class Template:
    program: str
    tool: bool
    words: tuple[Position, ...]
    options: tuple[tuple[str, Position | None], ...]
    layout: tuple[str, ...]
    instances: Sequence[Instance] = field(repr=False)
    form: str = ""
    """As that of its instances (`Simple.form`)."""
    more: bool = False
    """True if the last word stands for a list of any length."""

    @property
    def values(self) -> list[Position | None]:
        return [*self.words, *(value for _, value in self.options)]

    @property
    def slots(self) -> list[Slot]:
        return [slot for each in self.values if not isinstance(each, str | None) for slot in each.slots]

    def covers(self, simple: Simple) -> bool:
        """Return True if the action is an instance: same number of words, same constants and options."""
        own = self.program, self.tool, self.form, len(self.words)
        if own != (simple.program, simple.tool, simple.form, len(simple.words)):
            return False
        words = zip(self.words, simple.words, strict=True)
        if any(isinstance(wanted, str) and wanted != given for wanted, given in words):
            return False
        given = dict(simple.options)
        return all(key in given and (not isinstance(value, str) or given[key] == value) for key, value in self.options)

    def resembles(self, simple: Simple) -> bool:
        """Return True if the action is an instance, but for values of one case such as ids."""
        words = tuple(word if isinstance(word, str) and wordlike(word) else _ANY for word in self.words)
        options = tuple((key, v if isinstance(v, str) and wordlike(v) else None) for key, v in self.options)
        return replace(self, words=words, options=options).covers(simple)

    def meant_by(self, text: str) -> bool:
        """Return True if a text in lower case refers to it: contains two of its words, or an option as written."""
        keys = [key for key, _ in self.options]
        own = words_in(" ".join((self.program, *keys, *(text for each in self.values for text in constants(each)))))
        if len(own & words_in(text)) >= MEANT:
            return True
        return not self.tool and any(len(key) > _LETTER and within(key, text) for key in keys)

    def fill(self, runs: Iterable[Run], options: Readings) -> None:
        """Store the values of its slots in every run that has it."""
        for run in runs:
            for simple in (part for deed in run.deeds for part in deed.parts(options) if self.covers(part)):
                given = dict(simple.options)
                pairs = [*zip(self.words, simple.words, strict=True), *((s, given[key]) for key, s in self.options)]
                for place, value in pairs:
                    for slot, inner in place.read(value) if value and not isinstance(place, str | None) else ():
                        slot.elsewhere[run.name] = inner

    @property
    def text(self) -> str:
        """The command to run, with slots as `<name>`."""
        if self.tool:
            return f"{self.program}({', '.join(f'{key}={_argument(str(value))}' for key, value in self.options)})"
        if self.form and not self.layout:
            return " ".join((self.program, *map(str, self.words)))
        said = {str(i): _shown(word) for i, word in enumerate(self.words)}
        options = {key: key if value is None else f"{key} {_shown(value)}" for key, value in self.options}
        order = [key for key in self.layout if key in said or key in options]
        every = {**said, **options}
        return " ".join([self.program, *(every[key] for key in dict.fromkeys([*order, *every]))])


def _shown(position: Position) -> str:
    text = str(position)
    plain = "".join((*position.between, *constants(position))) if isinstance(position, Mixed) else text
    return text if isinstance(position, Slot) or quoted(plain) == plain else quoted(text)


def _argument(value: str) -> str:
    """Quote what would not be read as one value."""
    quote = "'" if '"' in value else '"'
    return f"{quote}{value}{quote}" if _NOT_ONE_VALUE.search(value) else value


def templates(instances: Sequence[Instance], goals: Goals) -> list[Template]:
    """Learn templates from actions that did not fail."""
    programs: dict[tuple[str, bool, str], list[Instance]] = defaultdict(list)
    for one in instances:
        programs[one.simple.program, one.simple.tool, one.simple.form].append(one)
    return [found for key in sorted(programs) for found in _learnt(programs[key], goals, 0)]


def with_told_options(template: Template, told: Sequence[Run], goals: Goals) -> Template:
    """Add the options that users asked for and that have been given since, however rare."""
    given: dict[str, list[tuple[str | None, Instance]]] = defaultdict(list)
    for one in template.instances:
        for key, value in one.simple.options:
            given[key].append((value, one))
    added: list[tuple[str, Position | None]] = []
    for key in sorted(given.keys() - {key for key, _ in template.options}):
        valued = [(value, one) for value, one in given[key] if value is not None]
        words = act_words(Simple(template.program, (), tuple((key, value) for value, _ in valued), False, ()))
        own = words - words_in(template.program)
        asked = [run for run in told if any(_names(key, own, text) for text in run.told)]
        having = {one.run.name for _, one in given[key]}
        if asked and share_obeyed([one.run for one in template.instances], having, asked) >= _OFTEN:
            added.append((key, position(key, valued, goals) if valued else None))
    template.options = tuple(sorted((*template.options, *added), key=lambda option: option[0]))
    return template


def _names(key: str, words: Set[str], text: str) -> bool:
    return within(key, text) or len(words & words_in(text)) >= MEANT


def share_obeyed(runs: Iterable[Run], having: Set[str], asked: Sequence[Run]) -> float:
    """Return the share of runs that did what users asked for, since the first request, without those that had to be
    told. If all had to be, since it was first done. Who did it only when asked obeyed no rule: where others were not
    asked, they alone show it. `asked`: in order."""
    corrected = {run.name for run in asked} - having
    others = [run for run in runs if run.deeds and run.name not in corrected]
    first = min((run.at for run in others if run.name in having), default=0)
    since = [run for run in others if run.at >= asked[0].at] or [run for run in others if run.at >= first]
    named = {run.name for run in asked}
    others = [run for run in since if run.name not in named]
    since = others or (since if len(since) >= _SEVERAL else [])
    return sum(run.name in having for run in since) / len(since) if since else 0.0


def _learnt(instances: list[Instance], goals: Goals, at: int) -> list[Template]:
    """Split at a word whose values name different actions, and where some instances end."""
    ends = [one for one in instances if len(one.simple.words) <= at]
    here = [one for one in instances if len(one.simple.words) > at]
    if not here:
        return [_template(ends, goals)] if ends else []
    branches, rest = _branches(here, goals, at)
    if not branches:
        lengths = {len(one.simple.words) for one in here}
        if (ends and at) or (len(lengths) > 1 and not _named_later(here, at)):
            return [_template(instances, goals, at)]
    found = [_template(ends, goals)] if ends else []
    for value in sorted(branches):
        found += _learnt(branches[value], goals, at + 1)
    return found + [_unnamed(one, at) if branches else one for one in (_learnt(rest, goals, at + 1) if rest else [])]


def _unnamed(template: Template, at: int) -> Template:
    """Mark a slot as unknown if other instances name an action there and its values are too rare to be shown."""
    word = template.words[at] if at < len(template.words) else ""
    if (
        isinstance(word, Slot)
        and word.source in ("heard", "earlier")
        and all(wordlike(value) for value, _ in word.pairs)
    ):
        word.source = "unknown"
    return template


def _branches(here: list[Instance], goals: Goals, at: int) -> tuple[dict[str, list[Instance]], list[Instance]]:
    """Return the instances by value, for values of two sessions that name an action; and the rest, which
    fill a slot."""
    by: dict[str, list[Instance]] = defaultdict(list)
    for one in here:
        by[one.simple.words[at]].append(one)
    pairs = [(one.simple.words[at], one) for one in here]
    named = {value: by[value] for value in supported(pairs) if wordlike(value)}
    if len(by) > 1:
        if 2 * sum(map(len, named.values())) < len(here):
            return {}, here
        forms = Counter(map(_form, here)).most_common(1)[0][1]
        if forms >= _FORMS * len(here) and _from_outside(position("", pairs, goals)):
            return {}, here
    return named, [one for value, ones in sorted(by.items()) if value not in named for one in ones]


def _from_outside(found: Position) -> bool:
    return not isinstance(found, str) and all(slot.source in FROM_OUTSIDE for slot in found.slots)


def _named_later(here: Sequence[Instance], at: int) -> bool:
    sessions = {one.run.session for one in here}
    for place in range(at + 1, max(len(one.simple.words) for one in here)):
        pairs = [(one.simple.words[place], one) for one in here if len(one.simple.words) > place]
        if 2 * sum(n for value, n in supported(pairs).items() if wordlike(value)) >= len(sessions):
            return True
    return False


def _form(one: Instance) -> tuple[int, tuple[str, ...]]:
    return len(one.simple.words), tuple(sorted({key for key, _ in one.simple.options}))


def _template(instances: Sequence[Instance], goals: Goals, tail: int | None = None) -> Template:
    """Make a template. `tail`: from this word on, words form a list of any length."""
    places = min(len(one.simple.words) for one in instances) if tail is None else tail
    first = instances[0].simple
    fixed = first.form.split(" ") if first.form and not first.layout else [OPEN] * (places + 1)
    words: list[Position] = [
        position(before if is_option(before) else "", [(one.simple.words[i], one) for one in instances], goals)
        if own == OPEN
        else first.words[i]
        for i, (before, own) in enumerate(pairwise(fixed))
    ]
    rest = [(word, one) for one in instances for word in one.simple.words[places:]]
    if tail is not None and rest:
        words.append(named(Slot("", source_of(rest, goals) or "unknown", rest)))
    keys: dict[str, list[tuple[str | None, Instance]]] = defaultdict(list)
    for one in instances:
        for key, value in one.simple.options:
            keys[key].append((value, one))
    options: list[tuple[str, Position | None]] = []
    for key, own in sorted(keys.items()):
        if _belongs(instances, {one.run.name for _, one in own}):
            valued = [(value, one) for value, one in own if value is not None]
            options.append((key, position(key, valued, goals) if valued else None))
    layouts = Counter(one.simple.layout for one in instances)
    layout = min(layouts, key=lambda each: (-layouts[each], each))
    return Template(
        first.program,
        first.tool,
        tuple(words),
        tuple(options),
        layout,
        instances,
        first.form,
        tail is not None and bool(rest),
    )


def _belongs(instances: Sequence[Instance], having: set[str]) -> bool:
    """Return True if enough runs have the option by now."""
    ordered = sorted(instances, key=lambda one: (one.run.at, one.run.name))
    return share_now([one.run.name in having for one in ordered]) >= _OFTEN
