"""Cold index: what a search reads of a tenant's cold episodes, beside what Redis has of the others. Pure.

Enters: the parts of the index that the archive's files make. Leaves: rows, postings and lists as Redis would hold them
if nothing had cooled. What stands in both counts once: episodes may leave Redis between two reads.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
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
    rows: bytes = b""
    documents: Mapping[int, bytes] = MappingProxyType({})
    postings: Mapping[str, bytes] = MappingProxyType({})
    tagged: Mapping[str, bytes] = MappingProxyType({})
    vectors: Mapping[str, bytes] = MappingProxyType({})
    assigned: Sequence[bytes] = ()

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


def moment_in(value: object) -> int:
    """Returns before when episodes are cold, as Redis has it; 0 for none, and for what is no moment."""
    return int(value) if isinstance(value, bytes) and value.isdigit() else 0


def joined(parts: Sequence[IndexPart]) -> IndexPart:
    """Returns one part: thousands of files would name every word thousands of times."""

    def lists(each: Iterable[Mapping[str, bytes]]) -> dict[str, bytes]:
        found: defaultdict[str, list[bytes]] = defaultdict(list)
        for part in each:
            for name, value in part.items():
                found[name].append(value)
        return {name: b"".join(values) for name, values in found.items()}

    return IndexPart(
        b"".join(part.rows for part in parts),
        {number: body for part in parts for number, body in part.documents.items()},
        lists(part.postings for part in parts),
        lists(part.tagged for part in parts),
        lists(part.vectors for part in parts),
        [one for part in parts for one in part.assigned],
    )


class ColdIndex:
    def __init__(self, part: IndexPart = IndexPart(), why: str = "") -> None:  # noqa: B008  it is immutable
        self._part = part
        self.why: Final = why
        """Why cold episodes were not looked at; empty if they were."""
        self.assigned: Final = part.assigned

    def __bool__(self) -> bool:
        return bool(self._part.documents)

    def document(self, number: int) -> Document | None:
        packed = verified_document(number, self._part.documents.get(number, b""))
        return _DOCUMENT.decode(packed) if packed else None

    def rows(self, hot: bytes) -> bytes:
        """Returns all rows, of each partition in order."""
        return _once(ROW, hot + self._part.rows) if self else hot

    def postings(self, term: str, hot: bytes) -> bytes:
        found = self._part.postings.get(term)
        return _once(POSTING, hot + found) if found else hot

    def tagged(self, label: str, hot: bytes) -> bytes:
        found = self._part.tagged.get(label)
        return _once(POSTING, hot + found) if found else hot

    def vectors(self, near: Vector, hot: Sequence[bytes]) -> Sequence[bytes]:
        found = self._part.vectors.get(near.space)
        row = np.dtype([("number", "<u8"), ("values", "i1", (len(near.values),))])
        return [_once(row, b"".join([*hot, found]))] if found else hot


def _once(row: np.dtype[Any], parts: bytes) -> bytes:
    """Returns parts by number, each number once."""
    found = np.frombuffer(parts, row)
    numbers = found if row.names is None else found["number"]
    return found[np.unique(numbers, return_index=True)[1]].tobytes()


NOT_ASKED: Final = ColdIndex(why="ask with an as_of before it")
