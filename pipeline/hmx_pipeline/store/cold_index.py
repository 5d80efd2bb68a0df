"""Cold index: what a search reads of a tenant's cold episodes, beside what Redis has of the others. Pure.

Enters: the parts of the index that the archive's files make. Leaves: rows, postings and lists as Redis would hold them
if nothing had cooled. What stands in both counts once: episodes may leave Redis between two reads.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from hmx_pipeline.retrieval.postings import POSTING, ROW, pack_assigned
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.retrieval.vectors import Vector
from hmx_pipeline.store.changes import TenantChanges
from hmx_pipeline.store.stored_digests import verified_document

_DOCUMENT: Final = msgspec.msgpack.Decoder(Document)
_EACH: Final = 200
"""Estimated bytes of a document or term, besides what it holds."""


class IndexPart(NamedTuple):
    rows: bytes
    documents: Mapping[int, bytes]
    postings: Mapping[str, bytes]
    tagged: Mapping[str, bytes]
    vectors: Mapping[str, bytes]
    assigned: Sequence[bytes]

    @property
    def nbytes(self) -> int:
        held = (self.documents, self.postings, self.tagged, self.vectors)
        return len(self.rows) + sum(len(value) + _EACH for each in held for value in each.values())

    @classmethod
    def of(cls, made: TenantChanges) -> "IndexPart":
        return cls(
            bytes(made.rows),
            dict(zip(map(int, made.documents[::2]), made.documents[1::2], strict=True)),
            made.postings,
            made.tagged,
            {space: bytes(rows) for space, rows in made.vectors.items()},
            [pack_assigned(session, subject) for session, subject in made.assigned.items()],
        )


class ColdIndex:
    def __init__(self, parts: Sequence[IndexPart] = (), why: str = "") -> None:
        self._parts = parts
        self.why: Final = why
        """Why cold episodes were not looked at; empty if they were."""
        self._documents = {number: body for part in parts for number, body in part.documents.items()}
        self.assigned: Final = [one for part in parts for one in part.assigned]

    def __bool__(self) -> bool:
        return bool(self._documents)

    def document(self, number: int) -> Document | None:
        packed = verified_document(number, self._documents.get(number, b""))
        return _DOCUMENT.decode(packed) if packed else None

    def rows(self, hot: bytes) -> bytes:
        """Returns all rows, of each partition in order."""
        return _once(ROW, b"".join([hot, *(part.rows for part in self._parts)])) if self else hot

    def postings(self, term: str, hot: bytes) -> bytes:
        return self._whole([part.postings.get(term) for part in self._parts], hot)

    def tagged(self, label: str, hot: bytes) -> bytes:
        return self._whole([part.tagged.get(label) for part in self._parts], hot)

    def vectors(self, near: Vector, hot: Sequence[bytes]) -> Sequence[bytes]:
        found = [part.vectors[near.space] for part in self._parts if near.space in part.vectors]
        row = np.dtype([("number", "<u8"), ("values", "i1", (len(near.values),))])
        return [_once(row, b"".join([*hot, *found]))] if found else hot

    def _whole(self, parts: Sequence[bytes | None], hot: bytes) -> bytes:
        found = [part for part in parts if part]
        return np.unique(np.frombuffer(b"".join([hot, *found]), POSTING)).tobytes() if found else hot


def _once(row: np.dtype[Any], rows: bytes) -> bytes:
    """Returns rows by number, each number once."""
    found = np.frombuffer(rows, row)
    return found[np.unique(found["number"], return_index=True)[1]].tobytes()


NOT_ASKED: Final = ColdIndex(why="ask with an as_of before it")
