"""What a request may name, and the marks of its answer: no models, so that a command that only asks starts at once."""

from enum import StrEnum
from typing import Final, Self


class Status(StrEnum):
    """HMX-A §5."""

    DRAFT = "draft"
    ACTIVE = "active"
    SUPERSEDED = "superseded"
    DEPRECATED = "deprecated"
    ARCHIVED = "archived"


class Kind(StrEnum):
    MEMORY = "memory"
    POLICY = "policy"
    ENTITY = "entity"
    RELATION = "relation"
    CONFLICT = "conflict"


class Standing(StrEnum):
    """Whether a record still holds."""

    ACTIVE = "active"
    SUPERSEDED = "superseded"
    """A later record has replaced it."""
    UNRESOLVED = "unresolved"
    """A conflict whose sides all stand."""
    RESOLVED = "resolved"
    """A conflict that a later statement has settled."""
    WITHDRAWN = "withdrawn"
    """Its evidence no longer says so."""


HOLDS = (Standing.ACTIVE, Standing.UNRESOLVED)


class SourceType(StrEnum):
    """HMX-C §3.2."""

    EPISODE = "episode"
    MEMORY = "memory"
    RELATION = "relation"
    CONFLICT = "conflict"
    POLICY = "policy"
    ENTITY = "entity"
    ARTIFACT = "artifact"


class Section(StrEnum):
    """In the order in which entries stand in a pack (HMX-C §3.3)."""

    permitted: frozenset[SourceType]
    """The source types allowed in it (HMX-C §3.1)."""
    clients_name: str
    """Name of its entries in Hippocortex clients, unless their source type has one (X23)."""

    def __new__(cls, code: str, permitted: set[SourceType], clients_name: str) -> Self:
        member = str.__new__(cls, code)
        member._value_ = code
        member.permitted = frozenset(permitted)
        member.clients_name = clients_name
        return member

    CORE = "core", {SourceType.POLICY, SourceType.ENTITY}, "facts"
    CONSTRAINTS = "constraints", {SourceType.ARTIFACT, SourceType.POLICY}, "decisions"
    GOALS = "goals", {SourceType.MEMORY, SourceType.ARTIFACT}, "context"
    PROCEDURES = "procedures", {SourceType.ARTIFACT, SourceType.MEMORY}, "procedures"
    FACTS = "facts", {SourceType.MEMORY, SourceType.ENTITY}, "facts"
    EPISODES = "episodes", {SourceType.EPISODE}, "context"
    GRAPH_RELATIONS = "graph_relations", {SourceType.RELATION, SourceType.ENTITY}, "context"
    WORKFLOW = "workflow", {SourceType.ARTIFACT}, "procedures"
    CONFLICTS = "conflicts", {SourceType.CONFLICT}, "context"
    EVIDENCE = "evidence", {SourceType.MEMORY, SourceType.EPISODE}, "context"


ENTRY_MARK: Final = "[hmx]"
"""Prefix of every entry's text. Intake recognises it, so that an agent's events that repeat a pack are no evidence."""
NOTHING: Final = "Memory holds nothing that answers this."


class Strategy(StrEnum):
    """HMX-C §5."""

    RANKED = "ranked"
    RECENCY_BIASED = "recency_biased"
    BREADTH_FIRST = "breadth_first"
    DEPTH_FIRST = "depth_first"
    FINGERPRINT_GUIDED = "fingerprint_guided"


class Filling(StrEnum):
    """What a budget is: a limit for what is relevant, or to be filled with whatever fits."""

    RELEVANT = "relevant"
    BUDGET = "budget"


class Profile(StrEnum):
    """What besides the question gives the order."""

    DEFAULT = "default"
    COGNITIVE = "cognitive"
    """How often a memory was surfaced, confirmed, promoted or invalidated (taxonomy), and how long ago."""


class Past(StrEnum):
    """What is shown on request only: earlier versions (HMX-A §5), and what is no guidance (taxonomy)."""

    SUPERSEDED = "superseded"
    ARCHIVED = "archived"
    DIAGNOSTIC = "diagnostic"
    """Skills that nobody has validated, how skills fared, and what agents doubt."""
