"""What holds of one thing over time: claims and endings in event-time order in, values with their times out. Nothing
fails.

What a user states replaces what was stated before about the same; what assistants state never replaces what a user did.
Where two of like authority differ, and the later one does not say that something has changed, both stand beside a
conflict until one of them is heard again. An ending closes the value that it names, and where it says what comes
instead, that is what holds from then on.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pipeline.compiler.knowledge.endings import Ending, names_it
from pipeline.compiler.knowledge.english import TEXT
from pipeline.compiler.knowledge.naming import USER
from pipeline.compiler.knowledge.normal import stems
from pipeline.contracts.evidence import Contribution
from pipeline.contracts.limits import KNOWLEDGE_VALUES
from pipeline.segments.masking import shorten

ASSISTANT: Final = "assistant"
EVENT: Final = "event"
_SURE: Final = {USER: 1.0, EVENT: 1.0, ASSISTANT: 0.5}


class Heard(NamedTuple):
    """A claim with where it comes from."""

    at: int
    event: str
    by: str
    same: str
    """What makes two values one."""
    value: str
    denies: bool
    text: str
    source: Contribution
    about: Contribution
    """Whose body says what it is a claim about."""
    who: str = ""
    """The person that it comes from, where that is known."""
    updates: bool = False
    """It says that it was otherwise before."""
    since: int | None = None
    until: int | None = None


@dataclass(slots=True)
class Held:
    """A value, or the denial of one, and how it stands."""

    name: str
    """It says which of the two, so that no value has the name of another's denial, nor of the conflict."""
    start: int
    heard: list[Heard] = field(default_factory=list)
    end: int | None = None
    ended_by: str = ""

    @property
    def last(self) -> Heard:
        return self.heard[-1]

    @property
    def weight(self) -> float:
        return max(_SURE[one.by] for one in self.heard)


@dataclass(slots=True)
class Track:
    """The values of one thing over time."""

    values: dict[str, Held] = field(default_factory=dict)
    open: dict[str, Held] = field(default_factory=dict)
    """Those that hold, the longest first; of what nobody settles the newest."""
    disputed: dict[str, int] = field(default_factory=dict)
    """Values that stood against another one, and since when."""
    settled: int = 0

    def hear(self, one: Heard) -> None:
        name = f"{'not' if one.denies else 'is'} {one.same}"
        rivals = [held for held in self.open.values() if held.name != name and _excludes(one, held)]
        weight = _SURE[one.by]
        if any(weight < rival.weight for rival in rivals):
            return
        for rival in rivals:
            if _differ(one, rival.last):
                self.disputed.setdefault(rival.name, one.at)
                self.disputed.setdefault(name, one.at)
            else:
                self._end(rival, one.since or one.at, name)
        held = self.open.get(name)
        if held is None:
            if len(self.open) == KNOWLEDGE_VALUES:
                self._end(next(iter(self.open.values())), one.at, "")
            heard = self.values[name].heard if name in self.values else []
            held = self.values[name] = self.open[name] = Held(name, one.since or one.at, heard)
        held.heard.append(one)
        self._settle(one.at)

    def close(self, ending: Ending) -> None:
        """What it names holds no more, unless it was said in the same breath."""
        for held in [held for held in self.open.values() if self._closes(ending, held)]:
            successor = _successor(ending, held.last)
            self._end(held, ending.at, f"is {successor.same}" if successor is not None else "")
            if successor is not None:
                self.hear(successor)
        self._settle(ending.at)

    def _closes(self, ending: Ending, held: Held) -> bool:
        last = held.last
        return last.event != ending.event and ending.reaches(last.about.body, last.value, denies=last.denies)

    def _settle(self, at: int) -> None:
        if self.disputed and sum(other in self.disputed for other in self.open) < 2:
            self.settled = self.settled or at

    def _end(self, held: Held, at: int, by: str) -> None:
        held.end, held.ended_by = at, by
        del self.open[held.name]

    @property
    def newest(self) -> list[Held]:
        ordered = sorted(
            self.values.values(), key=lambda held: (held.end is None, held.end or 0, held.start, held.name)
        )
        return ordered[-KNOWLEDGE_VALUES:]


def track_of(contributions: Sequence[Contribution], beside: Iterable[Contribution]) -> Track:
    """What ends something comes before what the same message says instead."""
    said = sorted(_heard(contributions), key=lambda one: (one.at, one.event, one.same, one.denies))
    ended = deque(sorted(_endings(beside), key=lambda one: (one.at, one.event, one.key, one.new)))
    track = Track()
    for one in said:
        while ended and (ended[0].at, ended[0].event) <= (one.at, one.event):
            track.close(ended.popleft())
        track.hear(one)
    for ending in ended:
        track.close(ending)
    return track


def _heard(contributions: Iterable[Contribution]) -> Iterator[Heard]:
    return (Heard(**claim, source=c, about=c) for c in contributions for claim in c.body["claims"])


def _endings(beside: Iterable[Contribution]) -> Iterator[Ending]:
    return (Ending(**ended, key=c.pattern_key, source=c) for c in beside for ended in c.body["endings"])


def _successor(ending: Ending, last: Heard) -> Heard | None:
    """The claim with what has come in the value's place; None where the ending does not say, or its own claim does."""
    if not ending.new or not last.value or (ending.states and last.about.body.get("plural")):
        return None
    renamed = names_it(last.about.body["predicate"]) and ending.old.lower() not in last.value.lower()
    instead = re.compile(re.escape(last.value if renamed else ending.old or last.value), re.IGNORECASE)
    text, value = (instead.sub(lambda _: ending.new, said, count=1) for said in (last.text, last.value))
    if text == last.text:
        return None
    return last._replace(
        at=ending.at, event=ending.event, by=USER, same=stems(value), value=value, text=shorten(text, TEXT),
        source=ending.source, who="", updates=True, since=None, until=None,
    )  # fmt: skip


def _differ(one: Heard, other: Heard) -> bool:
    """Do two of like authority say so, and the later one not that something has changed?"""
    if one.updates or one.source.session_id == other.source.session_id:
        return False
    if one.by == ASSISTANT:
        return True
    return (one.by != other.by and ASSISTANT not in (one.by, other.by)) or bool(
        one.who and other.who != one.who and other.who
    )


def _excludes(one: Heard, held: Held) -> bool:
    """Of a thing with one value another value does; of a denial only what it denies, and what denies it."""
    if one.denies or held.last.denies:
        return one.same == held.last.same
    return True
