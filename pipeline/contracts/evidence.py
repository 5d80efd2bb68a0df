"""Segments and what they say: steps, a segment, a contribution (the value of `hmx.evidence.v1`).

A step is the bounded view of one released event that mining sees; it is state, so it is small and never published. A
contribution is what one segment says about one pattern; under one (tenant, pattern, session, segment) the last counts.
"""

import hashlib
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

import msgspec
from pydantic import Field

from pipeline.contracts.event import HmxVersion, Name
from pipeline.contracts.event_types import Role
from pipeline.contracts.ids import content_id
from pipeline.contracts.keys import join_key, split_key
from pipeline.contracts.model import Model
from pipeline.contracts.remembered import nbytes
from pipeline.contracts.versions import HMX_VERSION


class Projected(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What one typed event says of the graph, and states. Texts are bounded."""

    entity: str = ""
    name: str = ""
    summary: str = ""
    properties: dict[str, Any] = {}
    edges: tuple[tuple[str, str, str, str, str], ...] = ()
    """Type and name of the source, relation, type and name of the target."""
    says: tuple[tuple[str, str, str, str], ...] = ()
    """What is stated: which kind of memory, subject, predicate, value."""


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One event as mining sees it. Empty text and None mean that the event does not say."""

    event_id: str
    at: int
    """Event time in milliseconds, capped to append time + 5 minutes."""
    role: Role
    index: int = 0
    """Position in the session's released order."""
    actor: str = ""
    """`user`, `assistant`, `system` of a message."""
    name: str = ""
    """Tool, command or error class, as the event names it."""
    text: str = ""
    values: tuple[str, ...] = ()
    """Scalar argument values, to mask an error's message with; of a decision, the options that were offered; of
    feedback, the tool that it rejects and what with."""
    ok: bool | None = None
    call_id: str = ""
    parent: str = ""
    correlation: str = ""
    target: str = ""
    tags: tuple[str, ...] = ()
    found: tuple[str, ...] = ()
    """What a structured result says in words: `key=value`, without digits."""
    listed: tuple[str, ...] = ()
    """The ids in the first list of a structured result: what may be looked at one after the other."""
    projected: Projected | None = None
    """Of a type whose row says so."""
    arguments: tuple[tuple[str, str], ...] = ()
    """Of a call: the paths of its plain arguments, as `a.b` and `list[]`, and their values."""
    subject: str = ""
    """Whose event it is: the person that it speaks for."""


class SegmentOutcome(StrEnum):
    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class Segment(msgspec.Struct, frozen=True, kw_only=True):
    """A run of a session's episodes about one goal. Its id is its first event's id."""

    tenant_id: str
    session_id: str
    agent_id: str
    segment_id: str
    steps: tuple[Step, ...]


class Pattern(NamedTuple):
    """What contributions are grouped by: a kind, such as an artifact type, and a key that the kind's module made."""

    type: str
    key: str

    @property
    def text(self) -> str:
        return join_key(self.type, self.key)


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
    """Event time of the segment's first event, milliseconds."""
    last_at: int
    source_events: list[str] = Field(default_factory=list)
    """Ids of the events that this rests on, in order."""
    tags: list[str] = Field(default_factory=list)
    lineage_tags: list[str] = Field(default_factory=list)
    """Tags that each of these events carries (HMX-E §2.2), sorted."""
    body: dict[str, Any] = Field(default_factory=dict)
    """What the kind's `extract` says and its `compile` reads."""
    withdrawn: bool = False

    def __hash__(self) -> int:
        """What is read out of one can be remembered."""
        return hash(self.contribution_id)

    @property
    def pattern(self) -> Pattern:
        return Pattern(self.pattern_type, self.pattern_key)

    def saying(self, **more: Any) -> "Contribution":
        """A copy with more in its body."""
        fields = {name: getattr(self, name) for name in type(self).model_fields}
        return Contribution.model_construct(**{**fields, "body": {**self.body, **more}})

    @cached_property
    def size(self) -> int:
        """Bytes as it is written."""
        return len(self.to_json())

    @cached_property
    def digest(self) -> bytes:
        """Of the whole value."""
        return hashlib.sha256(self.to_json()).digest()

    @cached_property
    def nbytes(self) -> int:
        """About what it takes in memory."""
        return 2_000 + nbytes(self.source_events) + nbytes(self.tags) + nbytes(self.body)


def segment_rank(session_id: str, segment_id: str) -> int:
    """What decides who stays at a bound, the lowest first: 64 bits of a hash, nothing that arrival could change."""
    return int.from_bytes(hashlib.sha256(join_key(session_id, segment_id).encode()).digest()[:8], "big")


def contribution_id(first_at: int, tenant_id: str, pattern: Pattern, session_id: str, segment_id: str) -> str:
    """Stable while a segment's contribution is replaced by a corrected one."""
    return content_id(first_at, "contribution", tenant_id, pattern.type, pattern.key, session_id, segment_id)


def evidence_key(contribution: Contribution) -> str:
    return join_key(contribution.tenant_id, contribution.pattern.text, contribution.session_id, contribution.segment_id)


class Archive(Model):
    """An operator's decision that a pattern is not to be shown any more (HMX-A §5).

    It holds for the pattern and not for the version that was decided on: a rebuild may come by other versions.
    """

    tenant_id: str
    pattern: str
    """`Pattern.text`."""
    artifact_id: str
    """The active version when it was decided."""
    reason: str = ""

    @property
    def key(self) -> str:
        """Of its record on the evidence topic: how the keys of the pattern's contributions begin."""
        return join_key(self.tenant_id, self.pattern)

    @property
    def pattern_type(self) -> str:
        """Empty where it names no pattern."""
        parts = split_key(self.pattern)
        return parts[0] if self.tenant_id and len(parts) == len(Pattern._fields) else ""

    @property
    def cause(self) -> str:
        return f"archived by an operator: {self.reason}" if self.reason else "archived by an operator"


class EvidenceControl(Model):
    """A tick, a barrier, an operator's decision or an import on the evidence topic.

    A barrier arrives once from each partition of the events topic.
    """

    kind: Name
    barrier_id: str = ""
    partition: int = 0
    partitions: int = 0
    archived: Archive | None = None
    imported: dict[str, Any] | None = None
    """A `contracts.fingerprint.Import`, as it stands in the log."""
