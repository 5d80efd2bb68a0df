"""Claims in a message: facts, preferences, goals and policies that its author states.

Input: the text and its author. Output: claims. A claim gives the value of a (subject, predicate), which has one value
at a time. If several values may hold at once, such as tools in use, the object is part of the subject and the value is
only whether it holds. A clause gives nothing if it fits no form, or if its subject could be anything (`it`, `the
problem`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from hmx_pipeline.compiler.knowledge import forms
from hmx_pipeline.compiler.knowledge.claim_names import REDACTED, TEAM, USER
from hmx_pipeline.compiler.knowledge.classifier import scores
from hmx_pipeline.compiler.knowledge.english import TEXT, Claim, Clause, read
from hmx_pipeline.compiler.knowledge.language import TONGUES, Language
from hmx_pipeline.compiler.knowledge.pasted import without_pasted
from hmx_pipeline.compiler.knowledge.plain_statements import clauses, spelt_out, spoken, stated
from hmx_pipeline.compiler.knowledge.rules import Policy, listed, policy
from hmx_pipeline.compiler.knowledge.statements import Stated, statement_of, whole
from hmx_pipeline.compiler.knowledge.updates import says_changed, updates
from hmx_pipeline.compiler.knowledge.word_lists import ANYTHING, HANGING
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.knowledge import Memory
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.intake.scan import finder
from hmx_pipeline.languages.detect import language_of
from hmx_pipeline.segments.masking import sentence as with_capital
from hmx_pipeline.segments.masking import shorten
from hmx_pipeline.segments.speakers import LABELS, speaker_of

_SETTINGS: Final = 3
"""Most settings of a message; a longer list was pasted."""
_REMARK: Final = 3
_SOUNDS: Final = -15
"""Fact score from which a sentence counts as a fact without a matching form."""
_UNLIKE: Final = -110
"""Fact score below which a sentence is no fact, although a form that fits nearly anything fits it."""
_REFUSES: Final = re.compile("(?:please )?(?:do not|never) ", re.IGNORECASE)
_TOLD: Final = (
    " uses ", " runs ", " written ", " hosted ", " stored ", " deployed ", " lives ", " built ", " based ", " depends ",
    " listens ", " connects ", " talks ", " requires ", " points ",
)  # fmt: skip
"""A statement of an assistant is read only if it contains one of these, because assistants write a lot."""
_tells: Final = finder(*_TOLD, strict=True)


@remembered(8 * MB)  # an open segment is extracted repeatedly
def claims(text: str, by: str) -> tuple[Claim, ...]:
    """Return the claims. `by`: `user` or `assistant`; a name before the first colon is the speaker. What assistants say
    about themselves, or about what they were told to do, is no claim."""
    who = speaker(text)
    if by != USER and not who and not _tells(text):
        return ()
    tongue = TONGUES[language_of(text)]
    if who:
        text, by = text[len(who) + 1 :].lstrip(), USER
    found = list(_settings(without_pasted(text))) if by == USER else []
    corrects = tongue.says["corrects"].match(text) is not None
    ruled = listed(text) if by == USER and not who else None
    for said in spoken(text, () if by == USER else _TOLD):
        plain = stated(said, tongue)
        changed = bool(plain) and (corrects or says_changed(plain, tongue))
        wanted = policy(said, listed=said in ruled) if ruled is not None else None
        # `Update: we deploy with Plover now` looks like a rule, but it updates a fact.
        told = _claims_of(plain, who, by, tongue, changed) if plain and (changed or wanted is None) else ()
        if wanted is not None and not told:
            found.append(_instruction(wanted))
        elif plain and not told and by == USER and not who:
            told = _sounding(said, plain, tongue)
        timed = plain if tongue.says["since"].search(plain) or tongue.says["until"].search(plain) else ""
        found += (one._replace(updates=changed, said=timed) for one in told)
    return tuple(dict.fromkeys(found))


def speaker(text: str) -> str:
    """Return the speaker's name; a label such as `Language: Rust` is not one."""
    who = speaker_of(text)
    says = TONGUES[language_of(text)].says if who else {}
    return "" if who and any(says[name].match(text.strip()) for name in ("slots", "path")) else who


def _claims_of(said: str, who: str, by: str, tongue: Language, changed: bool) -> Sequence[Claim]:
    untrue = tongue.says["untrue"].match(said)
    if tongue.code == "en":
        plain = said[untrue.end() :] if untrue is not None else said
        plain = tongue.led(plain) if changed else plain
        neither = forms.NEITHER.fullmatch(plain)
        parts = [plain] if neither is None else [f"{neither['said']} {neither[value]}" for value in ("one", "other")]
        found = [
            claim
            for part in parts
            for at, clause in enumerate(clauses(part))
            if (claim := read(Clause(clause, who), by)) is not None
            and not (at and who and claim.subject == TEAM)  # in `I met Ana and we …` they are no team
        ]
        text = with_capital(shorten(said.rstrip(" .!"), TEXT))
        if changed and not who:  # what is lacked now was there before, so the words that say so stay
            found = [
                claim._replace(text=text) if claim.denies and claim.predicate == "has" else claim for claim in found
            ]
        if untrue is not None or neither is not None:
            return [claim._replace(denies=True, text=text) for claim in found if not claim.denies]
        if found or by != USER or who:
            return found
    one = statement_of(said, tongue, changed=changed)
    if one is None or by != USER or _has_ended(one, said):
        return []
    claim = _from(one, who, tongue)
    loose = tongue.code == "en"
    if claim is None or (loose and not one.assigns and scores(said).fact < _UNLIKE):
        return []
    return [claim._replace(loose=loose)]


def _sounding(said: str, plain: str, tongue: Language) -> Sequence[Claim]:
    """Return the claim of a sentence that fits no form but that the classifier takes for a fact, about its subject or
    the team. A value such as `it` gives nothing."""
    one = whole(plain, tongue) if scores(said).fact >= _SOUNDS else None
    if one is None or one.value.split()[0].lower() in ANYTHING:
        return []
    claim = Clause(one.text, "").claims(
        Memory.FACT, one.subject, one.predicate, one.value, denies=one.denies, plural=True
    )
    return [claim._replace(loose=True)] if claim is not None else []


def _has_ended(one: Stated, said: str) -> bool:
    """Return True if the value names what the sentence says has ended. The new value is recorded where the old one
    stood."""
    olds = (re.escape(update.old) for update in updates(said) if update.old)
    return any(re.search(rf"(?a:(?<![\w-]){old}(?![\w-]))", one.value) for old in olds)


def _from(one: Stated, who: str, tongue: Language) -> Claim | None:
    """Make a claim from the language's own forms. A thing can be only one thing at a time, except in English, which has
    its own forms."""
    copula = tongue.says["copula"].match(one.predicate) is not None
    if not one.assigns and not _lasts(one, tongue, copula=copula):
        return None
    plural = (tongue.code == "en" and not copula) or tongue.says["plural"].match(one.predicate) is not None
    subject = one.subject.replace(USER, who, 1) if who and one.subject.startswith(USER) else one.subject
    return Clause(one.text, who).claims(
        Memory.FACT, subject, one.predicate, one.value, denies=one.denies, plural=plural
    )


def _lasts(one: Stated, tongue: Language, *, copula: bool) -> bool:
    """Return True if the statement is more than a passing state."""
    told = forms.NAMED.match(one.value) or tongue.says["lasting"].match(one.value)
    if copula and not told and not one.subject.startswith((TEAM, USER)):
        return False
    return tongue.code != "en" or (one.value.split()[-1].lower() not in HANGING and _specific(one))


def _specific(one: Stated) -> bool:
    """Return True if it contains a name, or is long enough to be more than a remark."""
    said = f"{one.subject} {one.value}".split()
    return len(said) > _REMARK or any(forms.NAMED.fullmatch(word) for word in said[1:])


def plain_text(about: Mapping[str, Any], value: str, *, denies: bool) -> str:
    """Return a claim in nobody's words. `about`: what it is about, as in a contribution's body."""
    if about["memory"] == Memory.POLICY:
        return f"{'Never' if denies else 'Always'} {about['subject']}"
    return f"{'not true: ' if denies else ''}{about['subject']} {about['predicate']} {value}"


def policy_claim(instruction: str) -> Claim:
    """Make a claim from a text that is known to be a standing instruction."""
    plain = spelt_out(" ".join(instruction.split())).rstrip(" .!")
    refused = _REFUSES.match(plain)
    known = policy(plain) or Policy(plain[refused.end() :] if refused else plain, refused is not None, plain)
    return _instruction(known)


def _instruction(wanted: Policy) -> Claim:
    """Make a policy claim. A ban denies that the action is always done."""
    text = shorten(wanted.text, TEXT)
    return Claim(Memory.POLICY, wanted.action, "is done", "always", wanted.never, False, text, loose=wanted.loose)


def _settings(text: str) -> Iterator[Claim]:
    """Yield the claims of a message that consists of a few settings."""
    lines = [line for line in text.strip().split("\n") if line.strip()]
    if not 0 < len(lines) <= _SETTINGS:
        return
    matches = [match for match in map(forms.SETTING.match, lines) if match is not None]
    if len(matches) < len(lines) or any(not _sets(match) for match in matches):
        return
    for match in matches:
        name, value = match[1], match[3].rstrip(".")
        yield Claim(Memory.FACT, name, "is", value, False, False, f"{name} is {value}")


def _sets(match: re.Match[str]) -> bool:
    return match[1].capitalize() not in LABELS and (match[2] == "=" or match[1].islower()) and REDACTED not in match[3]
