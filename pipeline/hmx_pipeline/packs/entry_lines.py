"""The lines of an entry, and its shorter forms by what the question asks, of which the budget takes one.

Input: an entry's text and the question. Output: forms, the longest first. Each keeps the lines that decide: the way out
that the question asks for, else the steps. Half a step or half a way out is no help.
"""

import re
from collections.abc import Iterator, Sequence, Set
from functools import cached_property
from typing import Final

from hmx_pipeline.retrieval.terms import terms

LEFT_OUT: Final = "\n… [truncated]"
"""Last line of a shorter form."""
REMEDY: Final = re.compile(r"If `.*` fails|Recover: ")
BESIDE: Final = re.compile(r"(?:Goal|When|Shows|Fails as): |<[^>]*>: ")
"""EntryLines that help to find an entry or to fill in its slots, but are not instructions."""
_STEP: Final = re.compile(r"\s*\d+\. ")
_SLOT: Final = re.compile(r"(<[^>]*>)[: ]")
_FAILURE: Final = "Fails as: "
ERROR: Final = re.compile(r"“(.*)”")
_RESTS: Final = re.compile(r"(?:Before|Done when|When|Shows|Prevent|Tried|Holds for|Only where|But|For|\s+until): ")
_KNOWN: Final = 0.5
"""Share of an error's words that a question must have to be about it."""


class EntryLines:
    """The lines of an entry. `query`: the stems of the question; `fails`: its words say that something failed."""

    def __init__(self, text: str, query: Set[str], *, fails: bool) -> None:
        self._text, self._query, self._fails = text, query, fails

    @cached_property
    def _rest(self) -> list[str]:
        return self._text.split("\n")[1:]

    @cached_property
    def _shared(self) -> list[float]:
        """For each line the share of its error that the question has; -1 if it is no way out."""
        failure = " ".join([self._text.partition("\n")[0], *(line for line in self._rest if line.startswith(_FAILURE))])
        return [self._share(line, failure) if REMEDY.match(line) else -1.0 for line in self._rest]

    def _share(self, line: str, failure: str) -> float:
        told = ERROR.search(line)
        words = set(terms(told[1] if told else failure))
        return len(words & self._query) / (len(words) or 1)

    @property
    def fixes(self) -> bool:
        """True if it says the way out that the question asks for."""
        best = max(self._shared, default=-1.0)
        return best >= _KNOWN or (self._fails and best > 0)

    def shorter(self) -> Iterator[str]:
        """Yield the shorter forms, the longest first."""
        goal = next((n for n, line in enumerate(self._rest) if line.startswith("Goal: ")), -1)
        best, fixes = max(self._shared, default=-1.0), self.fixes
        ranks = [
            _rank(line, first_goal=n == goal, asked=share == best, fixes=fixes)
            for n, (line, share) in enumerate(zip(self._rest, self._shared, strict=True))
        ]
        last = self._rest
        for most in sorted(set(ranks), reverse=True)[1:]:
            kept = _needed([line for line, rank in zip(self._rest, ranks, strict=True) if rank <= most])
            if len(kept) < len(last):
                yield "\n".join([self._text.partition("\n")[0], *kept]) + LEFT_OUT
            last = kept


def _needed(lines: Sequence[str]) -> list[str]:
    """Leave out what is said of slots that no other line has."""
    told = "\n".join(line for line in lines if _SLOT.match(line) is None)
    return [line for line in lines if (slot := _SLOT.match(line)) is None or slot[1] in told]


def _rank(line: str, *, first_goal: bool, asked: bool, fixes: bool) -> int:
    """Return how soon a line is left out: the highest first."""
    if REMEDY.match(line):
        return 2 if not fixes else 0 if asked else 3
    if _STEP.match(line):
        return 2 if fixes else 0
    if _SLOT.match(line):
        return 1
    if first_goal:
        return 2 if fixes else 1
    return 4 if line.startswith(("Goal: ", _FAILURE)) else 5 if _RESTS.match(line) else 0
