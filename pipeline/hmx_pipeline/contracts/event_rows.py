"""Row types of the event type table: roles, field paths, graph projections and statements."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.content import Content


class Role(StrEnum):
    MESSAGE = "message"
    CALL = "call"
    """An action whose result is an event of its own."""
    RESULT = "result"
    ACTION = "action"
    """An action with its own result."""
    TEST = "test"
    """An action that checks the work."""
    ERROR = "error"
    DECISION = "decision"
    FEEDBACK = "feedback"
    STATE = "state"
    OBSERVATION = "observation"

    __hash__ = str.__hash__  # an enum's own calls a function


ACTS: Final = frozenset({Role.CALL, Role.ACTION, Role.TEST})
"""Roles of what the agent does, apart from messages and decisions."""

Places = tuple[str, ...]

Template = str
"""A text with `{a|b|@sequence|=text}`: paths of a value, of which the first present one counts. `@` precedes a field of
the event itself, `=` a default. If a part has no value and no default, the template gives nothing."""


class Shelf(StrEnum):
    """Where packs show an entity."""

    FACT = "fact"
    PROCEDURE = "procedure"
    """A skill: among the procedures, once it is applicable."""
    QUESTION = "question"
    """What memory does not know; among the relations, never among the facts."""
    DIAGNOSTIC = "diagnostic"
    """What memory did or doubts; on request only."""


class ProjectedEdge(NamedTuple):
    """A graph edge from or to the row's own entity, which stands for an empty end."""

    relation: Template
    source_type: str = ""
    source: Template = ""
    target_type: str = ""
    target: Template = ""
    founds: bool = False
    """True if its source becomes an entity too."""


def by_actor(relation: str) -> ProjectedEdge:
    """Return an edge from the agent of the event."""
    return ProjectedEdge(relation, "actor", "{@agent_id}")


class Saying(NamedTuple):
    """A statement of an event: a `policy`, `goal`, `preference` or `fact`."""

    memory: str
    subject: Template
    predicate: Template = ""
    value: Template = ""
    each: str = ""
    """Path of a list whose items are subjects."""


@dataclass(frozen=True, slots=True)
class Projection:
    """What an event adds to the graph: an entity, its edges, and statements."""

    entity: str = ""
    name: Template = ""
    summary: Places = ()
    """Paths whose values are joined."""
    properties: Places = ()
    status: str = ""
    """The status unless the event says another that a row lets it say."""
    needs: Places = ()
    """Paths without which the event is malformed and adds nothing."""
    refs: Places = ()
    """Paths of lists of source events, `seq` and `hash` of each; without one the event is malformed."""
    shelf: Shelf = Shelf.FACT
    again: bool = False
    """True if the entity, whose type is a template then, must exist already: its properties are added."""
    edges: tuple[ProjectedEdge, ...] = ()
    says: tuple[Saying, ...] = ()
    everything: bool = False
    """True if the summary is every plain value of the content, with its key."""


@dataclass(frozen=True, slots=True)
class EventType:
    """A row. `name`: tool, verb or error class; `text`: what a person would read; `ok`: success. A place is a path
    `a.b`."""

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
    """Paths in the event itself, for feedback: the rejected tool and its target. A rejected action never becomes an
    event."""
    actor: Places = ()
    fixed_name: str = ""
    projection: Projection | None = None


def observed(
    entity: Template, name: Template, summary: Places = (), properties: Places = (), *, text: Places = (), **more: Any
) -> EventType:
    """Return the row of an observation that adds an entity to the graph; `more` goes to its `Projection`."""
    return EventType(Role.OBSERVATION, text=text, projection=Projection(entity, name, summary, properties, **more))
