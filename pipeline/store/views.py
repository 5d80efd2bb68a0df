"""What a process remembers of the tenants' indexes, so that a query reads only what was appended since.

Enters: what a snapshot of Redis says. Leaves: views that are as of that snapshot. Nothing here is more than Redis
holds: a view that is forgotten is read again. All views together stay within a bound of bytes; what was asked longest
ago goes first.
"""

import threading
from collections import OrderedDict
from collections.abc import Hashable, Iterable
from typing import Any, Final, Generic, TypeVar

from pipeline.contracts.limits import MB
from pipeline.contracts.remembered import nbytes
from pipeline.retrieval.catalogue import Card, Catalogue, Known
from pipeline.retrieval.corrections import Corrections
from pipeline.retrieval.episode_index import EpisodeIndex, Term
from pipeline.retrieval.vectors import Vector, Vectors

VIEWS_BYTES: Final = 1024 * MB
"""A million documents with vectors of 384 numbers take some 550 MB, and words beside them must stay: what is above the
bound by itself is read again at every pack."""
_WORD_BYTES: Final = 100
_VIEW_BYTES: Final = 20_000
"""Of a tenant of which nothing is known: whoever asks may be anybody."""
NEVER: Final = b"never read"
"""No filling is called so."""

Value = TypeVar("Value")


class Shelf:
    """A catalogue, corrections apart, and up to which record of each partition it is read; -1 where nothing was read of
    one."""

    def __init__(self) -> None:
        self.clear()
        self.offsets: dict[int, int] = {}
        self.borders: list[Any] = []
        """Of precedents: the highest ranks that are kept, as Redis says them."""

    def clear(self) -> None:
        self.catalogue, self.corrections = Catalogue(), Corrections()

    def put(self, cards: Iterable[tuple[str, Card | None]]) -> None:
        """None where a name has no card any more."""
        changed = list(cards)
        corrections = {name: card for name, card in changed if isinstance(card, Known) and card.correction}
        self.corrections.put((name, corrections.get(name)) for name, _ in changed)
        self.catalogue.put((name, None if name in corrections else card) for name, card in changed)

    @property
    def nbytes(self) -> int:
        return self.catalogue.nbytes + self.corrections.nbytes


class View:
    """A tenant's; who uses it holds the lock."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.bytes = 0
        self.kept = True
        """False once it is forgotten: who still uses it then is its last user."""
        self.forget(NEVER)

    def forget(self, filling: bytes | None) -> None:
        """Nothing is known of this filling of Redis so far."""
        self.filling = filling
        self.episodes = EpisodeIndex()
        self.artifacts, self.knowledge, self.precedents = Shelf(), Shelf(), Shelf()
        self.common: set[str] = set()
        """Words that stand in so many documents that none is looked for because a question has one near to them."""
        self._terms: OrderedDict[str, Term] = OrderedDict()
        self._terms_bytes = 0
        self._spaces: OrderedDict[str, Vectors] = OrderedDict()

    def read(self, name: str) -> int:
        """Bytes of a term's postings that are known."""
        known = self._terms.get(name)
        return 0 if known is None else known.read

    def term(self, name: str) -> Term:
        """To be given back by `keep`."""
        known = self._terms.pop(name, None)
        if known is None:
            return Term()
        self._terms_bytes -= known.nbytes + nbytes(name)
        return known

    def keep(self, name: str, term: Term) -> None:
        """A term that stands nowhere is not worth remembering."""
        if term.own.size:
            self._terms[name] = term
            self._terms_bytes += term.nbytes + nbytes(name)

    def vectors(self, asked: Vector) -> Vectors:
        """What is known of those in its space; to be given back by `keep_vectors`."""
        return self._spaces.get(asked.space) or Vectors(len(asked.values))

    def keep_vectors(self, asked: Vector, vectors: Vectors) -> None:
        if vectors.size:
            self._spaces[asked.space] = vectors
            self._spaces.move_to_end(asked.space)

    def drop(self) -> bool:
        """The term, else the space, that was asked longest ago; the last space stays."""
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


class Views:
    """By tenant."""

    def __init__(self, limit: int = VIEWS_BYTES) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._views: OrderedDict[str, View] = OrderedDict()
        self.nbytes = 0
        """Of those that are kept, as last measured."""

    def of(self, tenant: str) -> View:
        with self._lock:
            view = self._views.get(tenant)
            if view is None:
                view = self._views[tenant] = View()
            self._views.move_to_end(tenant)
            return view

    def settle(self, view: View) -> None:
        """Keeps the bound after a view, whose lock is held, may have grown."""
        with self._lock:
            self._measure(view)
            gone = []
            for tenant, other in self._views.items():  # as far as needed: there may be very many
                if self.nbytes <= self._limit:
                    break
                if other is view:
                    self._shrink(view)
                elif other.lock.acquire(blocking=False):  # one that is in use was not asked longest ago
                    try:
                        self._shrink(other)
                        if self.nbytes > self._limit:
                            self.nbytes -= other.bytes
                            gone.append(tenant)
                    finally:
                        other.lock.release()
            for tenant in gone:
                self._views.pop(tenant).kept = False

    def _shrink(self, view: View) -> None:
        """Forgets terms and spaces until the bound is kept, or there are none."""
        while self.nbytes > self._limit and view.drop():
            self._measure(view)

    def _measure(self, view: View) -> None:
        before = view.bytes
        view.measure()
        if view.kept:
            self.nbytes += view.bytes - before


class Recent(Generic[Value]):
    """Values by what they are made of, those used last, up to so many bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._values: OrderedDict[Hashable, Value] = OrderedDict()
        self._sizes: dict[Hashable, int] = {}
        self.nbytes = 0

    def known(self, keys: Iterable[Hashable]) -> dict[Any, Value | None]:
        """None where a value is not there."""
        with self._lock:
            found = {key: self._values.get(key) for key in keys}
            for key, value in found.items():
                if value is not None:
                    self._values.move_to_end(key)
            return found

    def put(self, key: Hashable, value: Value, nbytes: int) -> Value:
        """`nbytes`: about what it takes, with all that will be kept with it."""
        with self._lock:
            self.nbytes += nbytes - self._sizes.get(key, 0)
            self._values[key], self._sizes[key] = value, nbytes
            self._values.move_to_end(key)
            while self.nbytes > self._limit:
                oldest, _ = self._values.popitem(last=False)
                self.nbytes -= self._sizes.pop(oldest)
        return value
