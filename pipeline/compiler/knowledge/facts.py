"""Facts, preferences and goals that messages state, and the policies that users give: what holds, since when, who said
so, and what it has replaced.

A segment says its claims about one (subject, predicate). Of all segments' claims, read in event-time order: what a user
states replaces what was stated before about the same; what assistants state never replaces what a user did, and where
two of them differ, in different sessions and unsettled, both stand beside a conflict.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from pipeline.compiler.knowledge.claims import Claim, claims, policy_claim
from pipeline.compiler.knowledge.model import KnowledgeKind, Statement, sureness
from pipeline.compiler.knowledge.naming import TEAM, USER
from pipeline.compiler.model import Extracted
from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Contribution, Segment, SegmentOutcome, Step
from pipeline.contracts.knowledge import Kind, Memory, Standing
from pipeline.contracts.limits import KNOWLEDGE_VALUES, SEGMENT_STATEMENTS, STEP_TEXT
from pipeline.segments.intent import stem
from pipeline.segments.lexicon import word_set
from pipeline.segments.pairing import Action
from pipeline.segments.speakers import speaker_of

ASSISTANT: Final = "assistant"
EVENT: Final = "event"
_SPEAKERS: Final = (USER, ASSISTANT)
_SIGNS: Final = ("name", "full name", "username", "user ID", "user id", "ID", "email", "email address")
"""What a user gives to say who they are."""
_MISSED: Final = re.compile(r"not ?found|no such|(?:does|did) not exist|unknown|no match", re.IGNORECASE)
_CLAIMS: Final = 8
"""Of one segment about one thing: the last."""
_SURE: Final = {USER: 1.0, EVENT: 1.0, ASSISTANT: 0.5}
_DISPUTED: Final = 0.5
_SMALL: Final = word_set(
    "the a an my our your its his her their to of in on at for and or please you we i is are be do"
)


class _Said(NamedTuple):
    """One claim as a segment made it."""

    at: int
    event: str
    by: str
    same: str
    """What makes two values one."""
    claim: Claim


def _said(segment: Segment, actions: Sequence[Action]) -> list[_Said]:
    """In the order of the segment. A text that was cut is somebody else's more often than not: pasted. What was looked
    up and not found is not as it was said."""
    made = [(step, by, claim) for step in segment.steps for by, read in (_read(step),) for claim in read]
    missed = _not_found(actions) if made else frozenset()
    made = [one for one in made if one[2].value.casefold() not in missed]
    person = _person([claim for _, by, claim in made if by == USER])
    return [
        _Said(step.at, step.event_id, by, _stems(claim.value), _of(person, claim) if person else claim)
        for step, by, claim in made
    ]


def _not_found(actions: Sequence[Action]) -> frozenset[str]:
    """Argument values of failures of that kind."""
    return frozenset(
        value.casefold()
        for action in actions
        if action.failure is not None and _MISSED.search(f"{action.failure.type} {action.failure.message}")
        for value in action.values
    )


def _read(step: Step) -> tuple[str, Iterable[Claim]]:
    """Who states something, and what: a message in plain words, a typed event in its fields."""
    if step.projected is not None:
        return EVENT, (_typed(*said) for said in step.projected.says)
    if step.role is Role.MESSAGE and step.actor in _SPEAKERS and len(step.text) < STEP_TEXT:
        return USER if speaker_of(step.text) else step.actor, claims(step.text, step.actor)
    return "", ()


def _typed(memory: str, subject: str, predicate: str, value: str) -> Claim:
    if memory == Memory.POLICY:
        return policy_claim(subject)
    text = f"{subject} {predicate} {value}"
    return Claim(Memory(memory), subject, predicate, value, False, memory == Memory.GOAL, text)


def _person(made: Sequence[Claim]) -> str:
    """Who the user is, where they say so: what they state of themselves is then not any user's."""
    for sign in _SIGNS:
        for claim in made:
            if claim.subject == f"{USER}'s {sign}" and not claim.denies:
                return claim.value
    return ""


def _of(person: str, claim: Claim) -> Claim:
    if claim.subject != USER and not claim.subject.startswith(f"{USER}'s "):
        return claim
    if claim.value == person:  # who it is, itself; another user is somebody else
        return claim._replace(plural=True, text=f"A {claim.subject.replace('user ID', 'ID')} is {person}")
    return claim._replace(subject=person + claim.subject.removeprefix(USER), text=f"{person}: {claim.text}")


def _extract_facts(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    return _extracted(said for said in _said(segment, actions) if said.claim.memory is not Memory.POLICY)


def _extract_policies(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    return _extracted(said for said in _said(segment, actions) if said.claim.memory is Memory.POLICY)


def _extracted(found: Iterable[_Said]) -> list[Extracted]:
    by_key: dict[str, list[_Said]] = defaultdict(list)
    for said in found:
        by_key[_key(said.claim)].append(said)
    return [_contribution(key, said[-_CLAIMS:]) for key, said in list(by_key.items())[:SEGMENT_STATEMENTS]]


def _contribution(key: str, said: Sequence[_Said]) -> Extracted:
    claim = said[-1].claim
    return Extracted(
        key=key,
        source_events=list(dict.fromkeys(one.event for one in said)),
        outcome=SegmentOutcome.UNKNOWN,
        tags=[],
        body={
            "memory": claim.memory.value,
            "subject": claim.subject,
            "predicate": claim.predicate,
            "claims": [
                {
                    "at": one.at,
                    "event": one.event,
                    "by": one.by,
                    "same": one.same,
                    "value": one.claim.value,
                    "denies": one.claim.denies,
                    "text": one.claim.text,
                }
                for one in said
            ],
        },
    )


def _key(claim: Claim) -> str:
    """What two claims must have in common to be about the same thing; a tenant has one team: its database is `the`."""
    about = [_stems(claim.subject.removeprefix(f"{TEAM}'s ")), _stems(claim.predicate)]
    return " | ".join([*about, _stems(claim.value)] if claim.plural else about)


def _stems(text: str) -> str:
    words = [word.strip(".,:;!?()'\"") for word in text.lower().removesuffix("'s").replace("'s ", " ").split()]
    kept = [stem(word) for word in words if word and word not in _SMALL]
    return " ".join(kept) or text.lower()


class _Heard(NamedTuple):
    """A claim with where it comes from."""

    at: int
    event: str
    by: str
    same: str
    value: str
    denies: bool
    text: str
    source: Contribution


@dataclass(slots=True)
class _Held:
    """A value, or the denial of one, and how it stands."""

    name: str
    """It says which of the two, so that no value has the name of another's denial, nor of the conflict."""
    start: int
    heard: list[_Heard] = field(default_factory=list)
    end: int | None = None
    ended_by: str = ""

    @property
    def weight(self) -> float:
        return max(_SURE[one.by] for one in self.heard)


@dataclass(slots=True)
class _Track:
    """The values of one thing over time."""

    values: dict[str, _Held] = field(default_factory=dict)
    open: dict[str, _Held] = field(default_factory=dict)
    """Those that hold, the longest first; of what nobody settles the newest."""
    disputed: dict[str, int] = field(default_factory=dict)
    """Values that stood against another one, and since when."""
    settled: int = 0

    def hear(self, one: _Heard) -> None:
        name = f"{'not' if one.denies else 'is'} {one.same}"
        rivals = [held for held in self.open.values() if held.name != name and _excludes(one, held)]
        weight = _SURE[one.by]
        if any(weight < rival.weight for rival in rivals):
            return
        for rival in rivals:
            if one.by == ASSISTANT and rival.heard[-1].source.session_id != one.source.session_id:
                self.disputed.setdefault(rival.name, one.at)
                self.disputed.setdefault(name, one.at)
            else:
                self._end(rival, one.at, name)
        held = self.open.get(name)
        if held is None:
            if len(self.open) == KNOWLEDGE_VALUES:
                self._end(next(iter(self.open.values())), one.at, "")
            heard = self.values[name].heard if name in self.values else []
            held = self.values[name] = self.open[name] = _Held(name, one.at, heard)
        held.heard.append(one)
        if self.disputed and sum(other in self.disputed for other in self.open) < 2:
            self.settled = self.settled or one.at

    def _end(self, held: _Held, at: int, by: str) -> None:
        held.end, held.ended_by = at, by
        del self.open[held.name]


def _excludes(one: _Heard, held: _Held) -> bool:
    """Of a thing with one value another value does; of a denial only what it denies, and what denies it."""
    other = held.heard[-1]
    if one.denies or other.denies:
        return one.same == other.same
    return True


def _state(contributions: Sequence[Contribution]) -> list[Statement]:
    heard = [_Heard(**claim, source=c) for c in contributions for claim in c.body["claims"]]
    track = _Track()
    for one in sorted(heard, key=lambda one: (one.at, one.event, one.same, one.denies)):
        track.hear(one)
    newest = sorted(track.values.values(), key=lambda held: (held.end is None, held.end or 0, held.start, held.name))
    kept = newest[-KNOWLEDGE_VALUES:]
    names = {held.name for held in kept}
    found = [_statement(held, track, names) for held in kept]
    if track.disputed:
        found.append(_conflict(track))
    return found


def _statement(held: _Held, track: _Track, names: set[str]) -> Statement:
    last = held.heard[-1]
    about = last.source.body
    memory = Memory(about["memory"])
    disputed = held.name in track.disputed and not track.settled
    body: dict[str, Any] = {
        "memory": memory.value,
        "subject": about["subject"],
        "predicate": about["predicate"],
        "object": last.value,
        "negated": last.denies,
        "said_by": sorted({one.by for one in held.heard}),
        "sessions": len({one.source.session_id for one in held.heard}),
    }
    return Statement(
        name=held.name,
        kind=Kind.POLICY if memory is Memory.POLICY else Kind.MEMORY,
        text=last.text,
        body=body,
        confidence=_confidence(held, disputed=disputed),
        source_events=[one.event for one in held.heard],
        sources=_sources(held.heard),
        start=held.start,
        end=held.end,
        standing=Standing.ACTIVE if held.end is None else Standing.SUPERSEDED,
        superseded_by=held.ended_by if held.ended_by in names else "",
    )


def _confidence(held: _Held, *, disputed: bool) -> float:
    """By who said it and in how many independent sessions."""
    sessions = len({one.source.session_id for one in held.heard})
    sure = held.weight * sureness(sessions)
    return round(sure * (_DISPUTED if disputed else 1), 4)


def _conflict(track: _Track) -> Statement:
    """Of many sides those that were heard last."""
    disputed = sorted((track.values[name] for name in track.disputed), key=lambda side: (side.heard[-1].at, side.name))
    sides = sorted(disputed[-KNOWLEDGE_VALUES:], key=lambda side: side.name)
    heard = sorted((one for side in sides for one in side.heard), key=lambda one: (one.at, one.event, one.same))
    about = heard[-1].source.body
    said = [side.heard[-1] for side in sides]
    return Statement(
        name="conflict",
        kind=Kind.CONFLICT,
        text="; but also: ".join(one.text for one in said),
        body={
            "subject": about["subject"],
            "predicate": about["predicate"],
            "sides": [{"object": one.value, "negated": one.denies, "source_events": [one.event]} for one in said],
        },
        confidence=round(max(side.weight for side in sides), 4),
        source_events=[one.event for one in heard],
        sources=_sources(heard),
        start=min(track.disputed.values()),
        end=track.settled or None,
        standing=Standing.RESOLVED if track.settled else Standing.UNRESOLVED,
    )


def _sources(heard: Iterable[_Heard]) -> list[Contribution]:
    """Each contribution once, in event-time order."""
    return list({one.source.contribution_id: one.source for one in heard}.values())


FACT: Final = KnowledgeKind("fact", _extract_facts, None, _state)
POLICY: Final = KnowledgeKind("policy", _extract_policies, None, _state)
