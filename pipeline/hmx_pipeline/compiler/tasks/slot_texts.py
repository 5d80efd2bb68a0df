"""What is shown of slots: values of several subjects, what ids look like, and where a value comes from.

Input: the slots of a procedure. Output: their part of an artifact's content, and lines of a pack.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from string import ascii_letters
from types import MappingProxyType
from typing import Any, Final

from hmx_pipeline.compiler.tasks.slots import COPIED, DIGIT, LETTER, SESSIONS, SHOWN_FROM, Slot, common_start
from hmx_pipeline.segments.commands import within

_LOOKS: Final = 2
_FEW: Final = 12  # most values of a closed set
_NEARLY: Final = 0.8  # share of its uses that repeated values have
_LONGEST: Final = 40  # of a longer value its looks say nothing
_SHOWN: Final = 5  # values of a slot; of these a pack names the one that it was asked with
_TOLD: Final = {
    "goal": ("stands in the wish", "stand in the wish"),
    "user": ("is the user's own", "are the user's own"),
    "heard": ("is what the user says when asked", "are what the user says when asked"),
    "failed": ("is the same as in the failed call", "are the same as in the failed call"),
    "earlier": ("is what an earlier result says", "are what earlier results say"),
    "chosen": ("is one of few", "are each one of few"),
    "written": ("is a text to write", "are texts to write"),
    "unknown": ("differs each time", "differ each time"),
}
"""What a pack says of one slot, and of several."""


def described(slots: Mapping[str, Sequence[Slot]]) -> dict[str, Any]:
    """Of each where its value comes from, and what it is like."""
    return {name: _described(own) for name, own in slots.items()}


def _described(group: Sequence[Slot]) -> dict[str, Any]:
    """`told`: what is said of its source, if that is otherwise: the source finds it in any of the first messages.
    `open`: the examples are some of many, or what users say of themselves when asked, which is no choice; they only
    help to find a value in a wish."""
    source, told, shown, closed = group[0].source, told_source(group), like(group), _closed(group)
    if source == "chosen" and not closed:
        told = ""
    some = bool(shown) and (told == "heard" or not closed) and not any(map(DIGIT.search, shown))
    more = {**({"told": told} if told != source else {}), **({"open": True} if some else {})}
    return {"source": source, "like": shown, **more}


def _closed(group: Sequence[Slot]) -> bool:
    """Return True if nearly all of its values are few, and each was used in several cases: sessions that do the same
    with all other values are one."""
    pairs = [pair for slot in group for pair in slot.pairs]
    rest = [
        tuple(v for v in (*one.simple.words, *(given for _, given in one.simple.options)) if v != value)
        for value, one in pairs
    ]
    apart = len(set(rest)) > 1
    cases: dict[str, set[object]] = defaultdict(set)
    for (value, one), own in zip(pairs, rest, strict=True):
        cases[value].add(own if apart else one.run.session)
    often = [len(own) for own in cases.values() if len(own) >= SESSIONS]
    return len(often) <= _FEW and sum(often) >= _NEARLY * sum(map(len, cases.values()))


def told_source(group: Sequence[Slot], failed: Mapping[str, Set[str]] = MappingProxyType({})) -> str:
    """Return where most values of a slot come from: the failed call, the user's first message alone, what the user said
    later, or an earlier text; empty where most come from no single place. `failed`: run → the values of its failed
    call."""
    source, pairs = group[0].source, [pair for slot in group for pair in slot.pairs]

    def mostly(there: Iterable[bool]) -> bool:
        return sum(there) >= COPIED * len(pairs) > 0

    if mostly(value in failed.get(one.run.name, ()) for value, one in pairs):
        return "failed"
    if source not in ("goal", "heard", "earlier"):
        return source
    first = [within(value, "".join(one.run.asked[:1]).casefold()) for value, one in pairs]
    if mostly(first):
        return "goal"
    later = [value in one.deed.heard or within(value, "\n".join(one.run.asked[1:]).casefold()) for value, one in pairs]
    if mostly(later):
        return "heard"
    seen = (value in one.deed.seen for value, one in pairs)
    return "earlier" if mostly(s and not (f or said) for s, f, said in zip(seen, first, later, strict=True)) else ""


def like(group: Sequence[Slot]) -> list[str]:
    """Values of a slot: those of several subjects, else their shapes with `x` and `0` for letters and digits."""
    if group[0].source in ("user", "written"):
        return []
    values = sorted({v for slot in group for v, _ in slot.pairs if DIGIT.search(v) and len(v) <= _LONGEST})
    choices = next((slot.choices for slot in group if slot.choices), ())
    if choices and not values:
        return list(choices)
    shapes = Counter(map(_look, values))
    first = sorted(shapes, key=lambda shape: (-shapes[shape], shape))[:_LOOKS]
    return [_masked([value for value in values if _look(value) == shape]) for shape in first]


def _look(value: str) -> str:
    return LETTER.sub("x", DIGIT.sub("0", value))


def _masked(values: Sequence[str]) -> str:
    """Values of one shape: what all begin with stays, but no part of their letters."""
    kept = len(common_start(values)) if len(values) >= SHOWN_FROM else 0
    if any(LETTER.match(value, kept) for value in values):
        kept = len(values[0][:kept].rstrip(ascii_letters))
    return values[0][:kept] + _look(values[0])[kept:]


def slot_lines(slots: Mapping[str, Any]) -> Iterator[str]:
    """What a pack shows of them: a value or examples, where these are known, and in one line which others come from one
    place. Examples of what a wish says are no choice, so that is said too. How ids look says little to who reads, but
    where one has to be found in a wish."""
    others: dict[str, list[str]] = {}
    for name, slot in slots.items():
        told, source = "value" in slot, slot.get("told", slot["source"])
        shown = () if slot.get("open") else slot["like"]
        known = [slot["value"]] if told else [value for value in shown if not DIGIT.search(value)]
        if known:
            yield f"<{name}>: {', '.join(known[:_SHOWN])}"
        if source == "goal" and shown and not known:
            yield f"<{name}> stands in the wish and looks like {' or '.join(slot['like'])}"
        elif source in _TOLD and (not known or (source == "goal" and not told)):
            others.setdefault(source, []).append(f"<{name}>")
    yield from (f"{', '.join(names)} {_TOLD[source][len(names) > 1]}" for source, names in others.items())
