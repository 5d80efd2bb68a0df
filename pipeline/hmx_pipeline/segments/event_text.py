"""Event texts of a segment, for cause mining: actions, decisions, state changes and failures, in order.

Input: a segment and its actions. Output: one `EventText` for each action, decision, state change or failure. Its sign
is the same in every segment where the same thing happened. A sign is a kind and words, separated by tabs: `did edit`,
`decided question option`, `state open`, `error type message tool`, `fails pytest`, `passes pytest`. A successful read
has an empty sign.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment, Step
from hmx_pipeline.segments.action_names import mutates, phrase_of, silent
from hmx_pipeline.segments.intent import option_key, question_key
from hmx_pipeline.segments.lexicon import ENDS
from hmx_pipeline.segments.masking import mask, readable
from hmx_pipeline.segments.pairing import Action

_STATE, _DECISION, _TEST = Role.STATE, Role.DECISION, Role.TEST  # enum lookups are ten times slower
_WORDS: Final = 80
DID, DECIDED, STATE, ERROR, FAILS, PASSES = "did", "decided", "state", "error", "fails", "passes"
CAUSES: Final = frozenset({DID, DECIDED, STATE, ERROR, FAILS})
BEFALLS: Final = frozenset({STATE, ERROR, FAILS})
"""Kinds that can be effects. An agent's own next action is its choice, so it is not one."""


class EventText(NamedTuple):
    verb: str
    """Verb of the action; empty if it is none."""
    sign: str
    kind: str
    plain: str
    """The sign. An error's sign names the action that failed; this does not."""
    tried: bool
    """True if it is known how the action went."""
    events: Sequence[str]
    links: Sequence[str]
    """Ids of the events that it names as its origin."""


def happenings(segment: Segment, actions: Sequence[Action]) -> list[EventText]:
    placed = [(action.position, _acted(action)) for action in actions if not silent(action.verb)]
    for place, step in enumerate(segment.steps):
        if step.role is _STATE or step.role is _DECISION:
            sign = _changed(step) if step.role is _STATE else _decided(step)
            if sign:
                links = [link for link in (step.parent, step.correlation) if link]
                placed.append((place, EventText("", sign, kind_of(sign), sign, False, (step.event_id,), links)))
    return [happening for _, happening in sorted(placed, key=lambda found: found[0])]


def _acted(action: Action) -> EventText:
    sign = _sign(action)
    return EventText(action.verb, sign, kind_of(sign), plain(sign), action.ok is not None, action.events, ())


def _sign(action: Action) -> str:
    test = action.role is _TEST
    if action.ok is False:
        failure = action.failure
        if test or failure is None or not (failure.type or failure.message):
            return _joined(FAILS, action.verb)
        return _joined(
            ERROR, *(mask(text, action.values)[:_WORDS] for text in (failure.type, failure.message)), action.verb
        )
    if test:
        return _joined(PASSES, action.verb) if action.ok else ""
    return _joined(DID, action.verb) if action.verb and mutates(action.verb) else ""


def _changed(step: Step) -> str:
    """Return the sign of a state change; empty if it only says that the work is over."""
    name, text = (" ".join(part.split()) for part in (step.name, step.text))
    if not (name or text) or not ENDS.isdisjoint({name.lower(), text.lower()}):
        return ""
    return _joined(STATE, mask(text if name.lower() in ("", text.lower()) else f"{name} = {text}")[:_WORDS])


def _decided(step: Step) -> str:
    question, option = question_key(step.name), option_key(step.text)
    return _joined(DECIDED, question, option) if question and option else ""


def _joined(*parts: str) -> str:
    return "\t".join(" ".join(part.split()) for part in parts)


def kind_of(sign: str) -> str:
    return sign.split("\t", 1)[0]


def plain(sign: str) -> str:
    """Return an error's sign without the action that failed; other signs stay."""
    return "\t".join(sign.split("\t")[:3]) if sign.startswith(f"{ERROR}\t") else sign


def verb_in(sign: str) -> str:
    """Return the verb in a sign; empty if there is none."""
    kind, *words = sign.split("\t")
    if kind in (DID, FAILS, PASSES):
        return words[0]
    return words[2] if kind == ERROR and len(words) > 2 else ""


def cause_words(sign: str) -> str:
    """Return the words that follow "after"."""
    kind, *words = sign.split("\t")
    match kind:
        case "decided":
            return f"the decision for {words[1]}"
        case "state":
            return f"state {readable(words[0])}".strip()
        case "did":
            return phrase_of(words[0])
    return effect_words(sign)


def effect_words(sign: str) -> str:
    """Return a clause, such as `deploy fails: no such key` or `state becomes open`."""
    kind, *words = sign.split("\t")
    match kind:
        case "state":
            return f"state becomes {readable(words[0])}".strip()
        case "error":
            told = [readable(words[0], 60).replace("_", " "), readable(words[1])]
            told = [part for part in told if part]
            if len(told) > 1 and told[0].lower() in told[1].lower():
                del told[0]
            what = ": ".join(told) or "an error"
            return f"{phrase_of(words[2])} fails: {what}" if len(words) > 2 and words[2] else what
        case "fails" | "passes":
            return f"{phrase_of(words[0]) or 'something'} {kind}"
    return phrase_of(words[0])
