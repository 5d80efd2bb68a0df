"""Fact timeline: the values of one thing over time, from claims and endings in event-time order.

Input: the contributions on one thing, and the endings that can reach them. Output: a `FactTimeline`: when each value
held, in milliseconds, and which values are in dispute. A statement replaces earlier ones on the same thing, unless they
have more authority: an assistant's never replaces a user's. If two of equal authority differ, and the later one does
not announce a change, both stand beside a conflict until one is repeated. A user's ending closes the value that it
names; if it names a successor, that holds from then on.
"""

import re
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge.authority import ASSISTANT, rank_of
from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.knowledge.endings import Ending, names_it
from hmx_pipeline.compiler.knowledge.english import TEXT
from hmx_pipeline.compiler.knowledge.normal_forms import stems
from hmx_pipeline.compiler.knowledge.renewals import FAREWELL, renewed
from hmx_pipeline.compiler.knowledge.scopes import scope_of
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.limits import KNOWLEDGE_VALUES
from hmx_pipeline.segments.masking import shorten

_SURE: Final = rank_of(USER)
_UNSURE: Final = 0.5
"""Confidence in what an assistant says, or a user reports."""


class Assertion(NamedTuple):
    """A claim with its source."""

    at: int
    event: str
    by: str
    same: str
    """Normal form of the value."""
    value: str
    denies: bool
    text: str
    source: Contribution
    about: Contribution
    """The contribution whose body says what the claim is about."""
    who: str = ""
    """The person it comes from, if known."""
    updates: bool = False
    """True if it says that this was different before."""
    since: int | None = None
    until: int | None = None
    teller: str = ""
    """The agent that tells it, where its contribution has several."""


@dataclass(slots=True)
class ValueInterval:
    """The interval in which a value, or its denial, holds."""

    name: str
    """`is` or `not` and the value, so that a value, its denial and the conflict have different names."""
    start: int
    heard: list[Assertion] = field(default_factory=list)
    end: int | None = None
    ended_by: str = ""

    @property
    def last(self) -> Assertion:
        return self.heard[-1]

    @property
    def rank(self) -> int:
        return max(rank_of(one.by) for one in self.heard)

    @property
    def weight(self) -> float:
        return 1.0 if self.rank >= _SURE else _UNSURE


@dataclass(slots=True)
class FactTimeline:
    """The values of one thing over time."""

    values: dict[str, ValueInterval] = field(default_factory=dict)
    open: dict[str, ValueInterval] = field(default_factory=dict)
    """Open intervals by name, oldest first; at the bound the oldest is closed."""
    disputed: dict[str, int] = field(default_factory=dict)
    """Disputed value → since when."""
    settled: int = 0

    def hear(self, one: Assertion) -> None:
        name = value_name(one.same, denies=one.denies)
        rivals = [held for held in self.open.values() if held.name != name and _excludes(one, held)]
        rank = rank_of(one.by)
        if any(rank < rival.rank for rival in rivals):
            return
        for rival in rivals:
            if rank == rival.rank and _differ(one, rival.last):
                self.disputed.setdefault(rival.name, one.at)
                self.disputed.setdefault(name, one.at)
            else:
                self._end(rival, one.since or one.at, name)
        held = self.open.get(name)
        if held is None:
            if len(self.open) == KNOWLEDGE_VALUES:
                self._end(next(iter(self.open.values())), one.at, "")
            heard = self.values[name].heard if name in self.values else []
            held = self.values[name] = self.open[name] = ValueInterval(name, one.since or one.at, heard)
        held.heard.append(one)
        self._settle(one.at)

    def close(self, ending: Ending) -> None:
        """Close the values that the ending names, except those stated by the same event."""
        for held in [held for held in self.open.values() if self._closes(ending, held)]:
            successor = _successor(ending, held.last)
            self._end(held, ending.at, f"is {successor.same}" if successor is not None else "")
            if successor is not None:
                self.hear(successor)
        self._settle(ending.at)

    def _closes(self, ending: Ending, held: ValueInterval) -> bool:
        last = held.last
        return (
            last.event != ending.event
            and held.rank <= _SURE
            and ending.reaches(last.about.body, last.value, denies=last.denies)
        )

    def _settle(self, at: int) -> None:
        if self.disputed and sum(other in self.disputed for other in self.open) < 2:
            self.settled = self.settled or at

    def _end(self, held: ValueInterval, at: int, by: str) -> None:
        held.end, held.ended_by = at, by
        del self.open[held.name]

    @property
    def newest(self) -> list[ValueInterval]:
        ordered = sorted(
            self.values.values(), key=lambda held: (held.end is None, held.end or 0, held.start, held.name)
        )
        return ordered[-KNOWLEDGE_VALUES:]


def value_name(same: str, *, denies: bool) -> str:
    return f"{'not' if denies else 'is'} {same}"


def track_of(contributions: Sequence[Contribution], beside: Iterable[Contribution]) -> FactTimeline:
    """Build the timeline. Of one message, endings come before claims."""
    said = sorted(_heard(contributions), key=lambda one: (one.at, one.event, one.same, one.denies))
    ended = deque(sorted(_endings(beside), key=lambda one: (one.at, one.event, one.key, one.new)))
    track = FactTimeline()
    for one in said:
        while ended and (ended[0].at, ended[0].event) <= (one.at, one.event):
            track.close(ended.popleft())
        track.hear(one)
    for ending in ended:
        track.close(ending)
    return track


def _heard(contributions: Iterable[Contribution]) -> Iterator[Assertion]:
    return (Assertion(**claim, source=c, about=c) for c in contributions for claim in c.body["claims"])


def _endings(beside: Iterable[Contribution]) -> Iterator[Ending]:
    return (Ending(**ended, key=scope_of(c.pattern_key)[1], source=c) for c in beside for ended in c.body["endings"])


def _successor(ending: Ending, last: Assertion) -> Assertion | None:
    """Return the claim with the new value; None if the ending names none, or its message states the claim itself."""
    if ending.how == FAREWELL:
        return _instead(last, ending, ending.new, ending.new)
    if ending.values:
        old, new = renewed(last.value, ending.values)
        ending = ending._replace(old=old, new=new)
    if not ending.new or not last.value or (ending.states and last.about.body.get("plural")):
        return None
    renamed = names_it(last.about.body["predicate"]) and ending.old.lower() not in last.value.lower()
    instead = re.compile(re.escape(last.value if renamed else ending.old or last.value), re.IGNORECASE)
    text, value = (instead.sub(lambda _: ending.new, said, count=1) for said in (last.text, last.value))
    if text == last.text or (ending.about and value == last.value):  # of another thing nothing is known
        return None
    return _instead(last, ending, text, value)


def _instead(last: Assertion, ending: Ending, text: str, value: str) -> Assertion:
    return last._replace(
        at=ending.at, event=ending.event, by=USER, same=stems(value), value=value, text=shorten(text, TEXT),
        source=ending.source, who="", denies=False, updates=True, since=None, until=None,
    )  # fmt: skip


def _differ(one: Assertion, other: Assertion) -> bool:
    """Return True if two of equal authority contradict each other and the later one announces no change."""
    if one.updates or one.source.session_id == other.source.session_id:
        return False
    return ASSISTANT in (one.by, other.by) or one.by != other.by or bool(one.who and other.who not in (one.who, ""))


def _excludes(one: Assertion, held: ValueInterval) -> bool:
    """Return True if one claim excludes the other. A denial and a statement exclude each other only for the
    same value."""
    if one.denies or held.last.denies:
        return one.same == held.last.same
    return True
