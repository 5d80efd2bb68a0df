"""What is remembered of all tenants stays within its bound, whoever is asked for in whatever order."""

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.retrieval.episode_index import EpisodeIndex
from hmx_pipeline.retrieval.postings import document_number, pack_row
from hmx_pipeline.retrieval.vectors import Vectors, pack_vector
from hmx_pipeline.store.tenant_index import VIEWS_BYTES, TenantIndex, TenantIndexes

LIMIT = 20
ROOM = 3
"""Of a view with no terms."""


class Sized(TenantIndex):
    """Of terms only their sizes."""

    def __init__(self) -> None:
        self.terms: list[int] = []
        super().__init__()

    def drop(self) -> bool:
        return self.terms.pop(0) > 0 if self.terms else False

    def measure(self) -> None:
        self.bytes = ROOM + sum(self.terms)


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 12), st.booleans()), max_size=40))
def test_the_bound_is_kept_and_what_is_counted_is_there(asked: list[tuple[str, int, bool]]) -> None:
    views = TenantIndexes(LIMIT)
    for tenant, grown, again in asked:
        view = views._views.setdefault(tenant, Sized())
        assert views.of(tenant) is view
        assert isinstance(view, Sized)
        with view.lock:
            view.terms.append(grown)
            views.settle(view)
            if again:
                views.settle(view)
        kept = views._views.values()
        assert view in kept, "who is asked for stays"
        assert views.nbytes == sum(each.bytes for each in kept) <= LIMIT


def test_who_was_forgotten_while_in_use_is_not_counted() -> None:
    views = TenantIndexes(LIMIT)
    early, late = Sized(), Sized()
    views._views["early"], views._views["late"] = early, late
    late.terms.append(LIMIT - ROOM)
    views.settle(early)
    views.settle(late)
    assert not early.kept
    early.terms.append(5)
    views.settle(early)
    assert views.nbytes == late.bytes


def test_vectors_of_a_million_documents_leave_room_for_words() -> None:
    documents, index, held = 20_000, EpisodeIndex(), Vectors(384)
    numbers = [document_number(0, n) for n in range(documents)]
    index.extend(b"".join(pack_row(number, f"s{number}", number, 1) for number in numbers))
    held.extend([b"".join(pack_vector(number, b"\x01" * 384) for number in numbers)], index)
    assert (index.nbytes + held.nbytes) * 1_000_000 // documents < VIEWS_BYTES * 3 // 4
