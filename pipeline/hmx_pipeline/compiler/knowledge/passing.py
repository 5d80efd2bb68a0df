"""Passing claims: what matters in its own session only, and what a later session could use.

Input: a segment with its actions. A statement that explains a request, and an order that is carried out at once, are
about that request. What an agent says to itself while it works mostly stands in a file. They stand only when another
session says the same.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from hmx_pipeline.compiler.knowledge import forms
from hmx_pipeline.compiler.knowledge.asserted import asserts
from hmx_pipeline.compiler.knowledge.claim_names import TEAM, USER
from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.english import Claim
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.languages.cues import cue
from hmx_pipeline.segments.action_names import EDIT
from hmx_pipeline.segments.pairing import Action

SESSIONS: Final = 2
"""In so many sessions a passing claim is said before it stands."""
_LASTING: Final = re.compile("|".join(cue(kind).pattern for kind in ("always", "deny")), re.IGNORECASE)
_BANS: Final = cue("deny")
_CERTAIN: Final = 40
"""Score from which a sentence is a rule although the agent does something next."""
_ID: Final = re.compile(r"[^\W_]*[^\W\d_][-_]?\d[\w-]*")
_ID_LENGTH: Final = 4
_ASKS: Final = re.compile("[?？]")
_ITEM: Final = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s.*", re.MULTILINE)


class Context:
    """What happened around the claims of a segment."""

    def __init__(self, segment: Segment, actions: Sequence[Action]) -> None:
        self._steps, self._actions = segment.steps, actions

    def looks_up(self, signs: Iterable[str]) -> bool:
        """Return True if an action takes what a user says of who they are: they are a customer, whose records hold more
        of them. A first name alone is in too many calls, so it takes an address, an id, or two names apart."""
        told = [sign.casefold() for sign in signs]
        ids = {sign for sign in told if "@" in sign or any(map(str.isdigit, sign))}
        names = [set(parts) for sign in told if len(parts := sign.split()) > 1]
        for action in self._actions:
            given = {value.casefold() for value in action.values}
            if not ids.isdisjoint(given) or any(len(parts & given) > 1 for parts in names):
                return True
        return False

    def passes(self, at: int, claim: Claim, *, introduced: bool, customer: bool) -> bool:
        """Return True for a claim of the step `at` that is about its request or work. `introduced`: the user had to say
        who they are, so they speak of their own case. What a `customer` says of themselves is of that case alone."""
        if self._steps[at].actor != USER:
            told = asserts(self._steps[at]) or self._steps[at].projected is not None
            return not told and self._acted_after(at)
        if claim.memory is Memory.POLICY:
            return claim.loose and self._ordered_once(at, claim.text, introduced=introduced)
        if customer and (claim.loose or claim.subject.startswith(USER)):
            return True
        if claim.loose and (introduced or self._in_question(at) or self._acted_after(at)):
            return True
        if self._listed_in_question(at, claim):
            return True
        about_others = claim.memory is Memory.FACT and not claim.subject.startswith((USER, TEAM))
        return about_others and (self._acted_after(at, EDIT) or self._hands_over(at, claim))

    def _hands_over(self, at: int, claim: Claim) -> bool:
        """Return True for `the origin is Rome` where a later action takes Rome: of another case it says nothing."""
        given = claim.value.casefold()
        later = (value.casefold() for action in self._actions if action.position > at for value in action.values)
        return claim.subject.isalpha() and claim.subject.islower() and given in later

    def _ordered_once(self, at: int, rule: str, *, introduced: bool) -> bool:
        """Return True if a rule by its words alone is what is to be done now; a ban is more."""
        if _ASKS.search(self._steps[at].text) and forms.POINTING.search(rule):
            return True
        if introduced:
            return True
        if _BANS.match(rule):
            return False
        if self._acted_after(at, EDIT):
            return True
        return self._acted_after(at) and scores(rule).rule < _CERTAIN

    def _in_question(self, at: int) -> bool:
        """Return True if the message asks something besides, or answers a question of the agent."""
        before = next((step for step in reversed(self._steps[:at]) if step.role is Role.MESSAGE), None)
        asked = before is not None and before.actor != USER and _ASKS.search(before.text) is not None
        return asked or _ASKS.search(self._steps[at].text) is not None

    def _listed_in_question(self, at: int, claim: Claim) -> bool:
        """Return True if it stands in a list, and the message asks about it."""
        text = self._steps[at].text
        return _ASKS.search(text) is not None and any(claim.value in item for item in _ITEM.findall(text))

    def refuses(self, rule: Claim) -> bool:
        """Return True if a rule names an id that the segment's actions took, and no word says that it is to last."""
        if rule.memory is not Memory.POLICY or _LASTING.search(rule.text):
            return False
        ids = [found for found in _ID.findall(rule.text.casefold()) if len(found) >= _ID_LENGTH]
        return any(given in value.casefold() for given in ids for action in self._actions for value in action.values)

    def _acted_after(self, at: int, verb: str = "") -> bool:
        """Return True if the agent did something, or did this, before the user spoke again."""
        spoke = (n for n, step in enumerate(self._steps) if n > at and step.role is Role.MESSAGE and step.actor == USER)
        until = next(spoke, len(self._steps))
        return any(at < action.position < until and verb in ("", action.verb) for action in self._actions)
