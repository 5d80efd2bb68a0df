"""Corrections: what users said when they rejected or interrupted what an agent did, by the file, the command or the
tool that it was about.

A segment says of one target what was said of it. Of all segments together each text is known by itself, with when it
was said last: what is said later of the same file is seldom about the same thing. Of the target it is known in how many
sessions it was corrected, whose agents were, and what these sessions were for. Nothing fails.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from pipeline.compiler.knowledge.model import KnowledgeKind, Statement, sureness
from pipeline.compiler.model import Extracted
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from pipeline.contracts.knowledge import Kind, Memory
from pipeline.contracts.limits import KNOWLEDGE_CORRECTIONS, SEGMENT_STATEMENTS
from pipeline.languages.cues import cue
from pipeline.segments.intent import plain_words
from pipeline.segments.masking import shorten
from pipeline.segments.pairing import Action
from pipeline.segments.targets import Target, target_of, target_of_action

_REJECTS: Final = frozenset(("correction", "negative"))
_TEXT: Final = 200
_CORRECTED: Final = 4
"""Of one segment about one target: the last."""
_GOAL_MESSAGES: Final = 3
_GOAL_WORDS: Final = 80
_GOALS_WORDS: Final = 160
"""Of all sessions' goals: what most of them say."""
_AGENTS: Final = 16
_WHO: Final = "user|human|customer|operator|reviewer"
_DONE: Final = "interrupted|rejected|cancell?ed|declined|denied|stopped|aborted"
_QUOTES: Final = re.compile(rf"\bthe (?:{_WHO}) (?:said|says|wrote|added|replied)\s*:\s*", re.IGNORECASE)
_REPORTS: Final = re.compile(
    rf"^\s*\[[^\]]*\]\s*$|\b(?:{_DONE}) by (?:the )?(?:{_WHO})\b"
    rf"|\bthe (?:{_WHO}) (?:(?:does|did)(?:n['’]t| not) |{_DONE})|^\s*the (?:{_WHO}) wants? to\b|^\s*exit code \d",
    re.IGNORECASE,
)
"""A client tells what the user did; that is nobody's correction."""
_MEASURES: Final = re.compile(r"[=:]\s*[-+]?\d[\d.,]*%?\s*$")
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_LETTERS: Final = re.compile(r"[^\W\d_]")
_VERDICT: Final = cue("verdict")
_PROPOSES: Final = cue("proposes")


class _Said(NamedTuple):
    at: int
    event: str
    """The event whose words they are."""
    events: list[str]
    """That event, and the rejections that it explains."""
    text: str


def _extract(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    by_target: dict[str, tuple[Target, dict[str, _Said]]] = {}
    for target, said in _corrections(segment, actions):
        one = by_target.setdefault(target.name, (target, {}))[1]
        known = one.pop(said.event, None)
        one[said.event] = said if known is None else said._replace(events=[*known.events, *said.events])
    goal = _goal(segment.steps) if by_target else []
    return [
        _extracted(target, goal, list(said.values())[-_CORRECTED:])
        for target, said in list(by_target.values())[:SEGMENT_STATEMENTS]
    ]


def _extracted(target: Target, goal: list[str], said: Sequence[_Said]) -> Extracted:
    return Extracted(
        key=target.name,
        source_events=list(dict.fromkeys(event for one in said for event in one.events)),
        outcome=SegmentOutcome.UNKNOWN,
        tags=[],
        body={
            "target": target.name,
            "tool": target.tool,
            "goal": goal,
            "said": [{"at": one.at, "events": list(dict.fromkeys(one.events)), "text": one.text} for one in said],
        },
    )


def _corrections(segment: Segment, actions: Sequence[Action]) -> Iterator[tuple[Target, _Said]]:
    """In order. The words are the feedback's own, else those of the user's message that follows it."""
    steps, targets = segment.steps, _Targets(segment.steps, actions)
    for place, step in enumerate(steps):
        if step.role is not Role.FEEDBACK:
            continue
        target = targets.of(place)
        if target is None or step.name.lower() not in _REJECTS:
            continue
        if text := _own_words(step.text):
            yield target, _Said(step.at, step.event_id, [step.event_id], text)
            continue
        follows = next((later for later in steps[place + 1 :] if later.role is not Role.FEEDBACK), None)
        if follows is not None and _by_user(follows) and (text := _telling(follows.text)):
            yield target, _Said(follows.at, follows.event_id, [step.event_id, follows.event_id], text)


class _Targets:
    """What feedback is about: what it names itself, else the action that it targets, else the last one before it."""

    def __init__(self, steps: Sequence[Step], actions: Sequence[Action]) -> None:
        self._steps = steps
        self._acted = [action for action in actions if action.verb]
        self._by_event = {event: action for action in self._acted for event in action.events}
        self._found: dict[str, Target | None] = {}

    def of(self, place: int) -> Target | None:
        step = self._steps[place]
        target = self._named(step) or self._found.get(step.target) or self._acted_on(place, step.target)
        self._found[step.event_id] = target
        return target

    def _named(self, step: Step) -> Target | None:
        return target_of(step.values[0], step.values[1:]) if step.values else None

    def _acted_on(self, place: int, event: str) -> Target | None:
        before = (action for action in reversed(self._acted) if action.position < place)
        action = self._by_event.get(event) or next(before, None)
        return None if action is None else target_of_action(self._steps[action.position])


def _own_words(comment: str) -> str:
    """What a person says in a comment; empty where a client only tells what was done, or how it was rated."""
    quoted = _QUOTES.search(comment)
    if quoted is not None:
        return _telling(comment[quoted.end() :])
    return "" if _MEASURES.search(comment) else _telling(comment)


def _telling(text: str) -> str:
    """As it is shown; empty if it is but a verdict, a question, or what a client reports."""
    said = not _REPORTS.search(text) and any(map(_tells, _SENTENCES.split(text)))
    return shorten(" ".join(text.split()), _TEXT) if said else ""


def _tells(sentence: str) -> bool:
    """Is there a word in it that is no part of a verdict, and does it, if it asks, propose something?"""
    if sentence.rstrip().endswith(("?", "？")) and _PROPOSES.search(sentence) is None:
        return False
    return _LETTERS.search(_VERDICT.sub("", sentence)) is not None


def _by_user(step: Step) -> bool:
    return step.role is Role.MESSAGE and step.actor == "user"


def _goal(steps: Iterable[Step]) -> list[str]:
    asked = [step.text for step in steps if _by_user(step)][:_GOAL_MESSAGES]
    return list(dict.fromkeys(word for text in asked for word in plain_words(text)))[:_GOAL_WORDS]


class _Heard(NamedTuple):
    at: int
    text: str
    events: list[str]
    source: Contribution


def _state(contributions: Sequence[Contribution], _: Sequence[Contribution] = ()) -> list[Statement]:
    """One for each text; of many those that were said last."""
    heard: dict[str, list[_Heard]] = defaultdict(list)
    for c in contributions:
        for one in c.body["said"]:
            heard[one["text"].casefold()].append(_Heard(one["at"], one["text"], one["events"], c))
    about = {
        "sessions": len({c.session_id for c in contributions}),
        "agents": sorted({c.agent_id for c in contributions})[:_AGENTS],
        "goal": _goals(contributions),
    }
    found = [_statement(name, sorted(said, key=lambda one: one[:3]), about) for name, said in sorted(heard.items())]
    return sorted(found, key=lambda statement: (statement.start, statement.name))[-KNOWLEDGE_CORRECTIONS:]


def _statement(name: str, heard: Sequence[_Heard], about: Mapping[str, Any]) -> Statement:
    """Of one text. `about` tells of all sessions that have corrected the target, whatever was said there."""
    last = heard[-1]
    target, tool = last.source.body["target"], last.source.body["tool"]
    sources = list({one.source.contribution_id: one.source for one in heard}.values())
    return Statement(
        name=name,
        kind=Kind.MEMORY,
        text=f"user on {target}: {last.text}",
        body={"memory": Memory.CORRECTION.value, "target": target, "tool": tool, "said": last.text, **about},
        confidence=round(sureness(len({c.session_id for c in sources})), 4),
        source_events=[event for one in heard for event in one.events],
        sources=sources,
        start=last.at,
    )


def _goals(contributions: Iterable[Contribution]) -> dict[str, int]:
    """Word → in how many segments' goals it stands."""
    counts = Counter(word for c in contributions for word in c.body["goal"])
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:_GOALS_WORDS]
    return {word: counts[word] for word in sorted(kept)}


CORRECTION: Final = KnowledgeKind("correction", _extract, None, _state)
