"""Artifact reasons: why an artifact has its status, and why a pattern has no artifact yet (`hmx explain`).

Enters: an artifact with its versions and contributions; or pattern state records and some words. Leaves:
`ArtifactReasons` of the artifact; an `Absence` for each pattern that matches the words. Pure; never raises.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter
from typing import Any, Final, NamedTuple

from hmx_pipeline.audit.version_history import Json
from hmx_pipeline.compiler import task_schema
from hmx_pipeline.compiler.candidate import candidate, counting, in_order
from hmx_pipeline.compiler.evidence_kind import Need
from hmx_pipeline.compiler.lifecycle import decayed
from hmx_pipeline.compiler.private_words import FEWEST_SUBJECTS
from hmx_pipeline.compiler.registry import ARTIFACT_TYPES, KINDS
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.evidence import Contribution, Pattern
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.contracts.timestamps import format_ms, milliseconds
from hmx_pipeline.retrieval.terms import strings, terms
from hmx_pipeline.stages.pattern_keys import pattern_of, split_pattern, state_key
from hmx_pipeline.stages.pattern_state import PatternState, decode_state
from hmx_pipeline.stages.state_tables import StateRecord, latest

FITTING: Final = 5
"""Patterns that are explained, best match first."""
_LOOKED_AT: Final = 40
"""Patterns whose titles are compared with the words."""
_READ: Final = 8  # contributions per pattern that are searched for the words
_by_id: Final = attrgetter("contribution_id")


class Evidence(NamedTuple):
    contribution_id: str
    session_id: str
    agent_id: str
    at: str
    outcome: str
    events: int

    @classmethod
    def of(cls, c: Contribution) -> "Evidence":
        at, outcome = format_ms(c.first_at), str(c.outcome)
        return cls(c.contribution_id, c.session_id, c.agent_id, at, outcome, len(c.source_events))


class StatusChange(NamedTuple):
    version: int
    artifact_id: str
    status: str
    at: str
    cause: str


@dataclass(frozen=True, slots=True)
class ArtifactReasons:
    artifact: Json
    evidence: Sequence[Evidence]
    """Contributions, newest first."""
    unresolved: int
    """Number of its contributions that memory no longer holds."""
    needs: Sequence[Need]
    """Requirements, as the evidence stands now."""
    versions: Sequence[StatusChange]
    decayed: bool
    """Packs leave it out because of its age."""

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


def explain(artifact: Json, versions: Sequence[Json], known: Sequence[Json | None], newest_ms: int) -> ArtifactReasons:
    """Explains an artifact. `known` holds each contribution or None; `newest_ms` is the time of the tenant's newest
    event."""
    contributions = in_order([Contribution.model_validate(each) for each in known if each is not None])
    stand = [c for c in contributions if not c.withdrawn]
    kind = ARTIFACT_TYPES.get(artifact["artifact_type"])
    return ArtifactReasons(
        artifact=artifact,
        evidence=[Evidence.of(c) for c in reversed(contributions)],
        unresolved=sum(each is None for each in known),
        needs=kind.needs(stand) if kind is not None and stand else [],
        versions=[_turn(version) for version in versions],
        decayed=artifact["status"] == Status.ACTIVE and decayed(milliseconds(artifact["created_at"]), newest_ms),
    )


def _turn(version: Json) -> StatusChange:
    transition: Json = version["metadata"].get("transition") or {"cause": "too little evidence yet"}
    at: str = version.get("updated_at") or version["created_at"]
    return StatusChange(version["version"], version["artifact_id"], version["status"], at, transition["cause"])


@dataclass(frozen=True, slots=True)
class Absence:
    """A pattern that matches the words, and what it lacks to become an artifact."""

    pattern: Pattern
    title: str
    contributions: int
    sessions: int
    outcomes: Counter[str]
    needs: Sequence[Need]
    said: str
    """The reason in one sentence."""
    artifact_id: str
    """Id of its newest artifact in any status; empty if there is none."""
    active: bool
    """True if it is not missing: this artifact is active."""

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


def missing(words: str, records: Iterable[StateRecord], tenant: str, subject: str = "") -> list[Absence]:
    """Returns the patterns that contain at least half of the words, and one in their title: by words of the title, by
    words and then by evidence. What only one other subject did is not there; of what several did, their words are not
    read."""
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
        own = [each for each in contributions if each.subject in ("", subject)]
        if not own and len({each.subject for each in contributions}) < FEWEST_SUBJECTS:
            continue
        found = len(wanted & _words(min(contributions, key=_by_id).pattern_key, own))
        if found and 2 * found >= len(wanted):
            fitting.append((-found, -len(contributions), key))
    explained = []
    for found, count, key in sorted(fitting)[:_LOOKED_AT]:
        absence = _absence(key, in_order(evidence[key]), states.get(key, PatternState()), subject)
        if named := len(wanted & set(terms(f"{absence.title} {evidence[key][0].pattern_key}"))):
            explained.append((-named, found, count, key, absence))
    return [absence for *_, absence in sorted(explained, key=itemgetter(0, 1, 2, 3))[:FITTING]]


def _evidence(maps: Mapping[str, Sequence[Contribution]]) -> dict[str, Sequence[Contribution]]:
    """Returns what each pattern's artifact is compiled from: its own contributions, or those grouped into it."""
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


def _words(pattern_key: str, contributions: Sequence[Contribution]) -> set[str]:
    read = sorted(contributions, key=_by_id)[:_READ]
    return set(terms(" ".join([pattern_key, *(text for c in read for text in strings(c.body))])))


def _absence(key: str, contributions: Sequence[Contribution], state: PatternState, subject: str) -> Absence:
    pattern = split_pattern(key)[1]
    needs = ARTIFACT_TYPES[pattern.type].needs(contributions)
    found = candidate(contributions, pattern.type)
    newest = state.said.artifact if state.said is not None else None
    return Absence(
        pattern=pattern,
        title=found.title
        if found is not None
        else _name(pattern, [each for each in contributions if each.subject in ("", subject)]),
        contributions=len(contributions),
        sessions=len({c.session_id for c in contributions}),
        outcomes=Counter(str(c.outcome) for c in contributions),
        needs=needs,
        said=_said(needs, found.contradicted if found is not None else "", newest, state),
        artifact_id=newest.artifact_id if newest is not None else "",
        active=newest is not None and newest.status is Status.ACTIVE and state.archived is None,
    )


def _name(pattern: Pattern, contributions: Sequence[Contribution]) -> str:
    """Returns the subject that a segment names, the latest, or else the key without the number of its group."""
    bodies = [each.body for each in reversed(contributions)]
    told = (body[name] for body in bodies for name in ("goal", "question", "surface") if body.get(name))
    key = pattern.key.partition(":")[2] or pattern.key
    unnamed = "a task without a stated goal" if pattern.type == task_schema.NAME else key
    return " ".join(str(next(told, unnamed)).split())


def _said(needs: Sequence[Need], contradicted: str, newest: Artifact | None, state: PatternState) -> str:
    if state.archived is not None:
        return f"it is {state.archived}"
    if newest is not None and newest.status is Status.ACTIVE:
        return f"not missing: {newest.artifact_id} is active"
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
