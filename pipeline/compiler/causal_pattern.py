"""causal_pattern: what leads to what, and when it does not (HMX-A §4.4).

A pattern is all that is known about one subject: a tool, command or test, a decision, a state, an error. Whoever ran
the tool speaks, whatever came of it, so that what went well counts against a cause as much as what failed counts for
it. Two kinds of effect are looked for: how the subject itself goes, after the causes that came within three happenings
before it; and what befalls the agent within three happenings after the subject. An agent's own next action is its
choice, and an action's failure is the action itself: neither is an effect. Nothing fails; without a pair that chance
would not make there is no finding.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.compiler.causes import REACH, Pair, pairs
from pipeline.compiler.confidence import Tally, tally
from pipeline.compiler.exceptions import conditions, counterexamples
from pipeline.compiler.model import ArtifactType, Extracted, Finding, Need
from pipeline.compiler.wording import listed, percent, plural
from pipeline.contracts.artifact import Status
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from pipeline.contracts.pack import Section
from pipeline.segments.happenings import (
    BEFALLS,
    CAUSES,
    DID,
    PASSES,
    Happening,
    cause_words,
    happenings,
)
from pipeline.segments.intent import goal_intent, goal_messages, goal_title, intent_key
from pipeline.segments.masking import sentence, shorten
from pipeline.segments.naming import checks, mutates
from pipeline.segments.pairing import Action

NAME: Final = "causal_pattern"
_SUBJECTS: Final = 16  # of one segment that are kept, the first ones: nothing that depends on how they went
_TIMES: Final = 8
_HELD: Final = 12
_EFFECTS: Final = 12
_SESSIONS: Final = 3
_LEAST_BOUND: Final = 0.2
_TIMES_BASE: Final = 2
_AHEAD: Final = 2
_CHANCE: Final = 0.03
_DRAFT_CHANCE: Final = 0.2
_DRAFT_SESSIONS: Final = 2


def extract(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    course = happenings(segment, actions)
    subjects: dict[str, list[int]] = {}
    for place, one in enumerate(course):
        name = _subject(one)
        if name and (name in subjects or len(subjects) < _SUBJECTS):
            subjects.setdefault(name, []).append(place)
    if len(course) < 2 or not subjects:
        return []
    goal = goal_messages(segment.steps)
    said = goal_intent(goal)
    task = {"task": intent_key(said.classes, goal), "goal": goal_title(goal, 60)}
    struck = [(n, one.plain) for n, one in enumerate(course) if one.kind in BEFALLS]
    links = [(one.sign, link) for one in course for link in one.links]
    return [
        Extracted(
            key=name,
            source_events=_sources(course, places[:_TIMES]),
            outcome=SegmentOutcome.UNKNOWN,
            tags=list(said.classes),
            body={
                **task,
                "times": [_time(course, at, links) for at in places[:_TIMES]],
                **_contrast(len(course), places, struck),
                "held": _held(course[: places[0]]),
            },
        )
        for name, places in subjects.items()
    ]


def _subject(one: Happening) -> str:
    """A tool is one if how it goes tells of the world: it changes something, or looks whether all is well."""
    if one.verb:
        able = mutates(one.verb) or checks(one.verb) or one.kind == PASSES
        return f"{DID}\t{one.verb}" if able else ""
    return one.plain


def _time(course: Sequence[Happening], at: int, links: Sequence[tuple[str, str]]) -> list[Any]:
    """How it went, where that is known; what came before, the nearest first; what came after; what names it."""
    own = course[at]
    return [
        own.sign if own.tried else None,
        [one.sign for one in reversed(course[max(0, at - REACH) : at])],
        [one.sign for one in course[at + 1 : at + 1 + REACH]],
        list(dict.fromkeys(sign for sign, link in links if link in own.events)),
    ]


def _contrast(happened: int, places: Sequence[int], struck: Sequence[tuple[int, str]]) -> dict[str, list[Any]]:
    """Within reach after the subject, and elsewhere: how many happenings, and how often each effect is among them."""
    own = set(places)
    near = {n for at in places for n in range(at + 1, min(at + 1 + REACH, happened))} - own
    among: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for n, effect in struck:
        counts = among[n in near]
        if n not in own and (effect in counts or len(counts) < _EFFECTS):
            counts[effect] = counts.get(effect, 0) + 1
    return {"near": [len(near), among[True]], "rest": [happened - len(near) - len(own), among[False]]}


def _held(before: Sequence[Happening]) -> list[str]:
    """What had been done and had happened, the newest first."""
    return list(dict.fromkeys(one.plain for one in reversed(before) if one.kind in CAUSES))[:_HELD]


def _sources(course: Sequence[Happening], places: Sequence[int]) -> list[str]:
    """Each time with all that is within reach."""
    told = sorted({n for at in places for n in range(max(0, at - REACH), min(at + 1 + REACH, len(course)))})
    return list(dict.fromkeys(course[n].events[0] for n in told))


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    found = pairs(contributions)
    draft: tuple[Pair, dict[str, Any]] | None = None
    for pair in found:
        explicit = pair.linked_sessions >= _SESSIONS
        if not explicit and pair.chance * len(found) > _DRAFT_CHANCE:
            continue
        checked = _checked(pair, len(found), explicit)
        if checked["enough"]:
            return _finding(pair, checked)
        if draft is None and _likely(pair, checked):
            draft = pair, checked
    return _finding(*draft) if draft is not None else None


def _checked(pair: Pair, possible: int, explicit: bool) -> dict[str, Any]:
    """All possible pairs of the subject count against one of them (Bonferroni); what the events themselves name needs
    no statistics."""
    counts = _tally(pair)
    chance = round(min(1.0, pair.chance * possible), 9)
    enough = (
        (explicit or chance <= _CHANCE)
        and pair.sessions >= _SESSIONS
        and counts.bound >= max(_LEAST_BOUND, _TIMES_BASE * pair.base)
        and _likely(pair, {"bound": counts.bound})
    )
    return {
        "followed": sum(hit for _, hit in pair.cases),
        "times": len(pair.cases),
        "sessions": counts.sessions,
        "bound": counts.bound,
        "otherwise": pair.base,
        "by_chance": chance,
        "pairs": possible,
        "named_by_events": explicit,
        "came_first": pair.reverse,
        "rule": f"active: {_SESSIONS} sessions, by chance at most {_CHANCE} of all pairs or named by the events, bound "
        f"{_LEAST_BOUND} and {_TIMES_BASE} times what is seen otherwise, {_AHEAD} times as often after as before",
        "enough": enough,
    }


def needs(contributions: Sequence[Contribution]) -> list[Need]:
    """Of the effect that stands out most."""
    found = pairs(contributions)
    if not found:
        return [Need("effects that follow it", 0, 1)]
    pair = found[0]
    explicit = pair.linked_sessions >= _SESSIONS
    checked = _checked(pair, len(found), explicit)
    return [
        Need("sessions with the effect", pair.sessions, _SESSIONS),
        Need("bound of how often it follows", checked["bound"], max(_LEAST_BOUND, _TIMES_BASE * pair.base)),
        Need(
            "likelihood that chance makes it follow", 0.0 if explicit else checked["by_chance"], _CHANCE, at_most=True
        ),
        Need("times that it followed", checked["followed"], _AHEAD * pair.reverse),
    ]


def _tally(pair: Pair) -> Tally:
    return tally((time.of.session_id, hit) for time, hit in pair.cases)


def _likely(pair: Pair, checked: Mapping[str, Any]) -> bool:
    """More often after the cause, in this order, and nothing else explains it."""
    hits = sum(hit for _, hit in pair.cases)
    return bool(
        checked["bound"] > pair.base
        and pair.sessions >= _DRAFT_SESSIONS
        and (hits >= _AHEAD * pair.reverse or pair.mutual)
        and not pair.explained
    )


def _finding(pair: Pair, checked: Mapping[str, Any]) -> Finding:
    hits, times = checked["followed"], checked["times"]
    counts = _tally(pair)
    summary = (
        f"Followed {hits} of {plural(times, 'time')} ({counts.successes} of {plural(counts.sessions, 'session')}); "
        f"otherwise in {percent(round(100 * checked['otherwise']), 100)}."
    )
    return Finding(
        title=shorten(f"After {cause_words(pair.cause)}, {pair.words}", 120),
        summary=summary,
        content={
            "cause": sentence(cause_words(pair.cause)),
            "effect": sentence(pair.words),
            "direction": "bidirectional" if pair.mutual else "forward",
            "strength": round(hits / times, 4),
            "conditions": conditions(pair),
            "counterexamples": counterexamples(pair),
        },
        confidence=counts.bound,
        status=Status.ACTIVE if checked["enough"] else Status.DRAFT,
        success_rate=None,
        checked=checked,
        rests_on=list({time.of.contribution_id: time.of for time, _ in pair.cases}.values()),
    )


def lines(content: Mapping[str, Any]) -> Iterator[str]:
    """What a pack shows of it."""
    if content.get("cause") and content.get("effect"):
        yield f"{content['cause']} → {content['effect']} ({round(100 * content.get('strength', 0))} %)"
    yield from listed("Only where", content.get("conditions", ()))
    yield from listed("But", content.get("counterexamples", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, "causal", lines, needs)
