"""Facts, preferences, goals and policies: extraction from messages and typed events, and their values over time.

Input of `extract`: a segment and its actions. Output: claims by (subject, predicate), and endings by what they end.
Input of `state`: both, for one thing. Output: statements, and a conflict while values are in dispute. Both are compiled
together in event-time order (`compiler/knowledge/fact_timeline`).
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from hmx_pipeline.compiler.evidence_kind import EvidenceKind, Extracted, nothing
from hmx_pipeline.compiler.knowledge import passing
from hmx_pipeline.compiler.knowledge.asserted import asserted, asserts
from hmx_pipeline.compiler.knowledge.authority import ASSISTANT, EVENT, QUOTED
from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.knowledge.claims import claims, plain_text, policy_claim, speaker
from hmx_pipeline.compiler.knowledge.corrections import REJECTS, comment_text
from hmx_pipeline.compiler.knowledge.endings import ENDING, beside, of_claim, of_message, reached_by
from hmx_pipeline.compiler.knowledge.english import Claim
from hmx_pipeline.compiler.knowledge.fact_timeline import Assertion, FactTimeline, ValueInterval, track_of, value_name
from hmx_pipeline.compiler.knowledge.knowledge_kind import KnowledgeKind, Statement, sureness
from hmx_pipeline.compiler.knowledge.normal_forms import stems, thing, words_of
from hmx_pipeline.compiler.knowledge.scopes import is_typed
from hmx_pipeline.compiler.knowledge.tellers import first_of_each, last_of_each
from hmx_pipeline.compiler.knowledge.validity import validity
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import ASSERTED, Contribution, Segment, SegmentOutcome, Step
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import KNOWLEDGE_TOUCHES, KNOWLEDGE_VALUES, QUORUM, SEGMENT_STATEMENTS, STEP_TEXT
from hmx_pipeline.contracts.options import Kind, Standing
from hmx_pipeline.languages.cues import cue
from hmx_pipeline.segments.pairing import Action

_FEEDBACK, _MESSAGE, _STATE = Role.FEEDBACK, Role.MESSAGE, Role.STATE  # enum lookups are ten times slower
_FACT: Final = "fact"
_POLICY: Final = "policy"
_SPEAKERS: Final = (USER, ASSISTANT)
_SIGNS: Final = ("name", "full name", "username", "user ID", "user id", "ID", "email", "email address")
"""Properties by which users say who they are."""
_INTRODUCES: Final = frozenset(f"{USER}'s {sign}" for sign in _SIGNS)
_MISSED: Final = re.compile(r"not ?found|no such|(?:does|did) not exist|unknown|no match", re.IGNORECASE)
_ENDINGS: Final = 8
"""Most endings of a segment under one form, the last ones."""
_DISPUTED: Final = 0.5
_SCOPE: Final = re.compile(rf"{cue('scope').pattern}|\bagain\b", re.IGNORECASE)


class _SegmentClaim(NamedTuple):
    """One claim with its event and author."""

    at: int
    event: str
    by: str
    claim: Claim
    who: str
    """The person that the event names as its subject."""
    own: str
    """The owner, if the claim is about somebody's own thing."""
    passes: bool
    """True if it stands only when another session says the same."""
    expires: int | None
    """When it stops to hold, if its event says so."""
    teller: str
    """Of a typed event, its agent."""


class _SegmentClaims(NamedTuple):
    said: list[_SegmentClaim]
    person: str
    by_user: list[Step]
    """The messages in the user's own words."""


def _told(segment: Segment, actions: Sequence[Action]) -> _SegmentClaims:
    """Return the claims in order. Texts that were cut are ignored, because they were mostly pasted, and so are values
    whose lookup failed. Who the user is stands in every claim of theirs; alone it helps nobody."""
    context, owner = passing.Context(segment, actions), segment.whose
    read = [_read(step, owner) for step in segment.steps]
    by_user = [step for step, (by, _) in zip(segment.steps, read, strict=True) if by == USER and step.role is _MESSAGE]
    made = [(at, by, claim) for at, (by, told) in enumerate(read) for claim in told if not context.refuses(claim)]
    missed = _not_found(actions) if made else frozenset()
    made = [one for one in made if one[2].value.casefold() not in missed]
    own = [claim for _, by, claim in made if by == USER]
    introduced, customer = _person(own), context.looks_up(c.value for c in own if c.subject in _INTRODUCES)
    person = introduced or next((step.subject for step in segment.steps if step.subject), segment.subject)
    return _SegmentClaims(
        [
            _SegmentClaim(
                step.at, step.event_id, by, _of(person, claim) if person else claim, step.subject,
                _whose(claim.subject, speaker(step.text), person),
                context.passes(at, claim, introduced=bool(introduced), customer=customer),
                step.projected.expires if step.projected is not None else None,
                step.teller,
            )
            for at, by, claim in made
            for step in (segment.steps[at],)
            if not (claim.value == person and claim.subject.startswith(f"{USER}'s "))
        ],
        person,
        by_user,
    )  # fmt: skip


def _whose(subject: str, speaker: str, person: str) -> str:
    owner = subject.partition("'s ")[0]
    return person or USER if owner == USER else owner if owner == speaker else ""


def _not_found(actions: Sequence[Action]) -> frozenset[str]:
    """Return the argument values of failed lookups."""
    return frozenset(
        value.casefold()
        for action in actions
        if action.failure is not None and _MISSED.search(f"{action.failure.type} {action.failure.message}")
        for value in action.values
    )


def _read(step: Step, owner: str) -> tuple[str, Iterable[Claim]]:
    """Return whose word it is, and the claims: a message is parsed, a typed event is read from its fields. In a
    subject's session, other subjects state nothing: it would become the subject's own. The words of those who are only
    named there are reported, so they make no rule."""
    if step.projected is not None:
        changes = step.role is _STATE
        return EVENT, (_typed(*said)._replace(updates=changes) for said in step.projected.says)
    text, is_asserted = step.text, asserts(step)
    if len(text) >= STEP_TEXT:
        text = text.rpartition("\n")[0] if is_asserted else ""  # of lines, the last one was cut
        if not text:
            return "", ()
    if owner and step.subject not in ("", owner):
        return QUOTED, ()
    if step.role is _FEEDBACK:
        return USER, _rules_of(comment_text(text))
    if is_asserted:
        return ASSISTANT, asserted(text, whole=step.name == ASSERTED)
    if step.role is not _MESSAGE or step.actor not in _SPEAKERS:
        return "", ()
    by = USER if (who := speaker(text)) else step.actor
    told = claims(text, step.actor)
    if owner and who and (step.actor != USER or who.casefold() != owner.casefold()):
        return QUOTED, (claim for claim in told if claim.memory is not Memory.POLICY)
    return by, told


def tells(segment: Segment) -> bool:
    """Return False if a segment states nothing, or only who its user is, which helps nobody. Most need not be read
    to know it."""
    people: set[str] = set()
    owner = segment.whose
    for step in segment.steps:
        text, by_user = step.text, step.actor == USER
        if step.projected is not None or asserts(step):
            return True
        if step.role is _FEEDBACK:
            if step.name.lower() in REJECTS or any(_rules_of(comment_text(text))):
                return True
        elif step.role is _MESSAGE and step.actor in _SPEAKERS and len(text) < STEP_TEXT:
            others = speaker(text)
            for claim in claims(text, step.actor):
                if not by_user or owner or others or claim.denies or claim.subject not in _INTRODUCES:
                    return True
                people.add(claim.value)
            if (by_user or others) and of_message(text, USER):
                return True
    return len(people) > 1


def _rules_of(comment: str) -> Iterable[Claim]:
    """Return the rules in a user's feedback, if words say that they are to last."""
    told = claims(comment, USER) if comment and _SCOPE.search(comment) else ()
    return (claim for claim in told if claim.memory is Memory.POLICY)


def _typed(memory: str, subject: str, predicate: str, value: str) -> Claim:
    if memory == Memory.POLICY:
        return policy_claim(subject)
    text = f"{subject} {predicate} {value}"
    return Claim(Memory(memory), subject, predicate, value, False, memory == Memory.GOAL, text)


def _person(made: Sequence[Claim]) -> str:
    """Return who the user is, if stated; then claims about "me" are claims about this person."""
    for sign in _SIGNS:
        for claim in made:
            if claim.subject == f"{USER}'s {sign}" and not claim.denies:
                return claim.value
    return ""


def _of(person: str, claim: Claim) -> Claim:
    if claim.subject != USER and not claim.subject.startswith(f"{USER}'s "):
        return claim
    return claim._replace(subject=person + claim.subject.removeprefix(USER), text=f"{person}: {claim.text}")


def _extract(segment: Segment, _: SegmentOutcome, actions: Sequence[Action]) -> list[Extracted]:
    """Facts, policies and endings: what the steps state is read once for all three."""
    told = _told(segment, actions)
    facts = [said for said in told.said if said.claim.memory is not Memory.POLICY]
    policies = [said for said in told.said if said.claim.memory is Memory.POLICY]
    return [*_extracted(facts, _FACT), *_extracted(policies, _POLICY), *_endings(told)]


def _extracted(found: Iterable[_SegmentClaim], kind: str) -> list[Extracted]:
    by_key: dict[str, list[_SegmentClaim]] = defaultdict(list)
    for said in found:
        by_key[_key(said.claim)].append(said)
    return [_contribution(key, last_of_each(by_key[key], _teller), kind) for key in first_of_each(by_key, _teller)]


def _teller(said: _SegmentClaim) -> tuple[str, str]:
    return said.by, said.teller


def _contribution(key: str, said: Sequence[_SegmentClaim], kind: str) -> Extracted:
    claim = said[-1].claim
    policy = claim.memory is Memory.POLICY
    reached = sorted(words_of(claim.subject)) if policy else reached_by(claim)
    return Extracted(
        key=key,
        source_events=list(dict.fromkeys(one.event for one in said)),
        body={
            "memory": claim.memory.value,
            "subject": claim.subject,
            "predicate": claim.predicate,
            "plural": claim.plural,
            "own": said[-1].own,
            "passes": all(one.passes for one in said),
            "touches": reached[:KNOWLEDGE_TOUCHES],
            "claims": [
                {
                    "at": one.at,
                    "event": one.event,
                    "by": one.by,
                    "same": stems(one.claim.value),
                    "value": one.claim.value,
                    "denies": one.claim.denies,
                    "text": one.claim.text,
                    "who": one.who,
                    "updates": one.claim.updates,
                    **validity(one.claim.said, one.at)._asdict(),
                    **({} if one.expires is None else {"until": one.expires}),
                }
                for one in said
            ],
        },
        kind=kind,
    )


def _endings(told: _SegmentClaims) -> list[Extracted]:
    """Extract endings from users' messages only: assistants cannot end what others said."""
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for said in told.said:
        if said.by == USER:
            for key, what in of_claim(said.claim, said.own):
                found[key].append({"at": said.at, "event": said.event, **what})
    stated = {(said.event, stems(said.claim.value)) for said in told.said}
    for step in told.by_user:
        for key, what in of_message(step.text, speaker(step.text) or told.person or USER):
            states = (step.event_id, what["same"]) in stated
            found[key].append({"at": step.at, "event": step.event_id, **what, "states": states})
    return [
        Extracted(
            key=key,
            source_events=list(dict.fromkeys(one["event"] for one in said[-_ENDINGS:])),
            body={
                "touches": list(dict.fromkeys(one["same"] for one in said[-_ENDINGS:] if one["same"])),
                "endings": said[-_ENDINGS:],
            },
            kind=ENDING,
        )
        for key, said in list(found.items())[:SEGMENT_STATEMENTS]
    ]


def _key(claim: Claim) -> str:
    """Return the key that claims about the same thing share."""
    about = [thing(claim.subject), stems(claim.predicate)]
    return " | ".join([*about, stems(claim.value)] if claim.plural else about)


def _state(contributions: Sequence[Contribution], ended: Sequence[Contribution]) -> list[Statement]:
    lasting = [c for c in contributions if not c.body.get("passes")]
    often = len({c.session_id for c in contributions}) >= passing.SESSIONS
    track = track_of(contributions if often else lasting, ended)
    kept = track.newest
    names = {held.name for held in kept}
    found = [_statement(held, track, names) for held in kept]
    if track.disputed:
        found.append(_conflict(track))
    return found


def _statement(held: ValueInterval, track: FactTimeline, names: set[str]) -> Statement:
    last = held.heard[-1]
    about = last.about.body
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
        end=held.end if held.end is not None else last.until,
        standing=Standing.ACTIVE if held.end is None else Standing.SUPERSEDED,
        superseded_by=held.ended_by if held.ended_by in names else "",
        named_by=last.about if all(one.source is not last.about for one in held.heard) else None,
    )


def _confidence(held: ValueInterval, *, disputed: bool) -> float:
    """Return the confidence, from the author and the number of sessions."""
    sessions = len({one.source.session_id for one in held.heard})
    sure = held.weight * sureness(sessions)
    return round(sure * (_DISPUTED if disputed else 1), 4)


def _conflict(track: FactTimeline) -> Statement:
    """Make the conflict record; of many sides, the latest."""
    disputed = sorted((track.values[name] for name in track.disputed), key=lambda side: (side.heard[-1].at, side.name))
    sides = sorted(disputed[-KNOWLEDGE_VALUES:], key=lambda side: side.name)
    heard = sorted((one for side in sides for one in side.heard), key=lambda one: (one.at, one.event, one.same))
    about = heard[-1].about.body
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


def _sources(heard: Iterable[Assertion]) -> list[Contribution]:
    """Return each contribution once, in event-time order."""
    return list({one.source.contribution_id: one.source for one in heard}.values())


def _named(claim: Mapping[str, Any]) -> str:
    return value_name(claim["same"], denies=claim["denies"])


def _agreed_text(said: Sequence[Contribution]) -> list[Contribution]:
    """Where subjects use different words for one fact, say it in none of theirs."""
    by: dict[str, set[str]] = defaultdict(set)
    for c in said:
        for one in c.body["claims"]:
            by[one["text"].casefold()].add(c.subject)
    return [
        c.saying(claims=[one if _spoken(one, by) else _plain(c.body, one) for one in c.body["claims"]])
        if c.subject
        else c
        for c in said
    ]


def _plain(about: Mapping[str, Any], claim: Mapping[str, Any]) -> dict[str, Any]:
    return {**claim, "text": plain_text(about, claim["value"], denies=claim["denies"])}


def _spoken(claim: Mapping[str, Any], by: Mapping[str, set[str]]) -> bool:
    subjects = by[claim["text"].casefold()]
    return is_typed(claim) or "" in subjects or len(subjects) >= QUORUM


FACT: Final = KnowledgeKind(
    _FACT, _extract, None, _state, beside=beside, rivals=True,
    items="claims", named=_named, still=lambda own, ended: track_of(own, ended).open, agreed_text=_agreed_text,
)  # fmt: skip
POLICY: Final = replace(FACT, name=_POLICY, extract=nothing)
ENDINGS: Final = EvidenceKind(ENDING, nothing, None)
