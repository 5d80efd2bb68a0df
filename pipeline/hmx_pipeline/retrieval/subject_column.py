"""Whose each document of an index is: that of the subject it names, else of its session's first subject.

Input: rows, and whose sessions are, as they were appended. Output: masks of what a subject may see. A session may get
its subject late; then what was said in it before becomes private too.
"""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hmx_pipeline.retrieval.growable_array import GrowableArray
from hmx_pipeline.retrieval.postings import session_mark, subject_hash, unpack_assigned

_OWNER_BYTES: Final = 200
"""Estimated bytes of an assignment, besides its name."""


class SubjectColumn:
    def __init__(self) -> None:
        self.assigned = 0
        """Number of assignments read."""
        self._subjects = GrowableArray(np.uint64)
        """Hash of each document's subject; 0 if it belongs to the whole tenant."""
        self._owners: dict[int, str] = {}
        """Session → its first subject."""
        self._owners_bytes = 0
        self._private = False
        """True if any document belongs to a subject."""

    @property
    def nbytes(self) -> int:
        return self._subjects.nbytes + self._owners_bytes

    def owner(self, session_id: str) -> str:
        """Return whose session it is; empty if nobody's."""
        return self._owners.get(session_mark(session_id), "") if self._owners else ""

    def visible(self, subject: str) -> NDArray[np.bool_] | None:
        """Return a mask of the documents that a subject may see: its own, and those of the whole tenant, which are all
        that nobody (an empty name) sees. None if no document belongs to a subject."""
        if not self._private:
            return None
        subjects, own = self._subjects.values, subject_hash(subject)
        seen: NDArray[np.bool_] = subjects == 0
        return seen | (subjects == own) if own else seen

    def extend(self, found: NDArray[Any]) -> None:
        """Append rows."""
        subjects = found["subject"]
        if self._owners:
            bare = subjects == 0
            sessions, at = np.unique(found["session"][bare], return_inverse=True)
            owners = [subject_hash(self._owners.get(session, "")) for session in sessions.tolist()]
            subjects = subjects.copy()
            subjects[bare] = np.array(owners, np.uint64)[at]
        self._private = self._private or bool(subjects.any())
        self._subjects.append(subjects)

    def assign(self, assigned: Iterable[bytes], newest: Mapping[int, int], before: NDArray[np.int32]) -> None:
        """Note whose sessions are. `newest`: session → index of its last document; `before`: index of the one before
        each in its session, or -1."""
        late: dict[int, int] = {}
        for packed in assigned:
            session, subject = unpack_assigned(packed)
            self.assigned += 1
            self._owners_bytes += _OWNER_BYTES + len(packed)
            if self._owners.setdefault(session, intern(subject)) == subject and session in newest:
                late[newest[session]] = subject_hash(subject)
        self._private = self._private or bool(late)
        places, owners = np.array([*late], np.int32), np.array([*late.values()], np.uint64)
        while len(places):  # one document further back in all of these sessions
            bare = self._subjects.values[places] == 0
            self._subjects.values[places[bare]] = owners[bare]
            places = before[places]
            places, owners = places[places >= 0], owners[places >= 0]
