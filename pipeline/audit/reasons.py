"""Why an artifact is what it is, and why a pattern has none yet.

Enters: an artifact with its versions and its contributions; or records of the patterns stage's state topic and a few
words. Leaves: `Reasons` of the one; an `Absence` of each pattern that the words fit. Pure; nothing fails for what it
finds.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pipeline.audit.lineage import Json
from pipeline.compiler.candidate import candidate, counting, in_order
from pipeline.compiler.lifecycle import decayed
from pipeline.compiler.model import Need
from pipeline.compiler.registry import ARTIFACT_TYPES, KINDS
from pipeline.contracts.artifact import Artifact, Status
from pipeline.contracts.evidence import Contribution, Pattern
from pipeline.contracts.instants import format_ms
from pipeline.retrieval.terms import terms
from pipeline.stages.pattern_state import PatternState, decode_state, pattern_of, split_pattern, state_key
from pipeline.stages.tables import StateRecord, latest

FITTING: Final = 5
"""Patterns that are explained, those first that the words fit best."""
_READ: Final = 8  # contributions whose words stand for their pattern's


class Evidence(NamedTuple):
    """One contribution."""

    contribution_id: str
    session_id: str
    agent_id: str
    at: str
    outcome: str
    events: int

    @classmethod
    def of(cls, c: Contribution) -> "Evidence":
        return cls(
            c.contribution_id, c.session_id, c.agent_id, format_ms(c.first_at), str(c.outcome), len(c.source_events)
        )


class Turn(NamedTuple):
    """How a version came to its status."""

    version: int
    artifact_id: str
    status: str
    at: str
    cause: str


@dataclass(frozen=True, slots=True)
class Reasons:
    artifact: Json
    evidence: Sequence[Evidence]
    """The newest first."""
    unresolved: int
    """Contributions that it names and that memory does not hold any more."""
    needs: Sequence[Need]
    """As the evidence stands now."""
    versions: Sequence[Turn]
    decayed: bool
    """Packs leave it out for its age."""

    def as_json(self) -> Json:
        return {
            "artifact_id": self.artifact["artifact_id"],
            "status": self.artifact["status"],
            "transition": self.artifact["metadata"].get("transition"),
            "checked": self.artifact["metadata"].get("checked"),
            "decayed": self.decayed,
            "needs": needs_as_json(self.needs),
            "versions": [turn._asdict() for turn in self.versions],
            "evidence": [each._asdict() for each in self.evidence],
            "unresolved": self.unresolved,
        }


def explain(artifact: Json, versions: Sequence[Json], known: Sequence[Json | None], newest_ms: int) -> Reasons:
    """`known`: what memory holds for each of its contributions; `newest_ms`: the tenant's newest event."""
    contributions = in_order([Contribution.model_validate(each) for each in known if each is not None])
    stand = [c for c in contributions if not c.withdrawn]
    kind = ARTIFACT_TYPES.get(artifact["artifact_type"])
    return Reasons(
        artifact=artifact,
        evidence=[Evidence.of(c) for c in reversed(contributions)],
        unresolved=sum(each is None for each in known),
        needs=kind.needs(stand) if kind is not None and stand else [],
        versions=[_turn(version) for version in versions],
        decayed=artifact["status"] == Status.ACTIVE and decayed(Artifact.model_validate(artifact), newest_ms),
    )


def _turn(version: Json) -> Turn:
    transition: Json = version["metadata"].get("transition") or {"cause": "too little evidence yet"}
    at: str = version.get("updated_at") or version["created_at"]
    return Turn(version["version"], version["artifact_id"], version["status"], at, transition["cause"])


@dataclass(frozen=True, slots=True)
class Absence:
    """A pattern that the words fit, and what it lacks."""

    pattern: Pattern
    title: str
    contributions: int
    sessions: int
    outcomes: Counter[str]
    needs: Sequence[Need]
    said: str
    """In one sentence."""
    artifact_id: str
    """Of its newest artifact, in whatever status; empty where there is none."""

    def as_json(self) -> Json:
        return {
            "artifact_type": self.pattern.type,
            "pattern": self.pattern.text,
            "title": self.title,
            "contributions": self.contributions,
            "sessions": self.sessions,
            "outcomes": dict(sorted(self.outcomes.items())),
            "needs": needs_as_json(self.needs),
            "said": self.said,
            "artifact_id": self.artifact_id or None,
        }


def missing(words: str, records: Iterable[StateRecord], tenant: str) -> list[Absence]:
    """Of the patterns that hold at least half of the words; those with most of them, and then most evidence, first."""
    wanted = set(terms(words))
    states: dict[str, PatternState] = {}
    maps: dict[str, list[Contribution]] = defaultdict(list)
    for key, record in latest(records, ("p/", "m/"), tenant).items():
        value: Any = decode_state(key, record.value or b"")
        if isinstance(value, PatternState):
            states[key] = value
        elif not value.withdrawn:
            maps[pattern_of(key)].append(value)
    evidence = _evidence(maps)
    fitting = []
    for key, contributions in evidence.items():
        found = len(wanted & _words(contributions))
        if found and 2 * found >= len(wanted):
            fitting.append((-found, -len(contributions), key))
    return [
        _absence(key, in_order(evidence[key]), states.get(key, PatternState())) for *_, key in sorted(fitting)[:FITTING]
    ]


def _evidence(maps: Mapping[str, Sequence[Contribution]]) -> dict[str, Sequence[Contribution]]:
    """What the artifacts of each pattern are compiled from: its own contributions, or those that make it."""
    found: dict[str, Sequence[Contribution]] = {}
    making: dict[tuple[str, str], list[Contribution]] = defaultdict(list)
    for key, told in maps.items():
        tenant_id, pattern = split_pattern(key)
        if KINDS[pattern.type].group is not None:
            making[tenant_id, pattern.type] += counting(told)
        elif pattern.type in ARTIFACT_TYPES:
            found[key] = told
    for (tenant_id, kind), told in making.items():
        group = KINDS[kind].group
        made = group(told) if group is not None else {}
        found |= {state_key(tenant_id, each): own for each, own in made.items() if each.type in ARTIFACT_TYPES}
    return found


def _words(contributions: Sequence[Contribution]) -> set[str]:
    read = sorted(contributions, key=lambda c: c.contribution_id)[:_READ]
    return set(terms(" ".join([read[0].pattern_key, *(text for c in read for text in _texts(c.body))])))


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for each in inner for text in _texts(each)]


def _absence(key: str, contributions: Sequence[Contribution], state: PatternState) -> Absence:
    pattern = split_pattern(key)[1]
    needs = ARTIFACT_TYPES[pattern.type].needs(contributions)
    found = candidate(contributions, pattern.type)
    newest = state.said.artifact if state.said is not None else None
    return Absence(
        pattern=pattern,
        title=found.title if found is not None else _name(pattern, contributions),
        contributions=len(contributions),
        sessions=len({c.session_id for c in contributions}),
        outcomes=Counter(str(c.outcome) for c in contributions),
        needs=needs,
        said=_said(needs, found.contradicted if found is not None else "", newest, state),
        artifact_id=newest.artifact_id if newest is not None else "",
    )


def _name(pattern: Pattern, contributions: Sequence[Contribution]) -> str:
    """What a segment says it is about, or else the key."""
    body = contributions[-1].body
    told = next((body[name] for name in ("goal", "question", "surface") if body.get(name)), pattern.key)
    return " ".join(str(told).split())


def _said(needs: Sequence[Need], contradicted: str, newest: Artifact | None, state: PatternState) -> str:
    if state.archived is not None:
        return f"it is {state.archived}"
    if newest is not None and newest.status is Status.ACTIVE:
        return f"it is not missing: {newest.artifact_id} is active"
    if contradicted:
        return f"contradicted: {contradicted}"
    lacking = [need for need in needs if not need.met]
    if lacking:
        return "; ".join(words_of(need) for need in lacking)
    return "nothing: it is about to be compiled" if state.speak_at is not None else "its evidence does not fit together"


def words_of(need: Need) -> str:
    """`2 of 5 successes`, `7 successes, 5 are enough`, `bound of success over sessions 0.38, at least 0.5`."""
    if not need.at_most and float(need.has).is_integer() and float(need.wanted).is_integer() and need.wanted > 1:
        if need.met:
            return f"{need.has:.0f} {need.what}, {need.wanted:.0f} are enough"
        return f"{need.has:.0f} of {need.wanted:.0f} {need.what}"
    return f"{need.what} {round(need.has, 4):g}, at {'most' if need.at_most else 'least'} {round(need.wanted, 4):g}"


def needs_as_json(needs: Sequence[Need]) -> list[Json]:
    return [{**need._asdict(), "met": need.met} for need in needs]
