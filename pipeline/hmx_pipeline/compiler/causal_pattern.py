"""causal_pattern artifacts: what leads to what, and when it does not (HMX-A §4.4).

Input of `extract`: a segment and its actions. Output: a contribution for each of its first 16 subjects. Input of
`compile`: all contributions on one subject. Output: a `Finding`, or None. A pattern collects everything on one subject:
a tool, command or test, a decision, a state, an error. Every session that ran the tool contributes, whatever came of
it, so successes count against a cause as much as failures count for it. Two kinds of effects are tested: whether the
subject succeeds, given what happened up to three happenings before it; and what happens to the agent within three
happenings after it. An agent's own next action is its choice, and a failure of the action is the action itself, so
neither is an effect. Without a significant pair there is no finding.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hmx_pipeline.compiler.artifact_text import listed, percent, plural
from hmx_pipeline.compiler.cause_conditions import conditions, counterexamples
from hmx_pipeline.compiler.causes import REACH, CausePair, pairs
from hmx_pipeline.compiler.confidence import Tally, tally
from hmx_pipeline.compiler.evidence_kind import ArtifactType, Extracted, Finding, Need
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome
from hmx_pipeline.contracts.options import Section, Status
from hmx_pipeline.segments import event_text
from hmx_pipeline.segments.action_names import checks, mutates
from hmx_pipeline.segments.intent import goal_intent, goal_messages, goal_title, intent_key
from hmx_pipeline.segments.masking import sentence, shorten
from hmx_pipeline.segments.pairing import Action

NAME: Final = "causal_pattern"
_SUBJECTS: Final = 16  # subjects kept of a segment: the first, so that the choice does not depend on how they went
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
    course = event_text.happenings(segment, actions)
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
    struck = [(n, one.plain) for n, one in enumerate(course) if one.kind in event_text.BEFALLS]
    links = [(one.sign, link) for one in course for link in one.links]
    return [
        Extracted(
            key=name,
            source_events=_sources(course, places[:_TIMES]),
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


def _subject(one: event_text.EventText) -> str:
    """Return the subject. A tool is one if its result says something of the world: it changes or checks something."""
    if one.verb:
        able = mutates(one.verb) or checks(one.verb) or one.kind == event_text.PASSES
        return f"{event_text.DID}\t{one.verb}" if able else ""
    return one.plain


def _time(course: Sequence[event_text.EventText], at: int, links: Sequence[tuple[str, str]]) -> list[Any]:
    """Return the result if known, the signs before (nearest first), the signs after, and the signs that name it."""
    own = course[at]
    return [
        own.sign if own.tried else None,
        [one.sign for one in reversed(course[max(0, at - REACH) : at])],
        [one.sign for one in course[at + 1 : at + 1 + REACH]],
        list(dict.fromkeys(sign for sign, link in links if link in own.events)),
    ]


def _contrast(happened: int, places: Sequence[int], struck: Sequence[tuple[int, str]]) -> dict[str, list[Any]]:
    """Count happenings within reach after the subject and elsewhere, and each effect among them."""
    own = set(places)
    near = {n for at in places for n in range(at + 1, min(at + 1 + REACH, happened))} - own
    among: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for n, effect in struck:
        counts = among[n in near]
        if n not in own and (effect in counts or len(counts) < _EFFECTS):
            counts[effect] = counts.get(effect, 0) + 1
    return {"near": [len(near), among[True]], "rest": [happened - len(near) - len(own), among[False]]}


def _held(before: Sequence[event_text.EventText]) -> list[str]:
    """Return what had happened before, newest first."""
    return list(dict.fromkeys(one.plain for one in reversed(before) if one.kind in event_text.CAUSES))[:_HELD]


def _sources(course: Sequence[event_text.EventText], places: Sequence[int]) -> list[str]:
    """Return the events within reach of each occurrence."""
    told = sorted({n for at in places for n in range(max(0, at - REACH), min(at + 1 + REACH, len(course)))})
    return list(dict.fromkeys(course[n].events[0] for n in told))


def compile_(contributions: Sequence[Contribution]) -> Finding | None:
    found = pairs(contributions)
    draft: tuple[CausePair, dict[str, Any]] | None = None
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


def _checked(pair: CausePair, possible: int, explicit: bool) -> dict[str, Any]:
    """Validate a pair. Its p-value is multiplied by the number of possible pairs (Bonferroni). Pairs that the events
    themselves link need no statistics."""
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
    """Return the needs of the most significant effect."""
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


def _tally(pair: CausePair) -> Tally:
    return tally((time.of.session_id, hit) for time, hit in pair.cases)


def _likely(pair: CausePair, checked: Mapping[str, Any]) -> bool:
    """Return True if the effect comes more often after the cause, in this order, and nothing else explains it."""
    hits = sum(hit for _, hit in pair.cases)
    return bool(
        checked["bound"] > pair.base
        and pair.sessions >= _DRAFT_SESSIONS
        and (hits >= _AHEAD * pair.reverse or pair.mutual)
        and not pair.explained
    )


def _finding(pair: CausePair, checked: Mapping[str, Any]) -> Finding:
    hits, times = checked["followed"], checked["times"]
    counts = _tally(pair)
    summary = (
        f"Followed {hits} of {plural(times, 'time')} ({counts.successes} of {plural(counts.sessions, 'session')}); "
        f"otherwise in {percent(round(100 * checked['otherwise']), 100)}."
    )
    return Finding(
        title=shorten(f"After {event_text.cause_words(pair.cause)}, {pair.words}", 120),
        summary=summary,
        content={
            "cause": sentence(event_text.cause_words(pair.cause)),
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
    if content.get("cause") and content.get("effect"):
        yield f"{content['cause']} → {content['effect']} ({round(100 * content.get('strength', 0))} %)"
    yield from listed("Only where", content.get("conditions", ()))
    yield from listed("But", content.get("counterexamples", ()))


TYPE: Final = ArtifactType(NAME, extract, compile_, Section.PROCEDURES, "causal", lines, needs)
