"""What varies from one occurrence to the next, taken out of a text.

In: a text and its own argument values. Out: the text with masks like `<num>`, and from that a phrase that a person can
read. Nothing fails.
"""

import re
from collections.abc import Iterable
from typing import Final

_URL: Final = r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>)\]]+"
_VARIES: Final = re.compile(
    rf"(?P<url>{_URL})"
    r"|(?P<email>\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<uuid>\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\b)"
    r"|(?P<time>\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)"
    r"|(?P<hex>\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b)"
    r"|(?P<id>\#?\b(?=[\w-]*\d)(?=[\w-]*[a-z_])\w[\w-]*\b)"
    r"|(?P<num>[-+]?[$€£#]?\b\d(?:[\d,.]*\d)?\b%?)",
    re.IGNORECASE,
)
_PLACES: Final = re.compile(
    rf"(?P<url>{_URL})"
    r"|(?P<quoted>\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”)"
    r"|(?P<path>(?<![\w<])(?:~|\.{1,2}|[A-Z]:)?[/\\][\w.@~-]+(?:[/\\][\w.@~-]*)*"
    r"|\b[\w.-]+(?:/[\w.-]+)+|\b[\w-]+\.[a-z]{1,4}\b)"
)
_REPEATED: Final = re.compile(r"(<\w+>)(?:[\s,;]*(?:and )?\1)+")
_MASK: Final = re.compile(r"\s*(?:\[\w* ?<\w{1,12}>\]|\(<\w{1,12}>\)|<\w{1,12}>)%?")  # producers write some too
_LINK: Final = r"on|at|in|for|from|to|of|with|by"
_DANGLING: Final = re.compile(
    rf"(?:[\s,;:=(\[]+(?:{_LINK}|than|is|are|was|and|or|but|the|a|an|line|column|char|date))+\s*$", re.IGNORECASE
)
_DANGLING_AT: Final = re.compile(rf"\s(?:{_LINK})(?: \w+)?\s*(?=<\w+>\s*$)", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"[;:,.]\s+|\s[-–—|]\s+|\s\((?=[^)]*<)")
_LABEL: Final = re.compile(r"^(?:(?:error|exception|fatal|failed|failure|warning|err)\s*[:!-]+\s*)+", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[a-z][a-z_-]*>")
_TELLING: Final = re.compile(
    r"error|exception|fail|not found|cannot|can't|denied|invalid|missing|refused|timed? ?out", re.IGNORECASE
)
_VALUE_MIN: Final = 3  # shorter argument values are parts of ordinary words


def _named(match: re.Match[str]) -> str:
    return f"<{match.lastgroup}>"


def mask_ids(text: str, values: Iterable[str] = ()) -> str:
    """Ids, numbers, times, addresses and the call's own argument values masked; quotes and paths stay."""
    return _REPEATED.sub(r"\1", _VARIES.sub(_named, _mask_values(text, values)))


def mask(text: str, values: Iterable[str] = ()) -> str:
    """As `mask_ids`, quotes and paths too: what remains is the same for every occurrence of one kind of message."""
    placed = _PLACES.sub(_named, _mask_values(text, values))
    return " ".join(_REPEATED.sub(r"\1", _VARIES.sub(_named, placed)).split())


def _mask_values(text: str, values: Iterable[str]) -> str:
    for value in sorted({v for v in values if len(v) >= _VALUE_MIN}, key=lambda v: (-len(v), v)):
        if value in text:
            text = re.sub(rf"(?<![\w<]){re.escape(value)}(?![\w>])", "<value>", text)
    return text


def telling_line(text: str) -> str:
    """The line of an error's text that says most: a traceback's last, else the first that speaks of failing, else the
    first."""
    lines = [" ".join(_TAG.sub(" ", line).split()) for line in text.splitlines()]
    lines = [line for line in lines if any(c.isalpha() for c in line)]
    if not lines:
        return ""
    if lines[0].startswith("Traceback"):
        return lines[-1]
    return next((line for line in lines if _TELLING.search(line)), lines[0])


def unlabelled(text: str) -> str:
    """Without a leading `Error:`; every message would have it."""
    return _LABEL.sub("", text.strip()) or text.strip()


def readable(masked: str, limit: int = 90) -> str:
    """A phrase without masks: the clauses before the first, else the longest without, else the longest cut."""
    clauses = [clause.strip() for clause in _CLAUSE.split(masked) if any(c.isalpha() for c in _MASK.sub("", clause))]
    whole = []
    for clause in clauses:
        if _MASK.search(clause):
            break
        whole.append(clause)
    if len(" ".join(whole).split()) > 1:
        text = ": ".join(whole)
    else:
        unmasked = [clause for clause in clauses if not _MASK.search(clause) and len(clause.split()) > 1]
        text = max(unmasked or clauses, key=len, default="")
    text = _DANGLING.sub("", _MASK.sub("", _DANGLING_AT.sub(" ", text)).strip())
    return shorten(" ".join(text.split()).strip(" .,:;-"), limit)


def shorten(text: str, limit: int) -> str:
    """At most `limit` characters, cut between words."""
    if len(text) <= limit:
        return text
    return text[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:.-") + "…"


def sentence(text: str) -> str:
    """First letter in upper case."""
    return text[:1].upper() + text[1:]
