"""Tenant index cache: keeps the tenants' search indexes in memory, so a query reads only what was appended.

Enters: snapshots of Redis. A view is as of its snapshot and can be dropped and read again. All views share a byte
limit; the least recently used parts go first.
"""

import threading
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Generic, TypeVar

from hmx_pipeline.contracts.bounded_cache import nbytes
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.retrieval.correction_index import Corrections
from hmx_pipeline.retrieval.episode_index import EpisodeIndex, Term
from hmx_pipeline.retrieval.memory_index import IndexEntry, KnowledgeIndexEntry, MemoryIndex
from hmx_pipeline.retrieval.vectors import Vector, Vectors
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError

VIEWS_BYTES: Final = 1024 * MB
"""A million documents with 384-dimensional vectors take 550 MB; a larger tenant would be read again for every pack."""
_WORD_BYTES: Final = 100
_VIEW_BYTES: Final = 20_000
"""Base size of a view; requests may name any tenant, even one without memory."""
WAIT_S: Final = 10.0
"""Longest wait for other questions of the tenant, since waiting threads are lacking elsewhere."""
NEVER: Final = b"never read"
"""A value that no filling has."""

_SELDOM: Final = 7
"""One in so many questions notes what it uses. What is used often is noted all the same."""

Value = TypeVar("Value")


class CatalogueCache:
    """A catalogue with corrections apart, and the offset per partition it was read to; -1 for none."""

    def __init__(self) -> None:
        self.clear()
        self.offsets: dict[int, int] = {}
        self.borders: list[Any] = []
        """Highest ranks kept for similar sessions, as Redis reports them."""

    def clear(self) -> None:
        self.catalogue, self.corrections = MemoryIndex(), Corrections()

    def put(self, cards: Iterable[tuple[str, IndexEntry | None]]) -> None:
        """Sets index entries; None removes one."""
        changed = list(cards)
        corrections = {
            name: card for name, card in changed if isinstance(card, KnowledgeIndexEntry) and card.correction
        }
        self.corrections.put((name, corrections.get(name)) for name, _ in changed)
        self.catalogue.put((name, None if name in corrections else card) for name, card in changed)

    @property
    def nbytes(self) -> int:
        return self.catalogue.nbytes + self.corrections.nbytes


class TenantIndex:
    """Index of a tenant; users must hold its lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self.turn = 0
        """Grows whenever a question, or what drops its parts, may have changed it."""
        self.kept = True
        """False after eviction; the current user is then the last one."""
        self.forget(NEVER)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Holds the lock. Raises StoreUnavailableError after WAIT_S."""
        if not self.lock.acquire(timeout=WAIT_S):
            raise StoreUnavailableError("too many questions of this tenant wait: ask fewer at a time")
        try:
            yield
        finally:
            self.lock.release()

    def forget(self, filling: bytes | None) -> None:
        """Clears the view, for this filling of Redis."""
        self.filling = filling
        self.episodes = EpisodeIndex()
        self.artifacts, self.knowledge, self.precedents = CatalogueCache(), CatalogueCache(), CatalogueCache()
        self.common: set[str] = set()
        """Words in so many documents that they are not searched as related words."""
        self._terms: OrderedDict[str, Term] = OrderedDict()
        self._terms_bytes = 0
        self._spaces: OrderedDict[str, Vectors] = OrderedDict()

    def read(self, name: str) -> int:
        """Returns the number of known posting bytes of a term."""
        known = self._terms.get(name)
        return 0 if known is None else known.read

    def current(self, name: str) -> Term | None:
        """Returns a term if it is cached and needs no refresh."""
        known = self._terms.get(name)
        if known is None or not self.episodes.is_current(known):
            return None
        self._terms.move_to_end(name)
        return known

    def term(self, name: str) -> Term:
        """Takes a term out of the cache; return it with `keep`."""
        known = self._terms.pop(name, None)
        if known is None:
            return Term()
        self._terms_bytes -= known.nbytes + nbytes(name)
        return known

    def keep(self, name: str, term: Term) -> None:
        """Caches a term, unless it occurs nowhere."""
        if term.own.size:
            self._terms[name] = term
            self._terms_bytes += term.nbytes + nbytes(name)

    def vectors(self, asked: Vector) -> Vectors:
        """Returns the vectors of a space; return them with `keep_vectors`."""
        return self._spaces.get(asked.space) or Vectors(len(asked.values))

    def keep_vectors(self, asked: Vector, vectors: Vectors) -> None:
        if vectors.size:
            self._spaces[asked.space] = vectors
            self._spaces.move_to_end(asked.space)

    def drop(self) -> bool:
        """Drops the least recently used term, then vector space; the last space stays."""
        self.turn += 1
        if self._terms:
            name, term = self._terms.popitem(last=False)
            self._terms_bytes -= term.nbytes + nbytes(name)
        elif len(self._spaces) > 1:
            self._spaces.popitem(last=False)
        else:
            return False
        return True

    def measure(self) -> None:
        shelves = sum(shelf.nbytes for shelf in (self.artifacts, self.knowledge, self.precedents))
        vectors = sum(space.nbytes for space in self._spaces.values())
        words = _WORD_BYTES * len(self.common)
        self.bytes = _VIEW_BYTES + self.episodes.nbytes + self._terms_bytes + words + shelves + vectors


class TenantIndexes:
    def __init__(self, limit: int = VIEWS_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._views: OrderedDict[str, TenantIndex] = OrderedDict()
        self.nbytes = 0
        """Total bytes of cached views."""

    def of(self, tenant: str) -> TenantIndex:
        with self._lock:
            view = self._views.get(tenant)
            if view is None:
                view = self._views[tenant] = TenantIndex()
            self._views.move_to_end(tenant)
            return view

    def settle(self, view: TenantIndex) -> None:
        """Enforces the limit after a view grew; its lock must be held."""
        with self._lock:
            self._measure(view)
            gone = []
            for tenant, other in self._views.items():  # only as far as needed, as there may be many
                if self.nbytes <= self._limit:
                    break
                if other is view:
                    self._shrink(view)
                elif other.lock.acquire(blocking=False):  # a view in use was used recently
                    try:
                        self._shrink(other)
                        if self.nbytes > self._limit:
                            self.nbytes -= other.bytes
                            gone.append(tenant)
                    finally:
                        other.lock.release()
            for tenant in gone:
                self._views.pop(tenant).kept = False

    def _shrink(self, view: TenantIndex) -> None:
        """Drops terms and spaces until the limit is kept or none is left."""
        while self.nbytes > self._limit and view.drop():
            self._measure(view)

    def _measure(self, view: TenantIndex) -> None:
        before = view.bytes
        view.measure()
        if view.kept:
            self.nbytes += view.bytes - before


class Recent(Generic[Value]):
    """Thread-safe cache of values. Beyond a byte limit, those put long ago and seldom used since are dropped."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self._asked = 0
        self.nbytes = 0

    def known(self, keys: Sequence[Hashable]) -> list[Value | None]:
        """Returns cached values in order; None for missing ones."""
        with self._lock:
            found = list(map(self._values.get, keys))
            self._asked += 1
            if self._asked % _SELDOM == 0:  # to reorder costs as much as to look
                present = [key for key, value in zip(keys, found, strict=True) if value is not None]
                deque(map(self._values.move_to_end, present), 0)
            return found

    def put(self, key: Hashable, value: Value, nbytes: int) -> Value:
        """Caches a value; `nbytes` is its approximate size including what is kept with it."""
        with self._lock:
            self.nbytes += nbytes - self._sizes.get(key, 0)
            self._values[key], self._sizes[key] = value, nbytes
            self._values.move_to_end(key)
            while self.nbytes > self._limit:
                oldest, _ = self._values.popitem(last=False)
                self.nbytes -= self._sizes.pop(oldest)
        return value
