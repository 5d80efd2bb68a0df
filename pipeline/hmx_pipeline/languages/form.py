"""Sentence templates of the language files: words with slots, such as `<s> moved from <old> to <new>`.

Input: a template or a clause. Output: the texts in the slots. The words between two slots are a regular expression
without capturing groups, compiled when it is first read with. Each is searched once, from left to right, so a clause
costs one pass per expression.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final, NamedTuple

_HOLE: Final = re.compile("<([a-z]+)>")
_NAMED: Final = re.compile(r"\{([a-z]+)\}")


@cache  # of the language files' words, and no others
def _compiled(words: str) -> re.Pattern[str]:
    return re.compile(words, re.IGNORECASE)


class Form(NamedTuple):
    holes: tuple[str, ...]
    words: tuple[str, ...]
    """Words before, between and after the slots, one more than there are slots; empty if any text may stand there."""

    @property
    def shape(self) -> str:
        """What every ASCII clause that it reads matches, for `intake.scan.finder`."""
        return f"(?is:^{'.+'.join(self.words)})"

    def read(self, clause: str) -> dict[str, str] | None:
        at, start, found = 0, 0, []
        for number, words in enumerate(self.words):
            if not words:
                continue
            compiled = _compiled(words)
            match = compiled.match(clause) if number == 0 else compiled.search(clause, start + 1)
            if match is None:
                return None
            if number:
                found.append(clause[at : match.start()].strip())
            at = start = match.end()
        if not self.words[-1]:
            found.append(clause[at:].strip())
        return dict(zip(self.holes, found, strict=True)) if all(found) else None


def form(text: str) -> Form:
    first, *rest = _HOLE.split(text)
    holes, between = rest[::2], rest[1::2]
    last = between.pop()
    return Form(tuple(holes), (first, *between, f"(?:{last})$" if last.strip(".*") else ""))


def forms(texts: Iterable[str], named: Mapping[str, str] | None = None) -> tuple[Form, ...]:
    """Parse templates. `named` gives the text for each `{name}` in them."""
    known = named or {}
    return tuple(form(_NAMED.sub(lambda match: known[match[1]], text)) for text in texts)
