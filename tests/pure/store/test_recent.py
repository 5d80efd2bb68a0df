"""What a process keeps of values stays within its bytes, and what is used often stays longest."""

from hypothesis import given
from hypothesis import strategies as st

from hmx_pipeline.store.tenant_index import Recent

LIMIT = 100


@given(st.lists(st.tuples(st.integers(0, 12), st.integers(1, 60), st.booleans())))
def test_no_more_bytes_are_kept_than_were_allowed(uses: list[tuple[int, int, bool]]) -> None:
    recent: Recent[int] = Recent(LIMIT)
    sizes: dict[int, int] = {}
    for key, size, put in uses:
        if put:
            sizes[key] = size
            recent.put(key, size, size)
        else:
            recent.known([key])
        found = zip(sizes, recent.known(list(sizes)), strict=True)
        kept = {key: value for key, value in found if value is not None}
        assert recent.nbytes == sum(kept.values()) <= LIMIT
        assert kept.items() <= sizes.items()


def test_what_is_used_often_stays() -> None:
    recent: Recent[str] = Recent(LIMIT)
    for key in "abc":
        recent.put(key, key, 33)
    for _ in range(7):
        recent.known("a")
    recent.put("d", "d", 33)
    assert recent.known("abcd") == ["a", None, "c", "d"]


def test_what_is_larger_than_the_bound_is_not_kept() -> None:
    recent: Recent[str] = Recent(LIMIT)
    assert recent.put("a", "a", LIMIT + 1) == "a"
    assert recent.known("a") == [None]
    assert recent.nbytes == 0
