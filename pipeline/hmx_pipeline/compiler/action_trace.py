"""course contributions: the action trace of a segment, from which advice to running sessions is drawn.

Input: a segment, its outcome and its actions. Output: one contribution with the goal's stems and up to 128 acts, as
indexes into a table of words; none without a user's message or a named action. All are under one key. So a tenant's
traces are one even sample over all agents, and a new agent profits from the others. No artifact is compiled from it.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import EvidenceKind, Extracted
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment, SegmentOutcome
from hmx_pipeline.contracts.limits import STEP_TEXT
from hmx_pipeline.segments.intent import goal_intent, goal_messages, plain_stems
from hmx_pipeline.segments.pairing import Action

_MESSAGE, _FEEDBACK = Role.MESSAGE, Role.FEEDBACK  # enum lookups are ten times slower
NAME: Final = "course"
KEY: Final = "1"
"""Version of the body's form. Another form needs another key."""
ACTIONS: Final = 128
"""Most actions of a segment; later ones are only counted."""
GOAL_STEMS: Final = 80
FAULTS: Final = 32
ASKED_STEMS: Final = 40
SAID_STEMS: Final = 20
_SAID_TEXT: Final = 240  # characters that contain about that many stems
LEFT: Final = "listed=more"
NONE_LEFT: Final = "listed=none"
_WORDS: Final = 1_024
_WORD: Final = 60  # characters, the longest verb
_REFERENCES: Final = 4_096
"""Most references into the word table. A usual trace has a quarter of them and takes 8 KB."""


def extract(segment: Segment, outcome: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    done = [action for action in actions if action.verb]
    goal = goal_messages(segment.steps)
    if not done or not goal:
        return []
    ends = [done[0].events[0], done[-1].events[-1]]
    verdicts = [step.event_id for step in segment.steps if step.role is _FEEDBACK]
    return [
        Extracted(
            key=KEY,
            source_events=list(dict.fromkeys([*(message.event_id for message in goal), *ends, *verdicts[-1:]])),
            outcome=outcome,
            tags=list(goal_intent(goal).classes),
            body=body_of(segment, actions),
        )
    ]


def body_of(segment: Segment, actions: Sequence[Action]) -> dict[str, Any]:
    """Return the body. All fields refer to `words` by index; -1 means no word. An act is [verb, ok, error class, index
    in `asked` of the user's last message, facts in the result, agent's words before]. A fault is an error without an
    action: [number of acts before it, error class]."""
    words = _WordTable()
    done = [action for action in actions if action.verb]
    asked, newest = _asked(segment, done)
    goal = [stem for message in goal_messages(segment.steps) for stem in _stems(message.text)]
    acts = [
        [
            words.at(action.verb),
            -1 if action.ok is None else int(action.ok),
            words.at(action.failure.type if action.failure is not None else ""),
            user,
            words.all((*action.found, *left)),
            words.all(said_stems(action.before)) if action.before else [],
        ]
        for action, user, left in zip(done[:ACTIONS], newest, _left(done), strict=False)
    ]
    return {
        "goal": words.all(dict.fromkeys(goal[:GOAL_STEMS])),
        "asked": [words.all(stems) for stems in asked],
        "acts": acts,
        "faults": [[at, words.at(kind)] for at, kind in _faults(actions)[:FAULTS]],
        "actions": len(done),
        "words": words.known(),
    }


def _asked(segment: Segment, done: Sequence[Action]) -> tuple[list[list[str]], list[int]]:
    """Return the stems of the user messages before an action, and for each action the index of the newest;
    -1 for none."""
    asked: list[list[str]] = []
    newest: list[int] = []
    at, text = 0, ""
    for action in done[:ACTIONS]:
        for step in segment.steps[at : action.position]:
            if step.role is _MESSAGE and step.actor == "user":
                text = step.text
        at = action.position
        if text:
            asked.append(list(dict.fromkeys(_stems(text)[:ASKED_STEMS])))
            text = ""
        newest.append(len(asked) - 1)
    return asked, newest


def _left(done: Sequence[Action]) -> Iterator[tuple[str, ...]]:
    """Yield, for each action whose arguments name an item listed before, whether more items of that list are left."""
    lists: list[tuple[str, ...]] = []
    seen: set[str] = set()
    for action in done:
        seen.update(action.values)
        own = next((ids for ids in reversed(lists) if any(value in ids for value in action.values)), None)
        yield () if own is None else (LEFT if any(name not in seen for name in own) else NONE_LEFT,)
        if action.listed:
            lists.append(action.listed)


def _stems(text: str) -> list[str]:
    """Return the stems of the part of a text that mining sees, so that readers with more of the text agree."""
    return plain_stems(text[:STEP_TEXT])


def _faults(actions: Sequence[Action]) -> list[tuple[int, str]]:
    """Return errors without an action, up to the last act that is kept."""
    faults: list[tuple[int, str]] = []
    done = 0
    for action in actions:
        if action.verb:
            done += 1
        elif action.failure is not None and done < ACTIONS:
            faults.append((done, action.failure.type))
    return faults


def said_stems(text: str) -> list[str]:
    """Return the last stems of an agent's message, where it says what it does next."""
    end = text[:STEP_TEXT][-_SAID_TEXT:]
    return plain_stems(end if len(end) < _SAID_TEXT else end.partition(" ")[2])[-SAID_STEMS:]


class _WordTable:
    """A word table that stores each word once, so that a trace stays small. At its bound, new words and references are
    dropped."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}
        self._room = _REFERENCES

    def at(self, word: str) -> int:
        word = word[:_WORD]
        if not word or (word not in self._places and len(self._places) >= _WORDS):
            return -1
        return self._places.setdefault(word, len(self._places))

    def all(self, words: Iterable[str]) -> list[int]:
        get = self._places.get
        known = [place for word in words if (place := get(word, -1)) >= 0 or (place := self.at(word)) >= 0]
        del known[self._room :]
        self._room -= len(known)
        return known

    def known(self) -> list[str]:
        return list(self._places)


KIND: Final = EvidenceKind(NAME, extract, None)
