"""Slots of an action: which argument positions are constant, which vary, and where values come from.

Input: the values at one position in all instances. Output: a constant, or a slot with name and source. What only one
session or one subject has used is never a constant. The result depends on the set of instances only.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hmx_pipeline.compiler.tasks.change_points import turned
from hmx_pipeline.compiler.tasks.readings import PART
from hmx_pipeline.compiler.tasks.task_run import AROUND, JOINT, UNSPACED, Run, RunAction, joined
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.contracts.safe_text import as_data
from hmx_pipeline.segments.commands import Simple, is_option, within

SESSIONS: Final = 2
"""Fewest sessions of a constant, and fewest subjects if these are known."""
_SAME: Final = 0.9  # share of sessions with one value that makes it a constant
COPIED: Final = 0.6  # share of sessions whose value is in a source that makes it the source
_CONTRAST: Final = 0.3  # least share of other goals that must lack a value from the goal
_SURE: Final = 5  # sessions from which a value that was always copied is a constant
_OWN: Final = 0.8  # share of a subject's most frequent value that makes it the subject's own
_NAMED: Final = 0.3  # share of goals with a word before the value that names the slot
_CHOICES: Final = 16
_ID: Final = 6  # characters from which letters and digits together are an id
SHOWN_FROM: Final = 3  # values of so many sessions show what they begin with
DIGIT: Final = re.compile(r"\d")
LETTER: Final = re.compile(r"[^\W\d_]")
_SENTENCE: Final = 4  # fewest words of a text that is written anew
_PLAIN: Final = 0.7
_TWO: Final = re.compile("..?", re.DOTALL)
_KEYED: Final = re.compile(r"[:=]\W*$")
_PARTS: Final = 32
_SHORT: Final = 2  # letters of an option that is no name
_SEPARATORS: Final = ("=:/,@.", "=:/,@._-")
_BEGINS: Final = re.compile("[A-Za-z_]")
"""Of a slot's name: readers of templates take such names as programs have."""
_BEFORE: Final = re.compile(r"([^\W\d_]{3,})\s+$")
FROM_OUTSIDE: Final = ("goal", "user")
_SOURCES: Final = {"goal": 0, "user": 1, "heard": 2, "earlier": 3}


class Instance(NamedTuple):
    run: Run
    deed: RunAction
    simple: Simple
    place: int
    """Position within its run."""


Pairs = Sequence[tuple[str, Instance]]
Goals = tuple[str, ...]
"""What was asked in each run of the task, in lower case."""


@dataclass(slots=True, eq=False)
class Slot:
    name: str
    source: str
    """`goal`, `user` (has a value of their own), `heard` (says it when asked), `earlier` (a result), `chosen` (one of
    few), `written` (sentences that whoever acts writes) or `unknown`."""
    pairs: Pairs = field(repr=False)
    choices: tuple[str, ...] = ()
    before: str = ""
    after: str = ""
    keyed: bool = False
    """True if it is named after an option or argument."""
    elsewhere: dict[str, str] = field(default_factory=dict, repr=False)
    """Run → value, also of runs that it was not learnt from."""

    @property
    def values(self) -> dict[str, str]:
        """Run → value."""
        return {**self.elsewhere, **{one.run.name: value for value, one in self.pairs}}

    def inner(self, value: str) -> str:
        """Return the value without the common prefix and suffix; empty if it lacks them."""
        if not (value.startswith(self.before) and value.endswith(self.after)):
            return ""
        return value[len(self.before) : len(value) - len(self.after)]

    @property
    def slots(self) -> tuple["Slot"]:
        return (self,)

    def read(self, value: str) -> Iterator[tuple["Slot", str]]:
        """Yield what fills it in this value."""
        if inner := self.inner(value):
            yield self, inner

    def __str__(self) -> str:
        return f"{self.before}<{self.name}>{self.after}"


@dataclass(slots=True, eq=False)
class Mixed:
    """A value that is put together: a path, a nested argument, a text with values in it."""

    between: tuple[str, ...]
    parts: tuple["str | Slot", ...]

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slot))

    def read(self, value: str) -> Iterator[tuple[Slot, str]]:
        given = PART.findall(value)
        if tuple(PART.split(value)) == self.between:
            for part, own in zip(self.parts, given, strict=True):
                if isinstance(part, Slot):
                    yield from part.read(own)

    def __str__(self) -> str:
        parts = (*map(str, self.parts), "")
        return "".join(f"{between}{part}" for between, part in zip(self.between, parts, strict=True))


Position = str | Slot | Mixed


def constants(position: Position | None) -> tuple[str, ...]:
    """Return what is the same each time."""
    if isinstance(position, Mixed):
        return tuple(part for part in position.parts if isinstance(part, str))
    return (position,) if isinstance(position, str) else ()


def supported(pairs: Pairs, least: int = SESSIONS) -> dict[str, int]:
    """Return value → sessions, for values of two sessions and, if known, two subjects. `least`: enough sessions for a
    value that belongs to no single person."""
    sessions: dict[str, set[str]] = defaultdict(set)
    subjects: dict[str, set[str]] = defaultdict(set)
    common: set[str] = set()
    named: set[str] = set()
    for value, one in pairs:
        run = one.run
        sessions[value].add(run.session)
        if run.subject:  # a session without a subject could be anybody's
            subjects[value].add(run.subject)
        if run.common:
            common.update(run.common)
        if run.named:
            named.update(run.named)
    known = bool(subjects)
    return {
        value: len(own)
        for value, own in sessions.items()
        if (len(own) + (value in named) >= least and value in common)
        or (len(own) >= SESSIONS and (not known or len(subjects[value]) >= SESSIONS))
    }


def _wished(pairs: Pairs) -> dict[str, int]:
    """Return value → sessions, for values that anybody may ask for."""
    wished = {value for value, one in pairs if value in one.run.wished}
    return {value: len({one.run.session for own, one in pairs if own == value}) for value in wished}


def position(key: str, pairs: Pairs, goals: Goals) -> Position:
    """Return a constant if the value is the same, else a slot."""
    lately = _lately(pairs)
    shown = supported(lately)
    many = len({(value, one.run.session) for value, one in lately})
    if shown:
        top = min(shown, key=lambda value: (-shown[value], value))
        if shown[top] >= _SAME * many and not (shown[top] < _SURE and _by_chance(top, lately, goals)):
            return _mixed(key, lately, goals) or top
    source, before, after, given = source_of(pairs, goals), "", "", pairs
    if source == "user" and (cut := next(_cuts(pairs, "="), None)) is not None:
        before, after, pairs = cut  # `to=`, which is nobody's own
    if not source and (mixed := _mixed(key, pairs, goals)) is not None:
        return mixed
    if not source and sum(_is_prose(value) for value, _ in pairs) >= _SAME * len(pairs):
        return named(Slot("", "written", pairs), key)
    for separators in _SEPARATORS if not source else ():
        cuts = [(source_of(cut[2], goals), cut) for cut in _cuts(given, separators)]
        known = [each for each in cuts if each[0]]
        if known or (cuts and separators == _SEPARATORS[0]):
            source, (before, after, pairs) = known[0] if known else cuts[-1]
        if source:
            break
    shown = {**_wished(pairs), **supported(pairs, 1)} if source == "goal" else supported(pairs, 1)
    few = tuple(sorted(shown, key=lambda value: (-shown[value], value))[:_CHOICES])
    if not source:
        source = "chosen" if sum(shown.values()) >= COPIED * many else "unknown"
    return named(Slot("", source, pairs, few, before, after), key)


def _mixed(key: str, pairs: Pairs, goals: Goals) -> Mixed | None:
    """Read the values part by part; None unless nearly all are put together alike, each part that differs is known from
    somewhere, and one of them from the wish, the user or a result."""
    pairs = [(joined(value, one.run.asked), one) for value, one in pairs]
    if all(PART.fullmatch(value) for value, _ in pairs):
        return None
    forms = Counter(tuple(PART.split(value)) for value, _ in pairs)
    between = min(forms, key=lambda form: (-forms[form], form), default=())
    if not any(between) or len(between) > _PARTS or forms[between] < COPIED * len(pairs):
        return None
    alike = [(value, one) for value, one in pairs if tuple(PART.split(value)) == between]
    rows = [([part.replace(JOINT, "/") for part in PART.findall(value)], one) for value, one in alike]
    parts: list[str | Slot] = []
    last = len(between) - 2 if not any(map(str.isspace, "".join(between))) else None  # it has the value's own name
    for at in range(len(between) - 1):
        before = next((own for own in reversed(parts) if isinstance(own, str) and LETTER.search(own)), "")
        keyed = is_option(before) or _KEYED.search("".join((*between[1 : at + 1], *map(str, parts[-1:]))))
        name = before if keyed else key if at == last else ""
        part = position(name, [(row[at], one) for row, one in rows], goals)
        if isinstance(part, Mixed) or (isinstance(part, Slot) and part.source == "unknown"):
            return None
        parts.append(part)
    return Mixed(between, tuple(parts)) if any(p.source in _SOURCES for p in parts if isinstance(p, Slot)) else None


@remembered(MB)
def _is_prose(text: str) -> bool:
    """Return True if several words, most of them plain, stand in it; in scripts without spaces two letters are one."""
    words = [word.strip(AROUND) for word in UNSPACED.sub(lambda own: " ".join(_TWO.findall(own[0])), text).split()]
    return len(words) >= _SENTENCE and sum(map(str.isalpha, words)) >= _PLAIN * len(words)


def _lately(pairs: Pairs) -> Pairs:
    """Return the pairs since one value replaced another."""
    ordered = sorted(pairs, key=lambda pair: (pair[1].run.at, pair[1].run.name, pair[1].place))
    if not ordered or len({value for value, _ in ordered}) < 2:
        return ordered
    last = ordered[-1][0]
    turn = turned([value == last for value, _ in ordered])
    before = Counter(value for value, _ in ordered[:turn])
    one_before = turn and before.most_common(1)[0][1] >= _SAME * turn
    return ordered[turn:] if one_before and all(value == last for value, _ in ordered[turn:]) else ordered


def source_of(pairs: Pairs, goals: Goals) -> str:
    """Return the first source that contains the values in most sessions; empty if there is none."""
    if not pairs:
        return ""
    of_users = _of_users(pairs)
    if sum(_copied(value, one, goals) for value, one in pairs) >= COPIED * len(pairs):
        first = sum(within(value, "".join(one.run.asked[:1]).casefold()) for value, one in pairs) if of_users else 0
        if not of_users or first >= COPIED * len(pairs):
            return "goal"
    if of_users:
        return "user"
    seen = sum(value in one.deed.seen for value, one in pairs)
    heard = sum(value in one.deed.heard for value, one in pairs)
    return "" if seen < COPIED * len(pairs) else "heard" if 2 * heard >= seen else "earlier"


def _copied(value: str, one: Instance, goals: Goals) -> bool:
    """Return True if the run's goal contains the value and few other goals do. A value such as `1` is in any text; an
    id is in a goal for one reason only, also where all goals so far were of one person."""
    if not within(value, goal_of(one.run)):
        return False
    is_id = len(value) >= _ID and bool(DIGIT.search(value) and LETTER.search(value))
    return is_id or _heard(value, goals) <= len(goals) * (1 - _CONTRAST)


@remembered(8 * MB)
def _heard(value: str, goals: Goals) -> int:
    return sum(within(value, goal) for goal in goals)


def goal_of(run: Run) -> str:
    return "\n".join(run.asked).casefold()


def _of_users(pairs: Pairs) -> bool:
    """Return True if each subject has a value of its own."""
    by: dict[str, Counter[str]] = defaultdict(Counter)
    for value, one in pairs:
        if one.run.subject:
            by[one.run.subject][value] += 1
    mine = sum(own.most_common(1)[0][1] for own in by.values() if own.total() > 1)
    several = sum(own.total() for own in by.values() if own.total() > 1)
    tops = {min(own, key=lambda value: (-own[value], value)) for own in by.values()}
    return len(by) >= SESSIONS and len(tops) == len(by) and several > len(by) and mine >= _OWN * several


def _by_chance(value: str, pairs: Pairs, goals: Goals) -> bool:
    """Return True if the value may be equal by chance so far: each session took it from a text before, and no user
    asked for it."""
    own = [one for given, one in pairs if given == value]
    if all(_copied(value, one, goals) for one in own):
        return True
    if all(value in one.run.named for one in own):
        return False
    id_like = any(map(str.isdigit, value))
    return id_like and all(value in one.deed.seen or within(value, goal_of(one.run)) for one in own)


def _cuts(pairs: Pairs, separators: str) -> Iterator[tuple[str, str, Pairs]]:
    """Split off the common suffix and each common prefix at separators, the shortest first: `deploy/x`, `deploy/y` →
    `deploy/` and the rest."""
    subjects = {one.run.subject for _, one in pairs}
    if len({one.run.session for _, one in pairs}) < SESSIONS or (any(subjects) and len(subjects) < SESSIONS):
        return
    values = [value for value, _ in pairs]
    separator = re.compile(f"[{re.escape(separators)}]")
    longest = _up_to(separator, common_start(values))
    after = _up_to(separator, common_start([value[len(longest) :][::-1] for value in values]))[::-1]
    for begin in [*([0] if after else ()), *(found.end() for found in separator.finditer(longest))]:
        yield longest[:begin], after, [(value[begin : len(value) - len(after)], one) for value, one in pairs]


def common_start(values: Sequence[str]) -> str:
    first, last = min(values), max(values)
    return first[: next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first))]


def up_to_separator(text: str) -> str:
    return _up_to(re.compile(f"[{re.escape(_SEPARATORS[-1])}]"), text)


def _up_to(separator: re.Pattern[str], text: str) -> str:
    return text[: max((found.end() for found in separator.finditer(text)), default=0)]


def named(slot: Slot, key: str = "") -> Slot:
    """Name a slot after its option or argument, else after the word that mostly precedes its value in the goal, else
    after its shape."""
    name = _key_name(key)
    chosen = name or _goal_name(slot) or _shape(slot)
    plain = _BEGINS.match(chosen) and as_data(f"<{chosen}>") == f"<{chosen}>"  # a page hides `<table>`
    slot.name = chosen if plain else f"the_{chosen}"
    slot.keyed = bool(name)
    return slot


def _key_name(key: str) -> str:
    """Return the option's name, unless it is too short to be a word."""
    name = re.sub(r"\W+", "_", key.strip("-").rsplit(".", 1)[-1]).strip("_")
    return name if len(name) > _SHORT else ""


def _goal_name(slot: Slot) -> str:
    if slot.source != "goal":
        return ""
    before: Counter[str] = Counter()
    by: dict[str, set[str]] = defaultdict(set)
    for value, one in slot.pairs:
        goal = goal_of(one.run)
        at = goal.find(value.casefold())
        if at > 0 and (found := _BEFORE.search(goal[max(0, at - 40) : at])):
            before[found[1]] += 1
            by[found[1]].add(one.run.subject)
    for word in [word for word, subjects in by.items() if len(subjects) < SESSIONS and "" not in subjects]:
        del before[word]  # one subject's own word
    if not before:
        return ""
    word = min(before, key=lambda each: (-before[each], each))
    return word if before[word] >= _NAMED * len(slot.pairs) else ""


def _shape(slot: Slot) -> str:
    values = {value for value, _ in slot.pairs}
    begin = up_to_separator(common_start(sorted(values)))[:-1] if len(values) >= SHOWN_FROM else ""
    if len(begin) > _SHORT and begin.isalpha():
        return begin
    shapes = Counter(
        "path" if "/" in value else "number" if value.lstrip("+-").isdigit() else "value" for value, _ in slot.pairs
    )
    return min(shapes, key=lambda each: (-shapes[each], each)) if shapes else "value"


def unified(slots: Iterable[Slot]) -> Mapping[str, Sequence[Slot]]:
    """Give one name to slots with equal values in the same runs, and distinct names to the others; by name."""
    groups: list[list[Slot]] = []
    for slot in slots:
        group = next((group for group in groups if _agree(slot, group[0])), None)
        if group is None:
            groups.append([slot])
        else:
            group.append(slot)
    names: dict[str, Sequence[Slot]] = {}
    for group in groups:
        source = min((slot.source for slot in group), key=lambda each: (_SOURCES.get(each, len(_SOURCES)), each))
        often = Counter(slot.name for slot in group if slot.keyed) or Counter(slot.name for slot in group)
        first = min(often, key=lambda each: (-often[each], -len(each), each))
        name, n = first, 1
        while name in names:
            n += 1
            name = f"{first}_{n}"
        names[name] = group
        for slot in group:
            slot.name, slot.source = name, source
    return names


def _agree(a: Slot, b: Slot) -> bool:
    """What is copied from the goal is seldom the same by chance."""
    mine, other = a.values, b.values
    common = mine.keys() & other.keys()
    enough = 1 if a.source == b.source == "goal" else min(SESSIONS, len(mine), len(other))
    return len(common) >= max(enough, 1) and sum(mine[run] == other[run] for run in common) >= _SAME * len(common)
