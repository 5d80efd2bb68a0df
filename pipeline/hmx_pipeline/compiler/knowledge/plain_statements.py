"""Sentence and clause splitter: the plain statements in a message, with contractions spelt out.

Input: a message, or one of its sentences. Output: the sentences that its author states or orders (`sentences`), or
their clauses (`clauses`). It favours precision. A sentence that asks, supposes, hopes, reports what others say, quotes,
or shows code gives nothing at all.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from hmx_pipeline.compiler.knowledge import word_lists
from hmx_pipeline.compiler.knowledge.forms import INSTEAD, NAMED, REPLACED, clause_form
from hmx_pipeline.compiler.knowledge.language import Language
from hmx_pipeline.compiler.knowledge.pasted import MARK, without_pasted
from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.intake.scan import Prefiltered
from hmx_pipeline.languages import of_all

_CODE: Final = re.compile(r"`([^`\n]*)`")
_QUOTE: Final = re.compile(
    r"\"([^\"\n]*)\"|„([^“”\n]*)[“”]|“([^”\n]*)”|«([^»\n]*)»|(?<!\w)'([^'\n]*)'(?!\w)|(?<!\w)‘([^’\n]*)’(?!\w)"
    r"|「([^」\n]*)」|『([^』\n]*)』"
)
_QUOTES: Final = frozenset("\"“„«'‘`「『")
_WHOLE: Final = re.compile(rf"{_CODE.pattern}|{_QUOTE.pattern}")
_KEPT: Final = "\2"
"""Placeholder for code and quotes while a line is split into sentences."""
_WIDE_END: Final = re.compile("(?<=[。！？])")
"""End of a sentence, whatever follows."""
_NAME_WORDS: Final = 2
"""A quote of at most so many words may be a name; a longer one is a quotation."""
_CODE_WORDS: Final = 4
_BULLET: Final = re.compile(r"\s*(?:[-*•]|\d{1,2}[.)])\s+")
_SENTENCE: Final = re.compile(r"[^.!?。！？]+(?:[.!?](?=\S)[^.!?。！？]*)*[.!?。！？]*")
_ENGLISH: Final = "en"
_ABBREVIATIONS: Final = frozenset(
    word for table in of_all("language").values() for word in table.get("abbreviations", "").split()
)

_CONTRACTED: Final = Prefiltered(clause_form("contracted"))
_APOSTROPHES: Final = frozenset("'’")
_SPELT: Final = {
    "do": "do not", "let": "let us", "can": "can not", "will": "will not", "not": "{} not", "am": "{} am",
    "are": "{} are", "have": "{} have", "would": "{} would", "shall": "{} will", "is": "{} is", "any": "anymore",
}  # fmt: skip
_NO_PROSE: Final = ("://", "->", "<-", "=>", "==")
_MAY: Final = re.compile(r"\bmay (?!\d)[a-z]")
_LEAD: Final = clause_form("lead")
_CONCLUDES: Final = re.compile(r"\s*(?:so|but|then|thus|therefore|hence|wait|hmm+|ok(?:ay)?)\b", re.IGNORECASE)
_TRAILING: Final = clause_form("trailing")
_TRAIL: Final = 32  # the longest, and the character before it
_LOOSE: Final = " \t,;:.!)–—-"
_PARTS: Final = Prefiltered(clause_form("parts"))
_WORD: Final = re.compile(r"[a-z][a-z.'-]*[a-z]|[a-z]")
_WORDS_MOST: Final = 40
_ORDERS: Final = frozenset(("always", "never", "not", "stop"))


@remembered(2 * MB)  # for claims, then for updates
def spoken(text: str, telling: Sequence[str] = ()) -> list[str]:
    """Return the sentences that the author states or orders. Questions and pasted text are left out; code and quotes
    stay. `telling`: only sentences that contain one of these words and do not begin with `so`, `but` and the like."""
    spoken = []
    for line in without_pasted(text).split("\n"):
        if not line or (telling and not any(word in line for word in telling)):
            continue
        bullet = _BULLET.match(line)
        plain = (line[bullet.end() :] if bullet is not None else line).replace("**", "").replace(_KEPT, "")
        kept = [match[0] for match in _WHOLE.finditer(plain)] if not _QUOTES.isdisjoint(plain) else []
        plain = _WHOLE.sub(_KEPT, plain) if kept else plain
        left = iter(kept)
        for found in (one for part in _WIDE_END.split(plain) for one in _ended(_SENTENCE.findall(part))):
            whole = " ".join(_restored(found, left).split())
            if not whole or found[-1] in "?？" or MARK in found:
                continue
            if telling and (_CONCLUDES.match(found) or not any(word in found for word in telling)):
                continue
            spoken.append(whole)
    return spoken


def _ended(parts: Sequence[str]) -> Iterator[str]:
    """Join what a period after an abbreviation has split."""
    begun = ""
    for part in parts:
        begun += part
        if not (part.endswith(".") and part[:-1].rpartition(" ")[2].lower() in _ABBREVIATIONS):
            yield begun
            begun = ""
    if begun:
        yield begun


def _restored(found: str, kept: Iterator[str]) -> str:
    first, *others = found.split(_KEPT)
    return first + "".join(f"{next(kept)}{other}" for other in others)


def sentences(text: str, telling: Sequence[str] = (), tongue: Language | None = None) -> Iterator[str]:
    """Yield the sentences that state or ask for something, without polite openings."""
    return filter(None, (stated(found, tongue) for found in spoken(text, telling)))


def stated(found: str, tongue: Language | None = None) -> str:
    """Return the sentence if it states or orders something, else "". In languages other than English (`tongue`), only
    quotes and code are excluded."""
    if tongue is not None and tongue.code != _ENGLISH:
        plain = _unquoted(found)
        return "" if MARK in plain else plain.strip()
    plain = plainly(found)
    return _stated(plain) if plain else ""


@remembered(MB)
def plainly(found: str) -> str:
    """Return the sentence without code marks and opening; empty if it quotes or shows more than a name."""
    plain = _unquoted(found)
    return "" if MARK in plain else _without_lead(spelt_out(" ".join(plain.split()).lstrip("(")))


def _unquoted(found: str) -> str:
    return found if _QUOTES.isdisjoint(found) else _QUOTE.sub(_named, _CODE.sub(_coded, found))


@remembered(MB)
def _stated(said: str) -> str:
    words = _WORD.findall(said.lower())
    if (
        not 1 < len(words) <= _WORDS_MOST
        or said.rstrip(" )*\"'").endswith("?")
        or any(mark in said for mark in _NO_PROSE)
    ):
        return ""
    if words[0] in word_lists.ASKING or (words[0] in ("do", "have") and words[1] in ("you", "we", "i", "they", "the")):
        return ""
    if not word_lists.SUPPOSING.isdisjoint(words) or _reports(words) or _MAY.search(said):
        return ""
    if word_lists.SUPPOSING_WITHIN.isdisjoint(words):
        return said
    lowered = f" {' '.join(words)} "
    return "" if any(phrase in lowered for phrase in word_lists.SUPPOSING_PHRASES) else said


def _reports(words: Sequence[str]) -> bool:
    """Return True if the sentence reports what others say. Orders such as `always mention the number` do not."""
    if word_lists.REPORTING.isdisjoint(words):
        return False
    start = next((at for at, word in enumerate(words) if word not in word_lists.ORDERING), len(words))
    if _ORDERS.isdisjoint(words[:start]):
        return True
    verb, *rest = words[start:] or [""]
    return not (word_lists.REPORTING - word_lists.REPORTS).isdisjoint(
        rest if verb in word_lists.TO_REPORT or verb.endswith("ing") else [verb, *rest]
    )


def spelt_out(text: str) -> str:
    """Spell out contractions."""
    if _APOSTROPHES.isdisjoint(text) and "any more" not in text and "annot" not in text:
        return text
    return _CONTRACTED.sub(_spell, text.replace("’", "'"))


def _spell(match: re.Match[str]) -> str:
    how = match.lastgroup or ""
    return _SPELT[how].format(match[how])


def clauses(sentence: str) -> Iterator[str]:
    """Yield the clauses of a sentence without trailing phrases."""
    for part in _PARTS.split(sentence):
        clause = without_trail(_without_lead(part))
        if clause and clause.split(" ", 1)[0].lower() not in word_lists.ASKING:
            yield from _one_by_one(clause)


def _one_by_one(clause: str) -> Sequence[str]:
    """Split a clause that names both what is used and what it replaces."""
    match = INSTEAD.fullmatch(clause) or REPLACED.fullmatch(clause)
    if match is None:
        return (clause,)
    who, new, old, purpose = match["who"], match["new"], match["old"], match["purpose"] or ""
    if match.re is REPLACED and not (NAMED.fullmatch(new) and NAMED.fullmatch(old)):
        return (clause,)
    uses = "moved to" if match.groupdict().get("moved") else "use"  # "moved to" may also be a place
    return f"{who} {uses} {new}{purpose}", f"{who} do not use {old}{purpose}"


def without_trail(text: str) -> str:
    end = _loose_end(text, len(text))
    while text[text.rfind(" ", 0, end) + 1 : end].lower() in word_lists.TRAILING and (
        match := _TRAILING.search(text, max(0, end - _TRAIL), end)
    ):
        end = _loose_end(text, match.start())
    text = text[:end]
    return f"{text})" if text.count("(") > text.count(")") else text


def _loose_end(text: str, end: int) -> int:
    while end and text[end - 1] in _LOOSE:
        end -= 1
    return end


def _without_lead(text: str) -> str:
    start = 0
    while (match := _LEAD.match(text, start)) and match.end() < len(text):
        start = match.end()
    return text[start:].strip()


def _named(match: re.Match[str]) -> str:
    inner = next(group for group in match.groups() if group is not None)
    short = 0 < len(inner.split()) <= _NAME_WORDS and not inner.endswith((".", "!", "?", ","))
    return inner if short else f" {MARK} "


def _coded(match: re.Match[str]) -> str:
    return match[1] if 0 < len(match[1].split()) <= _CODE_WORDS and "=" not in match[1] else f" {MARK} "
