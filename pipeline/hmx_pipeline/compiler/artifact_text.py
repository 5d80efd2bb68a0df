"""Wording helpers for artifact texts: lists, plurals, percentages, most frequent forms."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

_YOUNG: Final = 2
"""A finding from at most this many sessions is called young."""


def most_frequent(forms: Iterable[str]) -> tuple[str, float]:
    """Return the most frequent form and its share; among equals, the shorter, then the alphabetically first."""
    counts = Counter(forms)
    if not counts:
        return "", 0.0
    form = min(counts, key=lambda f: (-counts[f], len(f), f))
    return form, counts[form] / counts.total()


def and_list(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}" if len(words) > 1 else "".join(words)


def or_list(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else "".join(words)


def plural(count: int, one: str, many: str = "") -> str:
    return f"{count} {one if count == 1 else many or one + 's'}"


def worked(times: int, sessions: int) -> str:
    """Return how often something helped, and whether that was in few sessions."""
    return f"worked in {times} of {plural(sessions, 'session')}" + (", still young" if sessions <= _YOUNG else "")


def percent(part: int, whole: int) -> str:
    return f"{round(100 * part / whole)} %" if whole else "no outcome known"


def listed(name: str, texts: Sequence[str]) -> Iterator[str]:
    """Yield one line, or none if there is nothing to list."""
    if texts:
        yield f"{name}: {'; '.join(texts)}"
