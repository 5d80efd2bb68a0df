"""Index from the normal forms in contributions (`touches`) to patterns: which statements an ending can reach.

An ending is a message that says that a value no longer holds. Enters: each change of a contribution (old, new), with
its pattern's key. Leaves: the keys of the patterns that are compiled with an ending. The index is a function of the
contributions. A form that too many patterns list is a common word and no name, so it reaches none. This bounds how many
patterns one ending schedules.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from hmx_pipeline.compiler.knowledge.endings import ENDING, touched
from hmx_pipeline.contracts.evidence import Contribution, Pattern
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import KNOWLEDGE_CHAIN, KNOWLEDGE_CHAINED, KNOWLEDGE_TOUCHED

_MOST: Final = {False: KNOWLEDGE_TOUCHED, True: KNOWLEDGE_CHAINED}
Form = tuple[str, bool, str]
"""Tenant, True if endings list it, form."""


def is_ending(pattern: str) -> bool:
    """Return True if the `p/…` key is that of an ending."""
    return Pattern(*split_key(split_key(pattern.removeprefix("p/"))[1])).type == ENDING


class EndingIndex:
    def __init__(self) -> None:
        self._patterns: dict[Form, Counter[str]] = {}

    def forms(self, pattern: str, contribution: Contribution | None) -> set[Form]:
        if contribution is None or not touched(contribution):
            return set()
        ends = is_ending(pattern)
        return {(contribution.tenant_id, ends, key) for key in touched(contribution)}

    def change(self, pattern: str, old: Contribution | None, new: Contribution | None) -> None:
        before, after = self.forms(pattern, old), self.forms(pattern, new)
        for form in after - before:
            self._patterns.setdefault(form, Counter())[pattern] += 1
        for form in before - after:
            listing = self._patterns[form]
            listing[pattern] -= 1
            if not listing[pattern]:
                del listing[pattern]
            if not listing:
                del self._patterns[form]

    def open(self, form: Form) -> bool:
        return len(self._patterns.get(form, ())) <= _MOST[form[1]]

    def listing(self, form: Form) -> list[str]:
        """Return the sorted keys of the patterns that list a form."""
        return sorted(self._patterns.get(form, ()))

    def of(self, ending: str) -> Iterator[str]:
        """Yield the keys of the patterns that are compiled with this ending, directly or through other endings."""
        tenant, text = split_key(ending.removeprefix("p/"))
        keys, seen = [split_key(text)[1]], {ending}
        for _ in range(KNOWLEDGE_CHAIN):
            chained: list[str] = []
            for key in keys:
                for ends in _MOST:
                    form = (tenant, ends, key)
                    for pattern in self.listing(form) if self.open(form) else ():
                        if pattern not in seen:
                            seen.add(pattern)
                            if ends:
                                chained.append(split_key(split_key(pattern.removeprefix("p/"))[1])[1])
                            else:
                                yield pattern
            keys = chained


def ending_key(tenant_id: str, form: str) -> str:
    return f"p/{join_key(tenant_id, Pattern(ENDING, form).text)}"
