"""Steps, segments and contributions: the input of mining, and the values of `hmx.evidence.v1`.

A step is the bounded view of a released event; it is stored as state, so it is small, and it is never published. A
contribution is what one segment says about one pattern. For each (tenant, pattern, session, segment) the last counts.
"""

import hashlib
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property
from math import fsum
from operator import not_
from typing import Annotated, Any, Final, Literal, NamedTuple

import msgspec
from pydantic import Field

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.event import HmxVersion, Name, Unit
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import NESTING, TRUSTED_AGENTS
from hmx_pipeline.contracts.retention import Cuts
from hmx_pipeline.contracts.timestamps import milliseconds
from hmx_pipeline.contracts.versions import HMX_VERSION

EXPIRES: Final = "expires_at"


class Projected(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The graph projection and statements of one typed event; texts are bounded."""

    entity: str = ""
    name: str = ""
    summary: str = ""
    properties: dict[str, Any] = {}
    edges: tuple[tuple[str, str, str, str, str], ...] = ()
    """Source type, source name, relation, target type, target name."""
    says: tuple[tuple[str, str, str, str], ...] = ()
    """Memory kind, subject, predicate, value."""
    again: bool = False
    """True if it only adds to an entity that other events tell of."""

    @property
    def expires(self) -> int | None:
        """When it stops to hold, in milliseconds, if it says so."""
        text = self.properties.get(EXPIRES)
        return (milliseconds(text) or None) if isinstance(text, str) else None


EXTRACTED: Final = "extracted_memories"
"""Name of the step of a client's message that carries facts which the client's own model extracted."""
ASSERTED: Final = "observation"
"""Name of an observation that its agent asked to remember as a fact; other observations have none."""

UNPROVEN: Final = "?"
"""Stands for the agent of an event if no key vouches for it; nobody trusts it."""


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event as mining sees it. Empty text or None means that the event does not say."""

    event_id: str
    at: int
    """Event time in milliseconds, capped to append time + 5 minutes."""
    role: Role
    index: int = 0
    """Position in the session's released order."""
    actor: str = ""
    """Author of a message: `user`, `assistant` or `system`."""
    name: str = ""
    """Tool, command or error class, as the event names it; for a message `EXTRACTED`, or empty."""
    text: str = ""
    values: tuple[str, ...] = ()
    """Scalar argument values, by which error messages are masked. For a decision: the offered options. For feedback:
    the rejected tool and its arguments."""
    ok: bool | None = None
    call_id: str = ""
    parent: str = ""
    correlation: str = ""
    target: str = ""
    tags: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    """Facts in a structured result, as `key=value` without digits."""
    listed: tuple[str, ...] = ()
    """Ids in the first list of a structured result."""
    projected: Projected | None = None
    """Set for types whose row has a projection."""
    arguments: tuple[tuple[str, str], ...] = ()
    """For a call: paths (`a.b`, `list[]`) and values of its plain arguments."""
    subject: str = ""
    """The person that the event is about."""
    teller: str = ""
    """For a typed event, the agent that tells it; UNPROVEN if a key that is not the agent's brought it."""
    salience: float | None = None
    """How much the event is worth, as it says itself (HMX-E §2.2)."""


class SegmentOutcome(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Segment(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Consecutive episodes of a session about one goal. Its id is that of its first event."""

    tenant_id: str
    session_id: str
    agent_id: str
    segment_id: str
    steps: tuple[Step, ...]
    subject: str = ""
    """The first subject of its session."""
    claimed_at: int = 0
    """As of a contribution."""

    @property
    def whose(self) -> str:
        return self.subject or next((step.subject for step in self.steps if step.subject), "")


class Pattern(NamedTuple):
    """The group of a contribution: a kind, such as an artifact type, and a key made by the kind's module."""

    type: str
    key: str

    @property
    def text(self) -> str:
        return join_key(self.type, self.key)


_PLACE: Final = (
    "contribution_id", "tenant_id", "pattern_type", "pattern_key", "session_id", "segment_id", "agent_id", "first_at",
    "last_at",
)  # fmt: skip
"""Fields that a contribution keeps whatever it says."""
_JSON: Final = "json"
_FIRST: Final = "first_said"
_EXPANDED: Final = 6
"""Bytes of memory for a byte of JSON, where lists of short texts are most of it."""
_Name = Annotated[str, msgspec.Meta(min_length=1)]
_NOTHING_ELSE: Final = (("__pydantic_extra__", None), ("__pydantic_private__", None))


class Contribution(Model):
    """What one segment says about one pattern; `withdrawn` says that it no longer does."""

    hmx_version: HmxVersion = HMX_VERSION
    contribution_id: Name
    tenant_id: Name
    pattern_type: Name
    pattern_key: Name
    session_id: Name
    segment_id: Name
    agent_id: Name
    outcome: SegmentOutcome = Field(strict=False, default=SegmentOutcome.UNKNOWN)
    first_at: int
    """Event time of the segment's first event, in milliseconds."""
    last_at: int
    source_events: list[str] = Field(default_factory=list)
    """Ids of the events that this rests on, in order."""
    tags: list[str] = Field(default_factory=list)
    lineage_tags: list[str] = Field(default_factory=list)
    """Tags that all of these events have (HMX-E §2.2), sorted."""
    body: dict[str, Any] = Field(default_factory=dict)
    """Written by the kind's `extract`, read by its `compile`."""
    withdrawn: bool = False
    subject: Annotated[str, Field(exclude_if=not_)] = ""
    """Whose session the segment belongs to, if that is known."""
    tellers: Annotated[list[str], Field(exclude_if=not_)] = Field(default_factory=list)
    """The agents of the typed events that this rests on, unless all are the segment's agent."""
    salience: Annotated[Unit | None, Field(exclude_if=lambda salience: salience is None)] = None
    """The mean of what its events say of their own salience; None if none does."""
    claimed_at: Annotated[int, Field(exclude_if=not_)] = 0
    """Append time of the event that named its session's subject, if the session had spoken before; else 0."""

    def __hash__(self) -> int:
        """Hash what tells it from other contributions and from its own corrections, so that results of functions on
        contributions can be cached and are found without comparing whole contributions."""
        return hash((self.contribution_id, self.pattern_key, self.last_at, self.outcome))

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.pattern_type, self.pattern_key)

    def saying(self, **more: Any) -> "Contribution":
        """Return a copy with more fields in its body."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        told = Contribution.model_construct(**{**fields, "body": {**self.body, **more}})
        told.__dict__[_FIRST] = self.first
        return told

    @property
    def first(self) -> "Contribution":
        """The contribution that this one says more than, if it does."""
        first: Contribution = self.__dict__.get(_FIRST, self)
        return first

    def claimed_by(self, other: "Contribution") -> "Contribution":
        """Return what is left of it once a contribution has named its session's subject: its place, until it comes
        again. A session that came back named tells no append time."""
        place = {name: getattr(self, name) for name in _PLACE}
        return Contribution(
            **place, withdrawn=True, subject=other.subject, claimed_at=other.claimed_at or other.first_at
        )

    @cached_property
    def size(self) -> int:
        """Bytes of its JSON."""
        return len(self.to_json())

    def write(self) -> None:
        """Keep its JSON until it is `written`, so that asking for its size is not writing it twice."""
        json = self.__dict__[_JSON] = self.to_json()
        self.__dict__["size"] = len(json)

    def written(self) -> bytes:
        """Return its JSON, and do not keep it any longer."""
        json: bytes | None = self.__dict__.pop(_JSON, None)
        return self.to_json() if json is None else json

    @cached_property
    def digest(self) -> bytes:
        """SHA-256 of its JSON."""
        return hashlib.sha256(self.to_json()).digest()

    @cached_property
    def nbytes(self) -> int:
        """Estimated bytes of memory; to count its texts takes as long as to read them."""
        return 2_000 + _EXPANDED * self.size


class _ReadContribution(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The fields of a contribution as this release writes them, in the model's order."""

    hmx_version: Literal["HMX-1.0"] = HMX_VERSION
    contribution_id: _Name
    tenant_id: _Name
    pattern_type: _Name
    pattern_key: _Name
    session_id: _Name
    segment_id: _Name
    agent_id: _Name
    outcome: SegmentOutcome = SegmentOutcome.UNKNOWN
    first_at: int
    last_at: int
    source_events: list[str] = []
    tags: list[str] = []
    lineage_tags: list[str] = []
    body: dict[str, Any] = {}
    withdrawn: bool = False
    subject: str = ""
    tellers: list[str] = []
    salience: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] | None = None
    claimed_at: int = 0


_decoded: Final = msgspec.json.Decoder(_ReadContribution).decode
_FIELDS: Final = set(_ReadContribution.__struct_fields__)


def read_contribution(value: bytes) -> Contribution:
    """Parse and validate a contribution, in half the time that its model takes. The model reads what looks unusual, and
    alone says what is wrong: it raises pydantic's ValidationError."""
    if value.count(b"[") + value.count(b"{") <= NESTING:  # the model takes nothing deeper
        try:
            fields = msgspec.structs.asdict(_decoded(value))
        except (msgspec.MsgspecError, ValueError):
            return Contribution.model_validate_json(value)
        read = Contribution.__new__(Contribution)
        for name, of in (("__dict__", fields), ("__pydantic_fields_set__", _FIELDS), *_NOTHING_ELSE):
            object.__setattr__(read, name, of)  # as `model_construct` does
        return read
    return Contribution.model_validate_json(value)


def mean_salience(told: Iterable[float | None]) -> float | None:
    """Return the mean of those that are told, the same in any order; None if none is."""
    said = [one for one in told if one is not None]
    return round(fsum(said) / len(said), 4) if said else None


def segment_rank(session_id: str, segment_id: str) -> int:
    """Return the 64-bit hash that decides who stays at a bound, lowest first. It does not depend on arrival."""
    return int.from_bytes(hashlib.sha256(join_key(session_id, segment_id).encode()).digest()[:8], "big")


def contribution_id(first_at: int, tenant_id: str, pattern: Pattern, session_id: str, segment_id: str) -> str:
    """Return the id, which stays the same when the contribution is corrected."""
    return content_id(first_at, "contribution", tenant_id, pattern.type, pattern.key, session_id, segment_id)


def evidence_key(contribution: Contribution) -> str:
    return join_key(contribution.tenant_id, contribution.pattern.text, contribution.session_id, contribution.segment_id)


class Archive(Model):
    """An operator's decision that a pattern must not be shown any more (HMX-A §5). It holds for the pattern and not for
    one version, because a rebuild may produce other versions."""

    tenant_id: str
    pattern: str
    """`Pattern.text`."""
    artifact_id: str
    """The active version at the time of the decision."""
    reason: str = ""

    @property
    def key(self) -> str:
        """Key of its record on the evidence topic: the prefix of the pattern's contributions."""
        return join_key(self.tenant_id, self.pattern)

    @property
    def pattern_type(self) -> str:
        """Type of the pattern; empty if the pattern is malformed."""
        parts = split_key(self.pattern)
        return parts[0] if self.tenant_id and len(parts) == len(Pattern._fields) else ""

    @property
    def cause(self) -> str:
        return f"archived by an operator: {self.reason}" if self.reason else "archived by an operator"


class TenantSettings(Model):
    """What an operator set for a tenant. Of each setting the last one counts; None leaves it as it was."""

    tenant_id: Name
    sharing: Literal["subjects", "team"] | None = None
    """`subjects`, the default: what a subject states is private to it. `team`: the subjects share all but what is about
    somebody's own things."""
    trusted_agents: Annotated[list[Name], Field(max_length=TRUSTED_AGENTS)] | None = None
    """Agents whose typed events count more than a user. A typed event of any other agent counts like an assistant."""

    names_subjects: Literal[True] | None = None
    """True once an event of the tenant has named a subject. No operator sets this, and nothing takes it back."""

    cuts: Cuts | None = None
    """Up to when the tenant's retention has taken something. The sessions stage tells it, and nothing takes it back."""

    def after(self, known: "TenantSettings | None") -> "TenantSettings":
        """Return what is set once this is set after what was known."""
        given = self.model_dump(exclude_none=True)
        return self if known is None else known.model_copy(update=given)


class EvidenceControl(Model):
    """A tick, barrier, operator's decision or import on the evidence topic. A barrier arrives once from each partition
    of the events topic."""

    kind: Name
    barrier_id: str = ""
    partition: int = 0
    partitions: int = 0
    """Of a barrier: from how many partitions of the events topic it comes."""
    tenant_id: Annotated[str, Field(exclude_if=not_)] = ""
    """Of a barrier: the tenant whose patterns it asks for; empty for all."""
    archived: Archive | None = None
    imported: dict[str, Any] | None = None
    """A `contracts.fingerprint.Import`, as it stands in the log."""
    erased: ErasureMark | None = None
    ruled: dict[str, Any] | None = None
    """A `contracts.ruling.Ruling`, as it stands in the log."""
    settings: TenantSettings | None = None
