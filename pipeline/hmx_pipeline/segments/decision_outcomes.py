"""The outcome of each decision in a segment, with the event that shows it.

Input: a segment's steps and outcome, and the decisions in question. Output: for each decision a `Consequence`: True if
it went well, None if unknown; what happened, in words; and the event's id. The strongest evidence wins: feedback that
targets the decision, then steps linked to it by parent or correlation id, then the first outcome before the next
decision on the same question, then the segment's own outcome.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import SegmentOutcome, Step
from hmx_pipeline.segments.action_names import mutates, phrase_of, verb_of
from hmx_pipeline.segments.masking import mask_ids, readable, shorten, telling_line, unlabelled

_HOPS: Final = 8
_TOLD: Final = 120
_WENT: Final = {
    SegmentOutcome.SUCCESS: (True, "the work succeeded"),
    SegmentOutcome.FAILURE: (False, "the work failed"),
    SegmentOutcome.UNKNOWN: (None, ""),
}


class Consequence(NamedTuple):
    ok: bool | None
    told: str
    """What happened, in words; empty if unknown."""
    event_id: str
    """Id of the event that shows it; empty if it is the segment's outcome."""


def consequences(steps: Sequence[Step], until: dict[int, int], outcome: SegmentOutcome) -> dict[int, Consequence]:
    """Return the outcome of each decision in `until`, which maps its index to the index of the next decision on its
    question."""
    owners = _owners(steps)
    linked: dict[int, list[int]] = {at: [] for at in until}
    for place, owner in owners.items():
        if owner in linked and place > owner:
            linked[owner].append(place)
    found = {}
    for at, end in until.items():
        telling = _strongest(steps, at, linked[at])
        if telling is None:
            telling = next((place for place in range(at + 1, end) if _tells(steps, place, at, owners)), None)
        if telling is None:
            ok, told = _WENT[outcome]
            found[at] = Consequence(ok, told, "")
        else:
            found[at] = Consequence(_verdict(steps[telling]), _told(steps[telling]), steps[telling].event_id)
    return found


def _owners(steps: Sequence[Step]) -> dict[int, int]:
    """Map the index of a step to the decision that its links lead back to, over at most eight links."""
    events: dict[str, int] = {}
    calls: dict[str, int] = {}
    bearers = Counter(step.correlation for step in steps if step.role is Role.DECISION and step.correlation)
    shared: dict[str, int] = {}
    reached: dict[int, tuple[int, int]] = {}  # index → (decision, hops)
    for place, step in enumerate(steps):
        if step.role is Role.DECISION:
            reached[place] = (place, 0)
            if bearers[step.correlation] == 1 and step.correlation not in events:
                shared[step.correlation] = place
        else:
            links = [events.get(step.target), events.get(step.parent), events.get(step.correlation)]
            links.append(calls.get(step.call_id) if step.role is Role.RESULT and step.call_id else None)
            links.append(shared.get(step.correlation) if step.correlation else None)
            owned = next((reached[link] for link in links if link is not None and link in reached), None)
            if owned is not None and owned[1] < _HOPS:
                reached[place] = (owned[0], owned[1] + 1)
        events.setdefault(step.event_id, place)
        if step.role is Role.CALL and step.call_id:
            calls[step.call_id] = place
    return {place: owner for place, (owner, _) in reached.items() if place != owner}


def _strongest(steps: Sequence[Step], at: int, linked: Sequence[int]) -> int | None:
    """Return the last of the best kind: feedback on the decision itself, other feedback, a test, any result."""

    def rank(place: int) -> int:
        step = steps[place]
        if step.role is Role.FEEDBACK:
            return 3 if step.target == steps[at].event_id else 2
        return 1 if step.role is Role.TEST else 0

    return max((p for p in linked if _verdict(steps[p]) is not None), key=lambda p: (rank(p), p), default=None)


def _verdict(step: Step) -> bool | None:
    """Return whether the step reports success. A correction counts as failure."""
    if step.role is Role.FEEDBACK:
        return {"positive": True, "negative": False, "correction": False}.get(step.name.lower())
    return False if step.role is Role.ERROR else step.ok


def _tells(steps: Sequence[Step], place: int, at: int, owners: dict[int, int]) -> bool:
    """Return True if the step is an outcome by its position. Steps of another decision or of something earlier are not,
    nor are successful returns and reads."""
    step = steps[place]
    ok = _verdict(step)
    if ok is None or owners.get(place, at) != at:
        return False
    match step.role:
        case Role.FEEDBACK:
            return not step.target or any(s.event_id == step.target for s in steps[at + 1 : place])
        case Role.ACTION:
            return mutates(verb_of(step.role, step.name))
        case Role.RESULT:
            return not ok
    return True


def _told(step: Step) -> str:
    match step.role:
        case Role.FEEDBACK:
            return _words(step.text) or f"{step.name.lower()} feedback"
        case Role.ERROR:
            return ": ".join(_parts(step)) or "an error"
    verb = verb_of(step.role, step.name)
    return f"{phrase_of(verb) or 'it'} {'succeeded' if step.ok else 'failed'}"


def _parts(step: Step) -> Iterator[str]:
    kind, message = step.name.strip(), _words(unlabelled(telling_line(step.text)))
    if kind and kind.lower() not in message.lower():
        yield shorten(kind, 60)
    if message:
        yield message


def _words(text: str) -> str:
    """Mask ids and shorten; texts without ids stay as written."""
    said = " ".join(text.split())
    masked = mask_ids(said)
    return readable(masked, _TOLD) if masked != said else shorten(said, _TOLD)
