"""What a row of the table of event types is made of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from pipeline.contracts.content import Content


class Role(StrEnum):
    MESSAGE = "message"
    CALL = "call"
    """An action whose result comes as an event of its own."""
    RESULT = "result"
    ACTION = "action"
    """An action that carries its own result."""
    TEST = "test"
    """An action that checks the work."""
    ERROR = "error"
    DECISION = "decision"
    FEEDBACK = "feedback"
    STATE = "state"
    OBSERVATION = "observation"


ACTS: Final = frozenset({Role.CALL, Role.ACTION, Role.TEST})
"""What the agent does, apart from what it says, hears and decides."""

Places = tuple[str, ...]


Template = str
"""`{a|b|@sequence|=text}`: in braces the places of a value, the first present one wins; `@` before a field of the event
itself, `=` before what stands in where there is none. With nothing to stand in, the whole template says nothing."""


class Edge(NamedTuple):
    """From or to the row's own entity, where the other end is empty."""

    relation: Template
    source_type: str = ""
    source: Template = ""
    target_type: str = ""
    target: Template = ""


class Saying(NamedTuple):
    """What an event states, as a person might: a `policy`, `goal`, `preference` or `fact`."""

    memory: str
    subject: Template
    predicate: Template = ""
    value: Template = ""
    each: str = ""
    """The place of a list, each item of which is a `subject`."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What an event says of the graph: one entity, its edges, and what it states."""

    entity: str = ""
    name: Template = ""
    summary: Places = ()
    """All that is there, one after the other."""
    properties: Places = ()
    status: str = ""
    edges: tuple[Edge, ...] = ()
    says: tuple[Saying, ...] = ()
    everything: bool = False
    """The summary is every plain value of the content, by its key."""


@dataclass(frozen=True, slots=True)
class EventType:
    """`name`: tool, verb or error class; `text`: what a person would read; `ok`: success. A place is a path `a.b`."""

    role: Role
    content: type[Content] | None = None
    name: Places = ()
    text: Places = ()
    arguments: Places = ()
    ok: Places = ()
    exit_code: Places = ()
    call_id: Places = ()
    target: Places = ()
    about: Places = ()
    """Of the event, not of its content: the tool that feedback rejects and what it was to be done to, for what is
    rejected never becomes an event."""
    actor: Places = ()
    fixed_name: str = ""
    projection: Projection | None = None
