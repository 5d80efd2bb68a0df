"""Cause-effect pairs of one subject, both ways: what came before how it went, and what happened after it.

Each has one contingency table per task; the best supported come first.

Input: contributions of a causal pattern. Output: every pair whose two sides occurred in two sessions, which is
everything that could have been found. How the subject went is compared between its tries with and without the cause.
What happened to the agent afterwards is compared between happenings within reach of the subject and elsewhere in the
same segments.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from hmx_pipeline.compiler.association import ContingencyTable, g_squared, mantel_haenszel, pooled, tail
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.segments.action_names import mutates
from hmx_pipeline.segments.event_text import BEFALLS, CAUSES, PASSES, effect_words, kind_of, plain, verb_in

REACH: Final = 3
_SESSIONS: Final = 2
_MOSTLY: Final = 0.8


class Occurrence(NamedTuple):
    """One occurrence of the subject. Signs are plain."""

    of: Contribution
    result: str | None
    """Sign of the result; None if unknown or a retry after a failure; empty if it went well."""
    causes: Mapping[str, int]
    """Possible cause before it → distance."""
    before: Sequence[str]
    """All signs before, nearest first."""
    after: Sequence[str]
    effects: Mapping[str, str]
    """What happened to the agent afterwards → the verb that failed."""
    linked: Sequence[str]
    """State changes whose events name the subject's."""


@dataclass
class CausePair:
    cause: str
    effect: str
    verb: str
    """Verb of the subject if the effect is how it went; else empty."""
    strata: Sequence[ContingencyTable]
    """One table per task."""
    times: Sequence[Occurrence]
    """All occurrences that count; if the effect is how the subject went, those after the cause."""
    distance: int = 0
    """Sum of distances from cause to effect; 0 if the effect is not how the subject went."""
    linked_sessions: int = 0
    """Sessions in which the effect's events name the subject's. Only state changes do."""
    reverse: int = 0
    """How often the effect came before the cause."""

    @cached_property
    def table(self) -> ContingencyTable:
        return pooled(self.strata)

    @cached_property
    def statistic(self) -> float:
        """The smaller of the pooled and the stratified statistic; 0 if the effect is rarer after the cause."""
        table = self.table
        if not table.shown or not table.others or table.hit * table.others <= table.other_hit * table.shown:
            return 0.0
        return min(g_squared(table), mantel_haenszel(self.strata))

    @property
    def chance(self) -> float:
        return tail(self.statistic)

    @property
    def base(self) -> float:
        """How often the effect occurs without the cause, over as many happenings."""
        table = self.table
        rate = table.other_hit / table.others if table.others else 0.0
        return round(rate if self.verb else 1 - (1 - rate) ** REACH, 4)

    @cached_property
    def cases(self) -> list[tuple[Occurrence, bool]]:
        """The occurrences of the cause, and whether the effect followed."""
        if self.verb:
            return [(time, time.result == self.effect) for time in self.times]
        return [(time, self.effect in time.effects) for time in self.times if time.after or time.linked]

    @property
    def sessions(self) -> int:
        return len({time.of.session_id for time, hit in self.cases if hit})

    @property
    def mutual(self) -> bool:
        """True if both occur on their own, and neither clearly comes first."""
        hits = self.table.hit
        return kind_of(self.cause) in BEFALLS and not self.verb and 2 * self.reverse > hits > self.reverse / 2

    @property
    def words(self) -> str:
        struck = self.verb and kind_of(self.effect) == "error"
        return effect_words(f"{self.effect}\t{self.verb}" if struck else self.effect)

    @cached_property
    def explained(self) -> bool:
        """True if another cause explains the effect. Never true if the events themselves say what led to what."""
        return not (self.verb or self.linked_sessions) and _explained(
            self.effect, [time for time in self.times if time.after]
        )


def pairs(contributions: Sequence[Contribution]) -> list[CausePair]:
    if len({c.session_id for c in contributions}) < _SESSIONS:
        return []
    subject = contributions[0].pattern_key
    times = [time for c in contributions for time in _times(c, subject, verb_in(subject))]
    found = [*_befallen(subject, times), *_following(subject, times, contributions)]
    weighed = [(-pair.statistic, pair.distance, pair.cause, pair.effect, n) for n, pair in enumerate(found)]
    return [found[n] for *_, n in sorted(weighed)]


def _times(c: Contribution, subject: str, verb: str) -> Iterator[Occurrence]:
    again = False
    for result, before, after, linked in c.body["times"]:
        earlier, later = [plain(sign) for sign in before], [plain(sign) for sign in after]
        struck = {plain(sign): verb_in(sign) for sign in after if kind_of(sign) in BEFALLS}
        states = [sign for sign in linked if kind_of(sign) == "state"]
        own = {sign: other for sign, other in struck.items() if sign != subject and not (verb and other == verb)}
        own |= dict.fromkeys(states, "")
        first = None if result is None or (verb and again) else plain(result)
        yield Occurrence(c, first, _causes(before, verb), earlier, later, own, states)
        again = kind_of(result or "") in ("error", "fails")


def _causes(signs: Sequence[str], verb: str) -> dict[str, int]:
    """Return sign → distance, without signs of the subject's own verb, and errors without a message, which can mean
    anything."""
    near: dict[str, int] = {}
    for distance, sign in enumerate(signs, 1):
        says = kind_of(sign) in CAUSES and not (kind_of(sign) == "error" and not sign.split("\t")[2])
        if says and not (verb and verb_in(sign) == verb):
            near.setdefault(plain(sign), distance)
    return near


def _repeated(seen: Iterable[tuple[str, str]]) -> list[str]:
    """Return what occurs in more than one session, from pairs of (what, session)."""
    sessions: dict[str, set[str]] = defaultdict(set)
    for what, session in seen:
        sessions[what].add(session)
    return sorted(what for what, own in sessions.items() if len(own) >= _SESSIONS)


def _befallen(subject: str, times: Sequence[Occurrence]) -> Iterator[CausePair]:
    """Yield pairs whose effect is how the subject went. That it did its work is no effect, nor that it passes after
    something has failed: that was mended."""
    verb = verb_in(subject)
    tried = [time for time in times if time.result is not None] if verb else []
    results = _repeated((t.result, t.of.session_id) for t in tried if t.result and kind_of(t.result) != "did")
    if not results:
        return
    every = Counter(time.of.body["task"] for time in tried)
    came = Counter((time.result, time.of.body["task"]) for time in tried)
    after = Counter((cause, time.of.body["task"]) for time in tried for cause in time.causes)
    both = Counter((cause, time.result, time.of.body["task"]) for time in tried for cause in time.causes)
    ever = Counter(time.result for time in tried)
    turned = Counter((cause, time.result) for time in tried for cause in dict.fromkeys(time.after))
    shown: dict[str, list[Occurrence]] = defaultdict(list)
    far: Counter[tuple[str, str | None]] = Counter()
    for time in tried:
        for cause, distance in time.causes.items():
            shown[cause].append(time)
            far[cause, time.result] += distance
    tasks: dict[str, list[str]] = defaultdict(list)
    for cause, task in sorted(after):
        tasks[cause].append(task)
    for cause in _repeated((cause, time.of.session_id) for time in tried for cause in time.causes):
        for effect in results:
            if effect != cause and not (kind_of(effect) == PASSES and kind_of(cause) in ("error", "fails")):
                strata = [
                    _table(both[cause, effect, task], after[cause, task], came[effect, task], every[task])
                    for task in tasks[cause]
                ]
                tables = [*strata, _rest(strata, ever[effect], len(tried))]
                how = far[cause, effect], 0, turned[cause, effect]
                yield CausePair(cause, effect, verb, tables, shown[cause], *how)


def _table(hit: int, shown: int, hits: int, times: int) -> ContingencyTable:
    """Make a table from marginal counts: of `times`, the effect came in `hits` and the cause in `shown`."""
    return ContingencyTable(hit, shown - hit, hits - hit, times - shown - hits + hit)


def _rest(strata: Sequence[ContingencyTable], hits: int, times: int) -> ContingencyTable:
    """Pool all tasks without the cause. They have nothing to compare, so they only add to how often the effect occurs;
    one table each would make every pair cost as much as there are tasks."""
    known = pooled(strata)
    return _table(0, 0, hits - known.hit - known.other_hit, times - sum(known))


def _following(subject: str, times: Sequence[Occurrence], contributions: Sequence[Contribution]) -> Iterator[CausePair]:
    """Yield pairs whose effect happens to the agent after the subject. Tools that failed or only read are left out."""
    verb = verb_in(subject)
    if verb:
        times = [time for time in times if mutates(verb) and time.result in (None, subject)]
    effects = _repeated((effect, time.of.session_id) for time in times for effect in time.effects)
    if not effects:
        return
    struck: dict[str, Counter[str]] = defaultdict(Counter)
    for time in times:
        for effect, other in time.effects.items():
            struck[effect][other] += 1
    happened, came = _counted(contributions)
    every = [sum(column) for column in zip(*happened.values(), strict=True)]
    named = dict.fromkeys((effect, time.of.session_id) for time in times for effect in time.linked)
    linked = Counter(effect for effect, _ in named)
    earlier = Counter(sign for time in times for sign in dict.fromkeys(time.before))
    for effect in effects:
        others = struck[effect]
        if kind_of(effect) != "state" and max(others.values()) >= _MOSTLY * others.total():
            continue  # it belongs to one tool, whose own pattern also knows when it did not occur
        strata = [
            _table(hit, happened[task][0], hit + other_hit, sum(happened[task]))
            for task, (hit, other_hit) in sorted(came[effect].items())
        ]
        known = pooled(strata)
        never = ContingencyTable(0, every[0] - known.shown, 0, every[1] - known.others)
        yield CausePair(subject, effect, "", [*strata, never], times, 0, linked[effect], earlier[effect])


def _counted(
    contributions: Sequence[Contribution],
) -> tuple[dict[str, list[int]], dict[str, dict[str, list[int]]]]:
    """Count by task: happenings within reach of the subject and elsewhere; and how many of them are each effect."""
    happened: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    came: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(lambda: [0, 0]))
    for c in contributions:
        task = c.body["task"]
        for column, (n, seen) in enumerate((c.body["near"], c.body["rest"])):
            happened[task][column] += n
            for effect, times in seen.items():
                came[effect][task][column] += times
    return happened, came


def _explained(effect: str, times: Sequence[Occurrence]) -> bool:
    """Return True if another cause is near nearly every hit and the effect does not occur without it, or if it always
    comes between the two."""
    hits = [time for time in times if effect in time.after]
    if not hits:
        return False
    between = [set(_causes(time.after[: time.after.index(effect)], "")) for time in hits]
    near = [own | set(time.causes) for time, own in zip(hits, between, strict=True)]
    rest = [set(_causes(time.after, "")) | set(time.causes) for time in times if effect not in time.after]
    for rival in sorted({sign for own in near for sign in own} - {effect}):
        with_rival = sum(rival in own for own in near)
        if with_rival < _MOSTLY * len(hits):
            continue
        alone = len(hits) - with_rival
        without = alone + sum(rival not in own for own in rest)
        if without and alone / without <= len(hits) / len(times) / 2:
            return True
        if not without and sum(rival in own for own in between) >= _MOSTLY * len(hits):
            return True
    return False
