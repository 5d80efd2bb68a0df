"""English grammar reader: the claim that a plain clause states, by the patterns of `forms`.

Input: a clause without contractions, and whether the user or an assistant says it. Output: a `Claim`, or None; of an
assistant, only relations between named things.
"""

import re
from typing import Final, NamedTuple

from hmx_pipeline.compiler.knowledge import forms
from hmx_pipeline.compiler.knowledge.claim_names import TEAM, TEAMS, USER, named, subject_of, value_of
from hmx_pipeline.compiler.knowledge.plain_statements import without_trail
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, HANGING, NO_SUBJECT, PASSING, VAGUE
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.intake.spoken_secrets import names_credential
from hmx_pipeline.segments.intent import intent
from hmx_pipeline.segments.lexicon import word_set
from hmx_pipeline.segments.masking import sentence as with_capital
from hmx_pipeline.segments.masking import shorten

TEXT: Final = 200
"""Most characters of a claim's text."""
_LIKED_WORDS: Final = 5
_NAMED_WORDS: Final = 4
_KIND_WORDS: Final = 2
_FULL_NAME: Final = re.compile("[A-Z][a-z]+ [A-Z][a-z]+")
_OF_THE_MOMENT: Final = ("id", "ids", "number", "code", "name", "address")
"""Things of which there are many; a sentence about `the` number does not say which."""
_FOR_NOW: Final = word_set("now already still currently also later")
"""With one of these words, an assistant describes its work, not how things are."""
_NOW: Final = re.compile(r"\b(?:now|currently|already|finally|recently|still) ", re.IGNORECASE)
_INSTEAD: Final = re.compile(",? (?:instead of|rather than|in place of|and no longer) ")
_GENERALLY: Final = re.compile("always|usually|generally|typically|mostly", re.IGNORECASE)


class Claim(NamedTuple):
    memory: Memory
    subject: str
    """The subject as shown: `user`, `team`, `user's sister`, `billing service`."""
    predicate: str
    value: str
    denies: bool
    """True if it says that this is not so."""
    plural: bool
    """True if several values may hold at once."""
    text: str
    updates: bool = False
    """True if it says that this was different before."""
    said: str = ""
    """The whole sentence, if it says from when or until when."""
    loose: bool = False
    """True if it fits no exact form, so that its context decides whether it is to last."""


class Clause(NamedTuple):
    text: str
    who: str
    """The speaker's name, if the message begins with one and a colon."""

    def claims(
        self, memory: Memory, subject: str, predicate: str, value: str, *, denies: bool, plural: bool = False
    ) -> Claim | None:
        if not subject or not value or names_credential(subject) or forms.BESIDE.search(value):
            return None
        shown = shorten(without_trail(self.text), TEXT)
        shown = shown if forms.IDENTIFIER.match(shown) else with_capital(shown)
        return Claim(memory, subject, predicate, value, denies, plural, f"{self.who}: {shown}" if self.who else shown)


def read(clause: Clause, by: str) -> Claim | None:
    if by != USER:
        claim = _relation(clause) if _FOR_NOW.isdisjoint(clause.text.lower().split()) else None
        return claim if claim is not None and _checkable(claim) else None
    words = frozenset(clause.text.lower().split())
    for telling, reading in _READINGS:
        if not telling.isdisjoint(words) and (claim := reading(clause)) is not None:
            return claim
    return None


def _checkable(claim: Claim) -> bool:
    """Return True if it names something, and is not about the listener."""
    if claim.subject in (USER, TEAM) or ":" in claim.subject or forms.NAMED.match(claim.value) is None:
        return False
    return " " in claim.subject or forms.NAMED.match(claim.subject) is not None


def _goal(clause: Clause) -> Claim | None:
    match = forms.AIM.fullmatch(clause.text)
    if match is None or (match["vaguely"] and not clause.who):
        return None  # `I am hoping to change my order` is only this session's goal
    aim = without_trail(match["object"])
    first = aim.split()[0].lower()
    if (
        len(aim.split()) < 2
        or forms.POINTING.search(aim)
        or first in ANYTHING
        or first in ("that", "what", "how", "for", "because")
        or _of_the_day(match, aim)
    ):
        return None
    subject = TEAM if (match["whose"] or match["who"]).lower() in ("our", "we") else clause.who or USER
    denies = bool(match["not"] or match["never"] or aim.startswith("not to "))
    return clause.claims(Memory.GOAL, subject, "aims to", aim.removeprefix("not to "), denies=denies, plural=True)


def _of_the_day(match: re.Match[str], aim: str) -> bool:
    """Return True for goals of the moment: a plan with its date, or `my goal is to change my flight`."""
    asks = (match["whose"] or "").lower() == "my" and " my " in f" {aim} " and bool(intent(aim).classes)
    return asks or (match["vaguely"] is not None and forms.DAY.search(aim) is not None)


def _favourite(clause: Clause) -> Claim | None:
    match = forms.FAVOURITE.fullmatch(clause.text)
    if match is None:
        return None
    subject = named(f"{match['subject']} favourite {match['what']}", clause.who)
    return clause.claims(Memory.PREFERENCE, subject, "is", value_of(match["object"]), denies=bool(match["not"]))


def _preference(clause: Clause) -> Claim | None:
    match = forms.PREFERENCE.fullmatch(clause.text)
    if match is None or (match["would"] and not (match["kind"] or _GENERALLY.search(match["usually"]))):
        return None  # `I would prefer a refund` is a wish for now
    chosen, other = value_of(match["object"]), value_of(match["other"] or "")
    if ANYTHING & set(chosen.lower().split()) or _hangs(chosen):
        return None
    if forms.NARROWED.search(match["object"]) or forms.POINTING.search(match["object"]):
        return None
    subject, denies = _whose(match, clause.who), bool(match["not"])
    if not other:
        return clause.claims(Memory.PREFERENCE, subject, "prefers", chosen, denies=denies, plural=True)
    between = " or ".join(sorted((chosen, other), key=str.lower))
    return clause.claims(Memory.PREFERENCE, subject, f"prefers, of {between},", chosen, denies=denies)


def _liking(clause: Clause) -> Claim | None:
    match = forms.LIKING.fullmatch(clause.text)
    value = value_of(match["object"]) if match is not None else ""
    if match is None or not value:
        return None
    verb, denies, words = match["verb"].lower(), bool(match["not"]), value.lower().split()
    can = (match["do"] or "").lower() == "can "
    if can != (verb in ("stand", "bear")) or (can and not denies):
        return None
    if (
        forms.NARROWED.search(match["object"])
        or set(words) & VAGUE
        or len(words) > _LIKED_WORDS
        or _hangs(value)
        or words[-1].endswith("ing")
        or set(words) & ANYTHING
        or words[0] in ("how", "when", "my", "what", "being")
    ):
        return None
    if match["object"].lower().startswith(("the ", "your ", "to ")):
        return None
    denies = denies != verb.startswith(("hate", "dislike", "detest"))
    return clause.claims(Memory.PREFERENCE, _whose(match, clause.who), "likes", value, denies=denies, plural=True)


def _whose(match: re.Match[str], who: str) -> str:
    """Return the subject of a verb of liking. For others than the speaker the verb must agree: `themes like these`
    states no preference."""
    if match["subject"].lower() in ("i", "we"):
        return named(match["subject"], who)
    verb = match[0][match.end("subject") :].split()[0].lower()
    return subject_of(match["subject"], who) if verb.endswith("s") else ""


def _moved(clause: Clause) -> Claim | None:
    match = forms.MOVED.fullmatch(clause.text)
    if match is None or match["what"].split()[0].lower() in ("from", "over"):
        return None
    subject = subject_of(match["what"], clause.who)
    return clause.claims(Memory.FACT, subject, "runs on", value_of(match["object"]), denies=bool(match["not"]))


def _relation(clause: Clause) -> Claim | None:
    turned = forms.FOR_WE.fullmatch(clause.text)
    text = f"{turned['rest']} for {turned['purpose']}" if turned is not None else clause.text
    text = forms.negation_first(_NOW.sub("", text))
    found = forms.RELATED.search(text)
    match = forms.RELATES.fullmatch(forms.ADVERBS.sub("", text[: found.start()])) if found is not None else None
    if found is None or match is None:
        return None
    denies, do = bool(match["not"]), (match["do"] or "").lower()
    verb = forms.VERBS[int((found.lastgroup or "v0")[1:])]
    said, after = found[0].split()[0].lower(), text[found.end() :]
    if verb.predicate == "moved to":
        after = after.partition(" from ")[0]
    after = _INSTEAD.split(after, maxsplit=1)[0]
    subject, value = subject_of(match["subject"], clause.who), value_of(after)
    if do in ("can", "will") or (do == "did" and not denies) or not _agrees(subject, said, do) or _hangs(value):
        return None
    if verb.human and not _human(match["subject"]):
        return None
    if verb.predicate == "is in" and not forms.PLACED.search(match["subject"]):
        return None
    if verb.predicate == "is hosted in" and _human(match["subject"]):
        return clause.claims(Memory.FACT, subject, "lives in", value, denies=denies)
    used, _, purpose = without_trail(after).partition(" for ")
    if verb.predicate == "uses" and purpose and not set(purpose.lower().split()) & ANYTHING:
        return clause.claims(Memory.FACT, subject, f"for {value_of(purpose)} uses", value_of(used), denies=denies)
    return clause.claims(Memory.FACT, subject, verb.predicate, value, denies=denies, plural=verb.plural)


def _possession(clause: Clause) -> Claim | None:
    match = forms.POSSESSION.fullmatch(clause.text)
    if match is None or (match["do"] and not match["not"]):
        return None
    subject, value = subject_of(match["subject"], clause.who), value_of(match["object"])
    return clause.claims(Memory.FACT, subject, "has", value, denies=bool(match["not"]), plural=True)


def _lacks(clause: Clause) -> Claim | None:
    """Read `we do not have ...`, unless it is only true for now."""
    match = forms.LACKS.fullmatch(clause.text)
    if match is None:
        return None
    subject, value = subject_of(match["subject"], clause.who), value_of(match["object"])
    words = value.lower().split()
    if not value or _hangs(value) or set(words) & ANYTHING or {words[0], words[-1]} & (VAGUE | PASSING):
        return None
    if subject != TEAM and _human(match["subject"]):
        return None
    return clause.claims(Memory.FACT, subject, "has", value, denies=True, plural=True)


def _kind(clause: Clause) -> Claim | None:
    """Read what kind of thing a name is: `a Checkpoint is a commit with its metadata`."""
    match = forms.KIND.fullmatch(clause.text)
    if match is None:
        return None
    said, value = match["subject"], value_of(match["object"])
    bare = forms.DETERMINER.sub("", said)
    if not _a_thing(bare) or not value or (len(value.split()) < _KIND_WORDS and not forms.NAMED.match(value)):
        return None
    if set(value.lower().split()[:2]) & (ANYTHING | VAGUE | PASSING):
        return None
    subject = subject_of(f"the {bare}", clause.who)
    return clause.claims(Memory.FACT, subject, "is a", value, denies=bool(match["not"]), plural=True)


def _a_thing(name: str) -> bool:
    """Return True for a name, by spelling or by a capital letter."""
    return forms.IDENTIFIER.match(name) is not None or (name[:1].isupper() and name.lower() not in NO_SUBJECT)


def _ours(clause: Clause) -> Claim | None:
    """Read `Ada is my manager`."""
    match = forms.OURS.fullmatch(clause.text)
    if match is None or match["object"].lower() in ANYTHING or not forms.LASTS.search(match["subject"]):
        return None
    subject = named(match["subject"], clause.who)
    return clause.claims(Memory.FACT, subject, "is", match["object"], denies=bool(match["not"]))


def _copula(clause: Clause) -> Claim | None:
    match = forms.COPULA.fullmatch(clause.text)
    if match is None:
        return None
    said, denies, value = match["subject"], bool(match["not"]), value_of(match["object"])
    if said.lower() == "i":
        if _FULL_NAME.fullmatch(value) and not clause.who:
            return clause.claims(Memory.FACT, f"{USER}'s name", "is", value, denies=denies)
        lasts = forms.LASTING.match(match["object"]) or forms.TRADE.match(match["object"])
        kept = value if lasts else ""
        return clause.claims(Memory.FACT, clause.who or USER, "is", kept, denies=denies, plural=True)
    subject = subject_of(said, clause.who)
    if not value or subject in (USER, TEAM) or _passing(value) or _hangs(value):
        return None
    lowered = said.lower()
    own = lowered.startswith(("my ", "our ")) and (
        forms.LASTS.search(said) or (forms.NAMED.match(match["object"]) and not value.isdecimal())
    )
    told = lowered.startswith("the ") and lowered.split()[-1] not in _OF_THE_MOMENT
    named = (told or "_" in said) and forms.NAMED.match(value)
    if own and lowered.split()[-1] in _OF_THE_MOMENT:
        value = value.partition(",")[0]  # `my name is Ada, code 12345`
    if own or (named and len(value.split()) <= _NAMED_WORDS):
        return clause.claims(Memory.FACT, subject, "is", value, denies=denies)
    return None


def _human(said: str) -> bool:
    """Return True if it refers to people."""
    lowered = said.lower()
    return (
        lowered == "i"
        or lowered in TEAMS
        or lowered.startswith(("my ", "our "))
        or forms.PERSON.fullmatch(said) is not None
    )


def _agrees(subject: str, verb: str, do: str) -> bool:
    """Return True if verb and subject agree. `run the tests` is no statement about the word before it."""
    many = subject in (USER, TEAM) or subject.lower().endswith("s") or " and " in subject
    return bool(many or do or verb.endswith(("s", "ed")) or verb in ("are", "is", "was", "grew"))


def _hangs(value: str) -> bool:
    """Return True if the value is no object, or needs the sentence before to be understood."""
    words = value.lower().split()
    return bool(set(words[:1]) & (ANYTHING | HANGING) or set(words[-1:]) & HANGING)


_READINGS: Final = (
    (word_set("goal aim objective target dream mission ambition aiming planning hoping"), _goal),
    (word_set("favourite favorite"), _favourite),
    (word_set("prefer prefers rather better more"), _preference),
    (
        word_set(
            "love loves like likes enjoy enjoys adore adores hate hates dislike dislikes detest detests stand bear"
        ),
        _liking,
    ),
    (word_set("fan into fond"), _liking),
    (word_set("moved migrated switched changed ported converted"), _moved),
    (forms.RELATING, _relation),
    (word_set("have has own owns"), _possession),
    (word_set("have support"), _lacks),
    (word_set("my our"), _ours),
    (word_set("is are"), _kind),
    (word_set("am is are"), _copula),
)
"""Readers in order, each with words of which one must occur. The first that fits counts."""


def _passing(value: str) -> bool:
    """Return True for a passing state."""
    first = value.lower().split()[0].rstrip(",")
    return first in PASSING or first.endswith("ing") or (first.endswith("ed") and value[0].islower())
