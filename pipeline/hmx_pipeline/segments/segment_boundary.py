"""Segmentation: decides whether a session's next step opens a new segment.

Input: the head of the open segment and the next step in released order. Output: the decision, and the new head. The
head is small because it is stored as state: it refers to messages by index, and the caller looks their texts up. Only
clear evidence cuts: an end, half an hour of silence, the size limit, or a different wish once the user was content. A
wrong cut loses a goal's outcome, but a missing one only makes a segment longer.
"""

import re
from collections.abc import Callable
from typing import Final

from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.contracts.limits import SEGMENT_EVENTS, SEGMENT_IDLE_MS
from hmx_pipeline.intake.scan import finder
from hmx_pipeline.segments.head import NOTHING, SegmentHead
from hmx_pipeline.segments.intent import GOAL_TURNS, intent
from hmx_pipeline.segments.lexicon import ENDS

_CONTENT: Final = re.compile(
    r"\b(?:thanks?|that'?s all|that (?:is|will be) all|all set|perfect|great job|well done|works now|(?:good)?bye)\b",
    re.IGNORECASE,
)
_ANSWERS: Final = re.compile(
    r"^\W*(?:yes|yeah|yep|no|nope|ok(?:ay)?|sure|right|correct|exactly|go ahead|go on|please do|continue|proceed"
    r"|keep going|carry on|next|actually|instead|wait|stop|don'?t|not (?:that|what)|that'?s (?:wrong|not)|wrong"
    r"|undo|try again|and|also|but)\b",
    re.IGNORECASE,
)
_CONTINUES: Final = re.compile(r"\b(?:also|as well|too|in addition|while (?:you|we)|instead)\b", re.IGNORECASE)
_ASKS: Final = re.compile(
    r"\?|\b(?:let me know|please (?:confirm|provide|share|reply|tell|specify|choose|select))\b", re.IGNORECASE
)
_SENTENCE: Final = re.compile(r"[^.!?\n]+[.!?\n]?")
_OFFERS: Final = re.compile(r"\b(?:(?:any|some)thing else|further|other (?:questions?|requests?))\b", re.IGNORECASE)
_CLOSING_WORDS: Final = 12
_another: Final = finder(
    r"\b(?i:new|next|another|different|separate|unrelated) (?i:task|topic|request|issue|question|thing)\b", strict=True
)
_MESSAGE, _FEEDBACK, _STATE = Role.MESSAGE, Role.FEEDBACK, Role.STATE  # enum lookups are ten times slower
_OPENERS: Final = ACTS | {Role.DECISION, Role.OBSERVATION, Role.STATE}

Texts = Callable[[int], str]
"""Returns the text of the open segment's step at an index."""


def open_head(step: Step) -> SegmentHead:
    return advance(SegmentHead(last_at=step.at, events=0), step)


def advance(head: SegmentHead, step: Step) -> SegmentHead:
    """Add one step to the head. This runs for every event, so it reads no message texts."""
    goal, said, wish, content, ended = head.goal, head.said, head.wish, head.content, head.ended
    user_messages, role = head.user_messages, step.role
    if role is _MESSAGE:
        if step.actor == "user":
            if user_messages < GOAL_TURNS:
                goal = (*goal, step.index)
            user_messages += 1
            said, wish, content = NOTHING, step.index, False
        elif step.actor == "assistant":
            said = step.index
    elif role in ACTS:
        wish, content = NOTHING, False
    elif role is _FEEDBACK:
        wish, content = NOTHING, step.name.lower() == "positive"
    elif role is _STATE:
        ended = ended or not ENDS.isdisjoint({step.name.lower(), step.text.lower()})
    last_at = max(head.last_at, step.at)
    return SegmentHead(last_at, head.events + 1, user_messages, goal, said, wish, content, ended)


def starts_new(head: SegmentHead, step: Step, text_of: Texts) -> bool:
    """Return True if the step opens a new segment. Results, errors, feedback and system messages open one only if the
    segment is full: they belong to what came before."""
    if head.events >= SEGMENT_EVENTS:
        return True
    role, message = step.role, step.role is _MESSAGE
    user = message and step.actor == "user"
    if not user and role not in _OPENERS and not (message and step.actor == "assistant"):
        return False
    if step.at - head.last_at > SEGMENT_IDLE_MS:
        return True
    if head.ended:
        return user or role in ACTS
    return user and _new_goal(head, step.text, text_of)


def _new_goal(head: SegmentHead, text: str, text_of: Texts) -> bool:
    """Return True if the message is a new goal. Message texts are read only here, where one may begin."""
    if not head.user_messages or _ANSWERS.match(text):
        return False
    another = _another(text)
    if not (another or head.content or (head.wish != NOTHING and _thanks(text_of(head.wish)))):
        return False
    if head.said != NOTHING and _asks(text_of(head.said)):
        return False
    if another:
        return True
    if _CONTINUES.search(text):
        return False
    known = {name for said in head.goal for name in intent(text_of(said)).classes}
    return bool(wanted := set(intent(text).classes)) and wanted.isdisjoint(known)


def _thanks(text: str) -> bool:
    """Return True if a user is content. Thanks inside a longer message are only polite."""
    return len(text.split()) <= _CLOSING_WORDS and _CONTENT.search(text) is not None


def _asks(text: str) -> bool:
    """Return True if the agent's message ends in a question. An offer of further help does not count."""
    if not _ASKS.search(text):
        return False
    kept = "".join(sentence for sentence in _SENTENCE.findall(text) if not _OFFERS.search(sentence))
    return _ASKS.search(kept[-400:]) is not None
