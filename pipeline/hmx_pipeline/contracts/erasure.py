"""An operator's erasure: removes from memory what a subject, a session or the whole tenant left there up to a moment.

Input: the names of a tenant, a session and its subject. Output: their marks, 32 hex digits each (`marks_on`), or
whether some marks cover them (`covered`). The event in the log names what is erased. Everywhere else there are only
marks, which are hashes of names, so that the trace of an erasure does not name the person.
"""

import hashlib
from collections.abc import Set
from enum import StrEnum
from typing import Annotated, Self

from pydantic import Field, model_validator

from hmx_pipeline.contracts.base import Items, Model
from hmx_pipeline.contracts.event import Name
from hmx_pipeline.contracts.keys import join_key
from hmx_pipeline.contracts.limits import ERASED_SESSIONS
from hmx_pipeline.contracts.retention import Cuts


class ErasedScope(StrEnum):
    SUBJECT = "subject"
    SESSION = "session"
    TENANT = "tenant"


Mark = Annotated[str, Field(pattern=r"^[a-f0-9]{32}$")]


def mark_of(tenant_id: str, scope: ErasedScope, name: str) -> str:
    return hashlib.sha256(join_key(tenant_id, scope, name).encode(errors="surrogatepass")).hexdigest()[:32]


def marks_on(tenant_id: str, session_id: str, subject: str) -> list[str]:
    """Return the marks that cover a session and its subject. Compute them once to ask many erasures."""
    of_subject = [mark_of(tenant_id, ErasedScope.SUBJECT, subject)] if subject else []
    return [
        mark_of(tenant_id, ErasedScope.SESSION, session_id),
        *of_subject,
        mark_of(tenant_id, ErasedScope.TENANT, ""),
    ]


def covered(marks: Set[str], tenant_id: str, session_id: str, subject: str) -> bool:
    """Return True if one of the marks is of this session, its subject, or the whole tenant."""
    return not marks.isdisjoint(marks_on(tenant_id, session_id, subject))


class Erasure(Model):
    """As an operator asks for it."""

    erasure_id: Name
    tenant_id: Name
    scope: Annotated[ErasedScope, Field(strict=False)]
    name: str = ""
    """The subject or session; empty for the whole tenant."""
    at: int
    """The moment, in milliseconds: later events stay."""
    sessions: Annotated[Items[Mark], Field(max_length=ERASED_SESSIONS)] = Field(default_factory=list)
    """Marks of the sessions that memory knew of the subject."""

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        if (self.scope is ErasedScope.TENANT) != (self.name == ""):
            raise ValueError("name the subject or session, and nothing for the whole tenant")
        return self

    @property
    def marks(self) -> set[str]:
        return {mark_of(self.tenant_id, self.scope, self.name), *self.sessions}


class ErasureMark(Model):
    """What readers of memory's topics must forget: as on `hmx.erasures.v1`, and on the evidence topic."""

    erasure_id: Name
    tenant_id: Name
    at: int
    marks: Items[Mark]
    partition: int
    """Partition of the events topic; each has a mark of its own."""
    before: int
    """The erasure's own offset. Records of this partition below it, and their outputs, are erased where a mark covers
    them. So is what contributed at this offset, because its time had come."""
    policy: Annotated[str, Field(exclude_if=lambda policy: not policy)] = ""
    """Of a retention: what the operator set, as `CLASS:DAYSd,…,sessions:COUNT`."""
    cuts: Annotated[Cuts, Field(exclude_if=lambda cuts: not cuts)] = Field(default_factory=dict)
    """Of a retention: class → moment (ms). What is of this class and happened before it is forgotten, wherever it
    stands. Of all marks of a tenant the latest moment counts."""

    @property
    def key(self) -> str:
        return join_key(self.tenant_id, self.erasure_id, str(self.partition))
