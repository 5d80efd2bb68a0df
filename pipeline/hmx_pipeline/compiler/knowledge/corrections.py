"""Corrections: what users said when they rejected or interrupted an action, by file, command or tool.

Input of `extract`: a segment with feedback that rejects an action. Output: a contribution for each target. Input of
`state`: all contributions on one target. Output: at most eight statements, the latest texts. A segment contributes what
was said about one target. Each distinct text becomes a record of its own, because a later text on the same file is
seldom about the same matter. All records of a target share its number of corrected sessions, their agents and their
goals.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.evidence_kind import Extracted
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, sureness
from hmx_pipeline.compiler.knowledge.pasted import MARK, without_pasted
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import KNOWLEDGE_CORRECTIONS, MB, QUORUM, SEGMENT_STATEMENTS
from hmx_pipeline.contracts.options import Kind
from hmx_pipeline.languages.cues import cue
from hmx_pipeline.segments.intent import plain_words
from hmx_pipeline.segments.masking import shorten
from hmx_pipeline.segments.pairing import Action
from hmx_pipeline.segments.targets import Target, target_of, target_of_action

_FEEDBACK, _MESSAGE = Role.FEEDBACK, Role.MESSAGE  # enum lookups are ten times slower
REJECTS: Final = frozenset(("correction", "negative"))
_TEXT: Final = 200
_CORRECTED: Final = 4
"""Most corrections of one target in a segment, the last ones."""
_GOAL_MESSAGES: Final = 3
_GOAL_WORDS: Final = 80
_GOALS_WORDS: Final = 160
"""Most words of all sessions' goals together, the most frequent ones."""
_AGENTS: Final = 16
_WHO: Final = "user|human|customer|operator|reviewer"
_DONE: Final = "interrupted|rejected|refused|cancell?ed|declined|denied|stopped|aborted"
_QUOTES: Final = re.compile(rf"\bthe (?:{_WHO}) (?:said|says|wrote|added|replied)\s*:\s*", re.IGNORECASE)
_REPORTS: Final = re.compile(
    rf"^\s*\[[^\]]*\]\s*$|\b(?:{_DONE}) by (?:the )?(?:{_WHO})\b"
    rf"|\bthe (?:{_WHO}) (?:(?:does|did)(?:n['’]t| not) |{_DONE})|^\s*the (?:{_WHO}) wants? to\b|^\s*exit code \d",
    re.IGNORECASE,
)
"""A client's report of what the user did, which is no correction."""
_MEASURES: Final = re.compile(r"[=:]\s*[-+]?\d[\d.,]*%?\s*$")
_SENTENCES: Final = re.compile(r"(?<=[.!?])\s+|(?<=[。！？])|\n")
_LETTERS: Final = re.compile(r"[^\W\d_]")
_VERDICT: Final = cue("verdict")
_PROPOSES: Final = cue("proposes")


class _FeedbackGiven(NamedTuple):
    at: int
    event: str
    """The event that contains the words."""
    events: list[str]
    """That event, and the rejections that it explains."""
    text: str


def _extract(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    by_target: dict[str, tuple[Target, dict[str, _FeedbackGiven]]] = {}
    for target, said in _corrections(segment, actions):
        one = by_target.setdefault(target.name, (target, {}))[1]
        known = one.pop(said.event, None)
        one[said.event] = said if known is None else said._replace(events=[*known.events, *said.events])
    goal = _goal(segment.steps) if by_target else []
    return [
        _extracted(target, goal, list(said.values())[-_CORRECTED:])
        for target, said in list(by_target.values())[:SEGMENT_STATEMENTS]
    ]


def _extracted(target: Target, goal: list[str], said: Sequence[_FeedbackGiven]) -> Extracted:
    return Extracted(
        key=target.name,
        source_events=list(dict.fromkeys(event for one in said for event in one.events)),
        body={
            "target": target.name,
            "tool": target.tool,
            "goal": goal,
            "said": [{"at": one.at, "events": list(dict.fromkeys(one.events)), "text": one.text} for one in said],
        },
    )


def _corrections(segment: Segment, actions: Sequence[Action]) -> Iterator[tuple[Target, _FeedbackGiven]]:
    """Yield corrections in order. The words are those of the feedback, else of the user message that follows it."""
    steps, targets, own = segment.steps, _Targets(segment.steps, actions), ("", segment.whose)
    for place, step in enumerate(steps):
        if step.role is not _FEEDBACK or step.subject not in own:
            continue
        target = targets.of(place)
        if target is None or step.name.lower() not in REJECTS:
            continue
        if text := comment_text(step.text):
            yield target, _FeedbackGiven(step.at, step.event_id, [step.event_id], text)
            continue
        follows = next((later for later in steps[place + 1 :] if later.role is not _FEEDBACK), None)
        if follows is not None and follows.subject in own and _by_user(follows) and (text := _telling(follows.text)):
            yield target, _FeedbackGiven(follows.at, follows.event_id, [step.event_id, follows.event_id], text)


class _Targets:
    """Finds the target of feedback: what it names, else the action it refers to, else the last action before it."""

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


@remembered(MB)
def comment_text(comment: str) -> str:
    """Return what a person says in a comment; empty if a client only reports an action or a rating."""
    quoted = _QUOTES.search(comment)
    if quoted is not None:
        return _telling(comment[quoted.end() :])
    return "" if _MEASURES.search(comment) else _telling(comment)


def _telling(told: str) -> str:
    """Return the text to show; empty for a mere verdict, a question, a client's report, or pasted text."""
    text = without_pasted(told).replace(MARK, "")
    said = not _REPORTS.search(text) and any(map(_tells, _SENTENCES.split(text)))
    return shorten(" ".join(text.split()), _TEXT) if said else ""


def _tells(sentence: str) -> bool:
    """Return True if the sentence has a word besides the verdict, and does more than announce what is pasted or ask."""
    if sentence.rstrip().endswith((":", "：")):
        return False
    if sentence.rstrip().endswith(("?", "？")) and _PROPOSES.search(sentence) is None:
        return False
    return _LETTERS.search(_VERDICT.sub("", sentence)) is not None


def _by_user(step: Step) -> bool:
    return step.role is _MESSAGE and step.actor == "user"


def _goal(steps: Iterable[Step]) -> list[str]:
    asked = [step.text for step in steps if _by_user(step)][:_GOAL_MESSAGES]
    return list(dict.fromkeys(word for text in asked for word in plain_words(text)))[:_GOAL_WORDS]


class _FeedbackSource(NamedTuple):
    at: int
    text: str
    events: list[str]
    source: Contribution


def _state(contributions: Sequence[Contribution], _: Sequence[Contribution] = ()) -> list[Statement]:
    """Return one statement for each text; at the bound, the latest."""
    heard: dict[str, list[_FeedbackSource]] = defaultdict(list)
    for c in contributions:
        for one in c.body["said"]:
            heard[one["text"].casefold()].append(_FeedbackSource(one["at"], one["text"], one["events"], c))
    about = {
        "sessions": len({c.session_id for c in contributions}),
        "agents": sorted({c.agent_id for c in contributions})[:_AGENTS],
        "goal": _goals(contributions),
    }
    found = [_statement(name, sorted(said, key=lambda one: one[:3]), about) for name, said in sorted(heard.items())]
    return sorted(found, key=lambda statement: (statement.start, statement.name))[-KNOWLEDGE_CORRECTIONS:]


def _statement(name: str, heard: Sequence[_FeedbackSource], about: Mapping[str, Any]) -> Statement:
    """Make the statement of one text. `about` covers all sessions that corrected the target."""
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
    """Return word → number of segments whose goal contains it."""
    counts = Counter(word for c in contributions for word in c.body["goal"])
    kept = sorted(counts, key=lambda word: (-counts[word], word))[:_GOALS_WORDS]
    return {word: counts[word] for word in sorted(kept)}


def _agreed_goals(said: Sequence[Contribution]) -> list[Contribution]:
    """Of the subjects' goals only the words that enough of them use."""
    by: dict[str, set[str]] = defaultdict(set)
    for c in said:
        for word in c.body["goal"]:
            by[word].add(c.subject)
    shared = {word for word, subjects in by.items() if "" in subjects or len(subjects) >= QUORUM}
    return [c.saying(goal=[word for word in c.body["goal"] if word in shared]) if c.subject else c for c in said]


def _named(said: Mapping[str, Any]) -> str:
    return str(said["text"].casefold())


CORRECTION: Final = KnowledgeKind(
    "correction", _extract, None, _state, items="said", named=_named, agreed_text=_agreed_goals
)
