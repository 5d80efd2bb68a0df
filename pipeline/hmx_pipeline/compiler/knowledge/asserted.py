"""Facts that a client asserts: short sentences that its own model has extracted, or that an agent asked to remember.

Input: the sentences, one a line. Output: claims, as if the user had said them; their authority is an assistant's. Such
a model writes `User prefers tea`, so the user is put into the first person. A sentence about the user that fits no form
is a fact as it stands, and so is any line of what is said to be a fact. Rules are left out, because an assistant makes
none.
"""

import re
from collections.abc import Iterator
from typing import Final

from hmx_pipeline.compiler.knowledge.claim_names import REDACTED, TEAM, USER
from hmx_pipeline.compiler.knowledge.claims import claims, speaker
from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.english import TEXT, Claim
from hmx_pipeline.compiler.knowledge.pasted import without_pasted
from hmx_pipeline.compiler.knowledge.rules import LISTED
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import ASSERTED, EXTRACTED, Step
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.segments.masking import shorten

_MESSAGE, _OBSERVATION = Role.MESSAGE, Role.OBSERVATION  # enum lookups are ten times slower

_OWN: Final = re.compile(r"(?:the )?user['’]s ", re.IGNORECASE)
_DOES: Final = re.compile(r"(?:the )?user (?P<verb>[a-z]+)(?P<rest> .+)", re.IGNORECASE)
_FIRST: Final = {"is": "am", "has": "have", "does": "do", "was": "was"}
_SAYS: Final = "is known for"
_NOTED: Final = "has noted"


def asserts(step: Step) -> bool:
    """Return True if a client or an agent asserts the step's text as facts."""
    if step.name == EXTRACTED:
        return step.role is _MESSAGE
    return step.name == ASSERTED and step.role is _OBSERVATION


def asserted(text: str, *, whole: bool = False) -> Iterator[Claim]:
    """`whole`: the text is said to be a fact, so what fits no form is one of the team, which ends no other."""
    for line in text.split("\n"):
        said = line.strip()
        own, does = _OWN.match(said), _DOES.fullmatch(said)
        plain = f"My {said[own.end() :]}" if own else f"I {_first(does['verb'])}{does['rest']}" if does else said
        found = claims(plain, USER)
        told = [claim for claim in found if claim.memory is not Memory.POLICY]
        if told or without_pasted(said) != said or scores(said).rule >= LISTED:
            yield from told
        elif does is not None:
            yield _as_it_stands(USER, _SAYS, f"{does['verb']}{does['rest']}", said)
        elif whole and not found and _is_plain(said):
            yield _as_it_stands(TEAM, _NOTED, shorten(said, TEXT), said)


def _is_plain(said: str) -> bool:
    """Return False for one word, a question, what somebody else says, and what was redacted."""
    words = " " in said or not said.isascii()
    return words and said[-1] not in "?？" and not speaker(said) and REDACTED not in said


def _as_it_stands(subject: str, predicate: str, value: str, said: str) -> Claim:
    return Claim(Memory.FACT, subject, predicate, value.rstrip("."), False, True, shorten(said, TEXT))


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
