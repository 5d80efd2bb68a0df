"""Runs: what was asked and done in one segment, written as a contribution and read from it, and how they compare.

Input: a segment's steps and actions. Output: the body of a contribution, and a `Run` read from it. Features are
extracted once, at every level of detail; their weights are computed when runs are compared.
"""

import re
import unicodedata
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from itertools import accumulate
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.tasks.readings import NONE, PART, Readings, commands, named, pieces
from hmx_pipeline.contracts.bounded_cache import once, remembered
from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from hmx_pipeline.contracts.limits import MB, STEP_TEXT
from hmx_pipeline.segments.action_names import silent
from hmx_pipeline.segments.commands import Simple, call, first_end, simple_commands, whole_line, within, wordlike
from hmx_pipeline.segments.masking import shorten
from hmx_pipeline.segments.pairing import Action

_MESSAGE, _FEEDBACK = Role.MESSAGE, Role.FEEDBACK  # enum lookups are ten times slower
GOAL_MESSAGES: Final = 3
ACTIONS: Final = 64
_GOAL: Final = 400
_LINE: Final = 400
_ERROR: Final = 160
_SEEN: Final = 12
_TOLD: Final = 4
_THANKS: Final = 2  # most words of a text that is only thanks
MEANT: Final = 2
"""A text refers to an action if it contains so many of its words."""
_FEATURES: Final = 256
_LEVELS: Final = 3
_STEM: Final = 5
_WORD: Final = re.compile(r"[^\W\d_]+")
UNSPACED: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]+")
_SPOKEN: Final = re.compile(r"\w\w+")
_SPELT: Final = str.maketrans({"ä": "ae", "ö": "oe", "ü": "ue", "å": "aa", "æ": "ae", "ø": "oe"})
_BEGINS: Final = re.compile(r"(\w*?[^\W_])[-_./:]\w")
AROUND: Final = ".,!?:;()'\"`"
JOINT: Final = "\ue000"
"""Stands for `/` where it parts nothing."""


class RunAction(NamedTuple):
    """One action of a run: a command line or a tool call."""

    line: str
    """Command line; empty for a tool call."""
    name: str
    arguments: tuple[tuple[str, str], ...]
    ok: bool | None
    error: str
    seen: frozenset[str]
    """Values that occur in an earlier text, without the wish."""
    heard: frozenset[str] = frozenset()
    """Those of them that a user was the first to say."""

    def parts(self, known: Readings) -> Sequence[Simple]:
        """Return its commands, or the whole as one, where that is how it is `known` to be read."""
        if not self.line:
            return (named(call(self.name, self.arguments), known),)
        whole = whole_line(self.line) if known else None
        return (whole,) if whole is not None and whole.form in known else commands(self.line, known)


class Run(NamedTuple):
    name: str
    """The id of its segment."""
    session: str
    subject: str
    at: int
    good: bool
    asked: tuple[str, ...]
    deeds: tuple[RunAction, ...]
    told: tuple[str, ...] = ()
    """What users said about what was being done, in lower case."""
    common: frozenset[str] = frozenset()
    """Values that two of the tenant's subjects have used or named, so they belong to no single person."""
    named: frozenset[str] = frozenset()
    """Those of `common` that somebody named in an instruction."""
    wished: frozenset[str] = frozenset()
    """Values in the wishes of two subjects' sessions, or of a team's, that nobody stated about themselves: anybody may
    ask for them."""
    values: frozenset[str] = frozenset()
    """Words and option values of all actions, and what those are made of."""
    begins: frozenset[str] = frozenset()
    """With what these begin."""
    apart: frozenset[str] = frozenset()
    """Words of its task's wishes that other tasks' seldom have (`stems_in`)."""


def _values(deeds: Iterable[RunAction]) -> frozenset[str]:
    parts = [part for deed in deeds for part in deed.parts(NONE)]
    whole = {value for part in parts for value in (*part.words, *(v for _, v in part.options)) if value}
    return frozenset(whole.union(*map(PART.findall, whole)))


def told(segment: Segment) -> dict[str, Any] | None:
    """Return the body of a segment without actions: what users said; None if nothing."""
    texts = _told(segment.steps, 0)
    return {"told": texts, "subject": segment.whose} if texts else None


def body(segment: Segment, actions: Sequence[Action]) -> dict[str, Any] | None:
    acted = [action for action in actions if action.role in ACTS and action.verb and not silent(action.verb)][:ACTIONS]
    acts = acts_of(segment.steps, acted)
    if not acts:
        return None
    asked = wishes_of(segment)
    values: set[str] = set()
    done: dict[str, None] = {}
    places: dict[str, set[str]] = defaultdict(set)
    earlier = _EarlierTexts(segment.steps)
    for action, act in zip(acted, acts, strict=True):
        copied = partial(earlier.hold, action.position)
        for simple in _simples(act):
            done.update(dict.fromkeys(_features(simple, copied)))
            for place, value in _places(simple):
                values.add(value)
                places[value].add(place)
    features, wish = sorted(done)[:_FEATURES], "\n".join(asked).casefold()
    taken = {value for value, own in places.items() if len(own) > 1 and wordlike(value) and within(value, wish)}
    return {
        "asked": asked,
        "said": sorted(stems_in(asked, values))[:_FEATURES],
        "done": features,
        "taken": [feature for feature in features if feature.rpartition(" ")[2] in taken],
        "acts": acts,
        "told": _told(segment.steps, acted[0].position),
        "subject": segment.whose,
    }


def wishes_of(segment: Segment) -> list[str]:
    return [shorten(step.text, _GOAL) for step in segment.steps if _is_wish(step)][:GOAL_MESSAGES]


def _told(steps: Sequence[Step], first: int) -> list[str]:
    """Return what users said from this step on, without questions and thanks."""
    texts = (step.text.strip() for step in steps[first:] if step.role is _FEEDBACK or _is_wish(step))
    told = dict.fromkeys(text for text in texts if not text.endswith("?") and len(_WORD.findall(text)) > _THANKS)
    return [shorten(text, _GOAL) for text in told][:_TOLD]


def spoken_words(texts: Iterable[str]) -> set[str]:
    """Return the words in lower case, the parts of `snake_case`, and ASCII spellings: `rücksprache` also as
    `ruecksprache`, `identité` as `identite`."""
    words = {word for text in texts for word in _SPOKEN.findall(text.casefold())}
    words |= {part for word in words if "_" in word for part in word.split("_") if len(part) > 1}
    other = [word for word in words if not word.isascii()]
    return words | {word.translate(_SPELT) for word in other} | set(map(_plain, other))


@remembered(16 * MB)
def words_in(text: str) -> frozenset[str]:
    """Return the same of one text, or of several that blanks separate."""
    return frozenset(spoken_words((text,)))


def _plain(word: str) -> str:
    return "".join(c for c in unicodedata.normalize("NFKD", word) if not unicodedata.combining(c))


def tokens(text: str) -> list[str]:
    """Split into tokens without surrounding punctuation."""
    return [token.strip(AROUND) for token in text.split()]


def joined(value: str, asked: Iterable[str]) -> str:
    """Return the value with each word of the wish such as `A/24/7` as one part."""
    words = {word for text in asked if "/" in text for word in tokens(text) if "/" in word.strip("/")}
    for word in sorted(words, key=lambda each: (-len(each), each)):
        value = value.replace(word, word.replace("/", JOINT))
    return value


def begins(values: Iterable[str]) -> set[str]:
    """Return the prefixes of values before the first separator, such as `-` or `_`."""
    return {found[1] for value in values if (found := _BEGINS.match(value))}


@remembered(16 * MB)
def act_words(act: Simple) -> frozenset[str]:
    """Return the words that refer to an action."""
    values = (value for _, value in act.options if value)
    return frozenset(spoken_words((act.program, *act.words, *(key for key, _ in act.options), *values)))


def _is_wish(step: Step) -> bool:
    return step.role is _MESSAGE and step.actor == "user"


class _EarlierTexts:
    """The texts before each step of a segment, in lower case. They are joined once, and searched once for a value."""

    def __init__(self, steps: Sequence[Step], left_out: Collection[int] = ()) -> None:
        texts = ["" if step.index in left_out else f"\n{step.text.casefold()}" for step in steps]
        self._text = "".join(texts)[1:]
        self._lengths = [0, *accumulate(map(len, texts))]
        """Of the texts before each step, each with a line break before it; the first line break is not in the text."""
        self._first: dict[str, tuple[int, int]] = {}
        """Where a value first ends, or 0, and up to where it was searched."""

    def place(self, value: str) -> int:
        """Return the index of the step that was found to hold the value first."""
        return bisect_left(self._lengths, self._first[value][0] + 1) - 1

    def hold(self, position: int, value: str) -> bool:
        """Return True if a text before this position contains the value as a whole word."""
        stop = self._lengths[position] - 1
        first, searched = self._first.get(value, (0, 0))
        if not first and searched < stop:
            first = first_end(value, self._text, searched, stop)
            self._first[value] = first, stop
        return 0 < first <= stop


def acts_of(steps: Sequence[Step], actions: Iterable[Action]) -> list[list[Any]]:
    """Return the whole actions, as contributions keep them, with those of their values that an earlier result holds, or
    what a user said after the wish."""
    known, earlier = _known_acts(steps)
    found = []
    for action in actions:
        at = action.position
        if at not in known:
            act = _with_seen(_act(steps, action), partial(earlier.hold, at))
            known[at] = [*act, [value for value in act[-1] if _is_wish(steps[earlier.place(value)])]]
        found.append(known[at])
    return found


@once  # runs ask, and each failure
def _known_acts(steps: Sequence[Step]) -> tuple[dict[int, list[Any]], _EarlierTexts]:
    """Return the acts so far by position, and the texts after the wish."""
    return {}, _EarlierTexts(steps, [step.index for step in steps if _is_wish(step)][:GOAL_MESSAGES])


def _with_seen(act: list[Any], held: Callable[[str], bool]) -> list[Any]:
    own: dict[str, None] = {}
    for simple in _simples(act):
        own.update(dict.fromkeys(simple.words))
        own.update(dict.fromkeys(value for _, value in simple.options if value))
    return [*act, list(filter(held, own))[:_SEEN]]


def _simples(act: Sequence[Any]) -> Sequence[Simple]:
    """The commands of an act, as long as nothing is known of its task."""
    line, name, arguments = act[:3]
    return simple_commands(line, NONE) if line else (call(name, [(key, value) for key, value in arguments]),)


def _act(steps: Sequence[Step], action: Action) -> list[Any]:
    first = steps[action.position]
    error = action.failure
    message = shorten(" ".join(f"{error.type}: {error.message}".split()).strip(": "), _ERROR) if error else ""
    ok = -1 if action.ok is None else int(action.ok)
    if first.role is Role.CALL:
        return ["", first.name, [list(pair) for pair in first.arguments], ok, message]
    if first.values[:1] == (first.name[: len(first.values[0])],) if first.values else first.role is Role.TEST:
        whole = len(first.name) <= _LINE  # a line that was cut cannot be run
        return [first.name if whole else "", action.verb, [], ok, message]
    return ["", action.verb, [["value", value] for value in first.values], ok, message]


def read_act(act: Sequence[Any]) -> RunAction:
    line, name, arguments, ok, error, *texts = act[:7]  # other releases write fewer, or more
    known = tuple((key, value) for key, value in arguments)
    return RunAction(line, name, known, None if ok < 0 else bool(ok), error, *map(frozenset, texts or ((),)))


def _weight(value: Any) -> int:
    """Return the bytes of a contribution and of its run, which holds as much again."""
    return 2 * value.nbytes if isinstance(value, Contribution) else 0


def run_of(contribution: Contribution) -> Run:
    """Read a contribution. What is said of it besides, for each compile anew, changes nothing of what was done."""
    body, run = contribution.body, _first_run(contribution.first)
    if contribution.first is contribution:
        return run
    return run._replace(
        common=frozenset(body.get("common", ())),
        named=frozenset(body.get("named", ())),
        wished=frozenset(body.get("wished", ())),
        apart=frozenset(body.get("apart", ())),
    )


@remembered(64 * MB, _weight)
def _first_run(contribution: Contribution) -> Run:
    """Bodies of an earlier release have no actions."""
    body = contribution.body
    deeds = tuple(map(read_act, body.get("acts", ())))
    values = _values(deeds)
    return Run(
        contribution.segment_id,
        contribution.session_id,
        body.get("subject", ""),
        contribution.first_at,
        contribution.outcome is SegmentOutcome.SUCCESS,
        tuple(body.get("asked", ())),
        deeds,
        tuple(text.casefold() for text in body.get("told", ())),
        frozenset(body.get("common", ())),
        frozenset(body.get("named", ())),
        frozenset(body.get("wished", ())),
        values,
        frozenset(begins(values)),
    )


def _features(simple: Simple, copied: Callable[[str], bool]) -> Iterator[str]:
    """Yield features at each level: `dw`, `dw load`, `dw load x`, `dw --region`. Values that occur in an earlier text
    were copied, so they say nothing about the task."""

    def telling(value: str | None) -> bool:
        return value is not None and wordlike(value) and not copied(value)

    name = simple.program if simple.tool else simple.program.rstrip("/").rsplit("/", 1)[-1]
    yield name
    if simple.tool:
        for key, value in simple.options:
            if telling(value):
                yield f"{name} {key}={value}"
            elif words := [word for word in pieces(value) if telling(word)][: _LEVELS - 1]:
                yield f"{name} {key}={' '.join(words)}"
        return
    path = name
    for word in simple.words[:_LEVELS]:
        if not wordlike(word):
            break
        path = f"{path} {word}"
        yield path
    yield from (f"{name} {key}={value}" if telling(value) else f"{name} {key}" for key, value in simple.options)


def _places(simple: Simple) -> Iterator[tuple[str, str]]:
    """Where an act has which value."""
    yield from ((f"{simple.program} {at}", word) for at, word in enumerate(simple.words))
    yield from ((f"{simple.program} {key}", value) for key, value in simple.options if value)


def stems_in(texts: Sequence[str], values: Collection[str] = ()) -> set[str]:
    """Return the first letters of words, because endings are inflected, or character bigrams in scripts without spaces.
    Tokens with digits and values of actions are left out."""
    found: set[str] = set()
    for text in texts:
        for token in unicodedata.normalize("NFKC", text).casefold()[:STEP_TEXT].split():
            bare = token.strip(AROUND)
            if bare in values or (any(map(str.isdigit, token)) and not UNSPACED.search(token)):
                continue
            for word in (bare,) if bare.isalpha() else _WORD.findall(token):
                pieces = () if word.isascii() else UNSPACED.findall(word)
                found.update(piece[i : i + 2] for piece in pieces for i in range(len(piece) - 1))
                if not pieces and len(word) > 1 and word not in values:
                    found.add(word[:_STEM])
    return found
