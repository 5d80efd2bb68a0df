"""Facts that a client asserts: short sentences about the user that its own model has extracted.

Input: the sentences, one a line. Output: claims, as if the user had said them; their authority is an assistant's. Such
a model writes `User prefers tea`, so the user is put into the first person. A sentence about the user that fits no form
is a fact as it stands. Rules are left out, because an assistant makes none.
"""

import re
from collections.abc import Iterator
from typing import Final

from hmx_pipeline.compiler.knowledge.claim_names import USER
from hmx_pipeline.compiler.knowledge.claims import claims
from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.english import TEXT, Claim
from hmx_pipeline.compiler.knowledge.pasted import without_pasted
from hmx_pipeline.compiler.knowledge.rules import LISTED
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.segments.masking import shorten

_OWN: Final = re.compile(r"(?:the )?user['’]s ", re.IGNORECASE)
_DOES: Final = re.compile(r"(?:the )?user (?P<verb>[a-z]+)(?P<rest> .+)", re.IGNORECASE)
_FIRST: Final = {"is": "am", "has": "have", "does": "do", "was": "was"}
_SAYS: Final = "is known for"


def asserted(text: str) -> Iterator[Claim]:
    for line in text.split("\n"):
        said = line.strip()
        own, does = _OWN.match(said), _DOES.fullmatch(said)
        plain = f"My {said[own.end() :]}" if own else f"I {_first(does['verb'])}{does['rest']}" if does else said
        told = [claim for claim in claims(plain, USER) if claim.memory is not Memory.POLICY]
        if told or does is None or without_pasted(said) != said or scores(said).rule >= LISTED:
            yield from told
        else:
            shown = shorten(said, TEXT)
            yield Claim(Memory.FACT, USER, _SAYS, f"{does['verb']}{does['rest']}".rstrip("."), False, True, shown)


def _first(verb: str) -> str:
    """Return the verb as it follows `I`."""
    lowered = verb.lower()
    if lowered in _FIRST:
        return _FIRST[lowered]
    if lowered.endswith("ies"):
        return f"{lowered[:-3]}y"
    if lowered.endswith(("sses", "shes", "ches", "xes", "oes")):
        return lowered[:-2]
    return lowered.removesuffix("s") if not lowered.endswith("ss") else lowered
