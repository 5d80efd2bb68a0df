"""An operator's ruling on a knowledge record: it is confirmed, corrected or retracted.

It names the record, because a record's id depends on its pattern and statement alone. So it holds for the statement
whatever evidence comes, and in a rebuild it may come before the evidence.
"""

from enum import StrEnum
from operator import not_
from typing import Annotated, Self

from pydantic import Field, model_validator

from hmx_pipeline.contracts.base import Items, Model
from hmx_pipeline.contracts.erasure import Mark
from hmx_pipeline.contracts.event import Name
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.knowledge import Authority, KnowledgeRecord


class RulingVerb(StrEnum):
    CONFIRM = "confirm"
    """It holds, whatever others say."""
    CORRECT = "correct"
    """Another statement holds instead of it, and instead of all others about the same."""
    RETRACT = "retract"
    """It is withdrawn and stays so until it is confirmed."""


class RulingSource(Model):
    """A contribution that a correction was made from, as an erasure finds it: without names."""

    memory_id: Name
    marks: Items[Mark]
    """Of its session, its subject if it has one, and its tenant (see contracts.erasure)."""
    first_at: int
    """Event time of its first event, in milliseconds."""


class Ruling(Model):
    tenant_id: Name
    pattern: Name
    """`Pattern.text` of the record."""
    record_id: Name
    verb: Annotated[RulingVerb, Field(strict=False)]
    at: int
    """When it was decided, in milliseconds."""
    reason: str = ""
    subject: Annotated[str, Field(exclude_if=lambda subject: not subject)] = ""
    """Whose own decision it is, by a key that is bound to this subject; empty for an operator's."""
    stated: KnowledgeRecord | None = None
    """The record that holds instead; of a correction only."""
    sources: Annotated[Items[RulingSource], Field(exclude_if=lambda sources: not sources)] = Field(default_factory=list)
    """What the record rests on; of a correction only. Corrections of earlier releases have none."""

    reworded: Annotated[bool, Field(exclude_if=not_)] = False
    """True if the text of what it states is the record's with another value: it may hold more words of one session."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if (self.verb is RulingVerb.CORRECT) != (self.stated is not None):
            raise ValueError("a correction, and nothing else, states a record")
        if self.stated is not None and (self.stated.tenant_id, self.stated.pattern) != (self.tenant_id, self.pattern):
            raise ValueError("it states a record of another pattern")
        return self

    @property
    def authority(self) -> Authority:
        return Authority.USER if self.subject else Authority.OPERATOR

    @property
    def key(self) -> str:
        """Key of its record on the evidence topic: the prefix of the pattern's contributions."""
        return join_key(self.tenant_id, self.pattern)
