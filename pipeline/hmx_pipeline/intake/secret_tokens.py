"""Redaction of credentials by their format, from the table of kinds.

Input: a text, or an event's bytes. Output: the text with `[REDACTED]` for each token (`without_tokens`), or whether the
bytes may hold one (`holds_token`). One scan finds out whether a text contains a keyword of any kind; only kinds with a
keyword in the text are tried.
"""

import re
from collections.abc import Iterable
from functools import cache
from itertools import chain
from typing import Final

from hmx_pipeline.intake.scan import NEW, REDACTED, Work, finder
from hmx_pipeline.intake.secret_kinds import KINDS, SecretKind

_ESCAPED: Final = "|".join(
    f"(?<={escape})"
    for escape in (
        r"\\[abfnrtuUv]",
        r"\\x[0-9A-Fa-f]{2}",
        r"\\[uU][0-9A-Fa-f]{4}",
        r"\\[0-7]",
        r"\\[0-7]{3}",
        r"%[0-9A-Fa-f]{2}",
        r"[0-9;\[]m",
    )
)
"""Letters that belong to an escape and not to a token: `\\n`, `\\x3d`, `%3D`, a terminal colour."""
_BEFORE: Final = r"(?:(?-u:\b)|_|\\(?:[abfnrtv]|[uUx0-7][0-9A-Fa-f]{0,4})|%[0-9A-Fa-f]{2}|[0-9;\[]m)"
"""The same before the start of a token."""
_INSIDE: Final = ("[A-Za-z", "[0-9", "[a-z")
"""How patterns begin that have their keyword further inside."""


def _split(kind: SecretKind) -> tuple[list[str], list[str]]:
    """Split a kind's keywords into those at the start of its tokens and those inside."""
    words = kind.keywords.split()
    starts = [] if kind.pattern.startswith(_INSIDE) else [word for word in words if not word.startswith("~")]
    return starts, [word.removeprefix("~") for word in words if word not in starts]


def _anchors(kinds: Iterable[SecretKind]) -> tuple[str, ...]:
    """Return search patterns. Plain words are separate from other patterns, so that the engine builds one
    tree of them."""
    starts, inside = (dict.fromkeys(chain.from_iterable(words)) for words in zip(*map(_split, kinds), strict=True))
    plain = [word for word in starts if word.replace("\\", "").replace("-", "").replace("_", "").isalnum()]
    shaped = [word for word in starts if word not in plain]
    begins = "|".join([f"({'|'.join(plain)})"] * bool(plain) + shaped)
    return (*((f"{_BEFORE}(?:{begins})",) if begins else ()), *inside)


class _Taker:
    """Redacts the tokens of one kind. It searches the keywords first, because the engine can skip to them."""

    def __init__(self, kind: SecretKind) -> None:
        starts, inside = _split(kind)
        end = "" if kind.pattern.endswith((",}", "*")) else "(?![A-Za-z0-9])"
        self.holds = finder(*_anchors([kind]), strict=True)
        self.starts = None if inside else re.compile("|".join(starts), re.ASCII)
        self.whole = re.compile(rf"(?:(?<![A-Za-z0-9])|{_ESCAPED}){NEW}(?:{kind.pattern}){end}", re.ASCII)

    def applied(self, text: str, work: Work) -> str:
        if not self.holds(text):
            return text
        work(text)
        if self.starts is None:
            return self.whole.sub(REDACTED, text)
        parts, last, at = [], 0, 0
        while begin := self.starts.search(text, at):
            at = begin.start() + 1
            if token := self.whole.match(text, begin.start()):
                parts += [text[last : token.start()], REDACTED]
                last = at = token.end()
        return "".join(parts) + text[last:]


@cache
def taker(kind: SecretKind) -> _Taker:
    """Return a kind's taker, made when a text first needs it: all of them take a tenth of a second."""
    return _Taker(kind)


ANCHORS: Final = _anchors(KINDS)
_COUNTED: Final = re.compile(r"\{([0-9]+)\}")
_ENOUGH: Final = 9
_may_hold_token: Final = finder(*(_COUNTED.sub(lambda n: f"{{{min(int(n[1]), _ENOUGH)}}}", one) for one in ANCHORS))
"""The same with shorter repetitions, because the engine keeps a state per repetition."""
_holds_token: Final = finder(*ANCHORS)


def holds_token(dump: bytes) -> bool:
    """Return True if an event's dump may contain a credential."""
    return _may_hold_token(dump) and _holds_token(dump)


holds_token_in: Final = finder(*ANCHORS, strict=True)
"""Returns True if a text may contain a credential."""
_GROUP: Final = 12
_GROUPS: Final = [
    (finder(*_anchors(KINDS[at : at + _GROUP]), strict=True), KINDS[at : at + _GROUP])
    for at in range(0, len(KINDS), _GROUP)
]
"""Groups of kinds, so that a text is not tested for each kind."""


def without_tokens(text: str, work: Work) -> str:
    if not holds_token_in(text):
        return text
    for holds, kinds in _GROUPS:
        if holds(text):
            for kind in kinds:
                text = taker(kind).applied(text, work)
    return text
