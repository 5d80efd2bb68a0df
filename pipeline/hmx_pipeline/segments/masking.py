"""Masking of ids, numbers, dates, paths and quotes in texts, and readable phrases from masked texts.

Input: a text and the argument values of its call. Output: the text with masks such as `<num>`, equal for every
occurrence of one kind of message.
"""

import re
from collections.abc import Iterable
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB

# Parts that may start at every word are bounded. Otherwise each start would scan the whole run.
_URL: Final = r"\b[A-Za-z][A-Za-z0-9+.-]{0,31}://[^\s\"'<>)\]]+"
_VARIES: Final = re.compile(
    rf"(?P<url>{_URL})"
    r"|(?P<email>\b[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+)"
    r"|(?P<uuid>\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b)"
    r"|(?P<date>\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)?\b)"
    r"|(?P<time>\b\d{1,2}:\d\d(?::\d\d)?(?:[.,]\d+)?\b)"
    r"|(?P<ip>\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b)"
    r"|(?P<hex>\b0x[0-9a-f]+\b|\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,}\b)"
    r"|(?P<id>\#?\b(?=[\w-]{0,63}\d)(?=[\w-]{0,63}[a-z_])\w[\w-]*\b)"
    r"|(?P<num>[-+]?[$€£#]?\b\d(?:[\d,.]*\d)?\b%?)",
    re.IGNORECASE,
)
_PLACES: Final = re.compile(
    rf"(?P<url>{_URL})"
    r"|(?P<quoted>\"[^\"\n]*\"|`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)|“[^”\n]*”)"
    r"|(?P<path>(?<![\w<])(?:~|\.{1,2}|[A-Z]:)?[/\\][\w.@~-]+(?:[/\\][\w.@~-]*)*"
    r"|\b[\w.-]{1,64}(?:/[\w.-]+)+|\b[\w-]{1,64}\.[a-z]{1,4}\b)"
)
_REPEATED: Final = re.compile(r"(<\w+>)(?:[\s,;]*(?:and )?\1)+")
_MASK: Final = re.compile(r"(?<!\s)\s*(?:\[\w* ?<\w{1,12}>\]|\(<\w{1,12}>\)|<\w{1,12}>)%?")  # producers write masks too
_LINK: Final = r"on|at|in|for|from|to|of|with|by|after|within|until"
_DANGLING: Final = re.compile(
    rf"[\s,;:=(\[](?:{_LINK}|than|is|are|was|and|or|but|the|a|an|line|column|char|date)$", re.IGNORECASE
)
_DANGLING_LENGTH: Final = 7  # the longest, `column` or `within`, and the character before it
_BEFORE_DANGLING: Final = " \t\n\r\f\v,;:=(["
_DANGLING_AT: Final = re.compile(rf"\s(?!to \w)(?:{_LINK})(?: \w+)?\s*(?=<\w+>\s*$)", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"[;:,.]\s+|\s[-–—|]\s+|\s\((?=[^()<]*<)")
_SUGGESTS: Final = re.compile(r"(?<![\s.;,])[\s.;,]*\b(?:did|perhaps|maybe) you mean\b.*", re.IGNORECASE)
_LEADING: Final = re.compile(r"^(?:<\w+>\s*:\s+)+")
_AT_END: Final = re.compile(rf"\s(?:{_LINK})(?: (?:the|a|an))? <\w+>$")
_AT_LENGTH: Final = 12  # the longest link with an article, and the spaces around them
_ASIDE: Final = re.compile(r"\s\([^()]*\)")
_MASKED: Final = re.compile(r"<\w+>")
_OF_MASKED: Final = re.compile(rf"\s(?:{_LINK})(?: (?:the|a|an))? <\w+>(?= [a-z])")
_NAMES: Final = re.compile(
    r"\b(named|called|attribute|module|variable|argument|option|flag|field|column|key|name) <\w+>", re.IGNORECASE
)
_QUOTED: Final = re.compile(r"([\"'`])(<\w+>)\1")
_JOINED: Final = re.compile(
    r"(?<![\w./:@~+-])[\w./:@~+-]*[\w)][/@:.~-]+<\w+>[\w./:@~+<>-]*|<\w+>[/@:.~-]+[\w<][\w./:@~+<>-]*"
)
_LABEL: Final = re.compile(r"^(?:(?:error|exception|fatal|failed|failure|warning|err)\s*[:!-]+\s*)+", re.IGNORECASE)
_TAG: Final = re.compile(r"</?[a-z][a-z_-]*>")
_TELLING: Final = re.compile(
    r"error|exception|fail|not found|cannot|can't|denied|invalid|missing|refused|timed? ?out|conflict|unknown|unable"
    r"|could not|couldn't|(?:did|does|do) not|no such|no module|not (?:allowed|permitted|recognized|supported|defined)"
    r"|unexpected|mismatch|ambiguous|rejected|fatal|illegal|unsupported|unrecogni[sz]ed|already (?:exists|in use|used)"
)
_LOCATED: Final = re.compile(r"\s*[\w./@+-]*\w\.\w{1,5}:\d+(?::\d+)?:\s*\S.*")
_LOGGED: Final = re.compile(r"\b(?:INFO|DEBUG|TRACE)\b|\blevel=(?:info|debug)\b")
_TESTED: Final = re.compile(r"\s*(?:-{3} FAIL|={3} RUN|FAIL(?:ED)?\b|not ok\b|[✗✘×●✕])")
_ANNOUNCED: Final = re.compile(r"\s*(?:\[[\w:.-]+\] \$|[#$>%] |[=*_~#-]{3}.*[=*_~#-]{3}$)")
_THAT_IT_FAILED: Final = re.compile(
    r"(?:\[[\w:.-]+\])?(?:[\W\d_]|\b(?:error|fail(?:ed|ure)?|exit(?:ed)?|code|status|task|command|process|returned|non|zero|with|tests?"
    r"|build|the|make)\b)*",
    re.IGNORECASE,
)
_SAID: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]{2}|[^\W\d_](?:[^\W\d_]|['-])+")
"""A word of any language; two letters of a script without spaces."""
_SENTENCE_WORDS: Final = 2
_CUT_WORDS: Final = 3
_VALUE_MIN: Final = 3  # shorter argument values are parts of ordinary words


def _named(match: re.Match[str]) -> str:
    return f"<{match.lastgroup}>"


def mask_ids(text: str, values: Iterable[str] = ()) -> str:
    """Mask ids, numbers, times, addresses and the call's argument values. Quotes and paths stay."""
    return _REPEATED.sub(r"\1", _VARIES.sub(_named, _mask_values(text, values)))


@remembered(8 * MB)
def mask(text: str, values: tuple[str, ...] = ()) -> str:
    """Mask what `mask_ids` does, and quotes and paths."""
    placed = _PLACES.sub(_named, _mask_values(text, values))
    return " ".join(_REPEATED.sub(r"\1", _VARIES.sub(_named, placed)).split())


def _mask_values(text: str, values: Iterable[str]) -> str:
    for value in sorted({v for v in values if len(v) >= _VALUE_MIN}, key=lambda v: (-len(v), v)):
        if value in text:
            text = re.sub(rf"(?<![\w<]){re.escape(value)}(?![\w>])", "<value>", text)
    return text


def telling_line(text: str) -> str:
    """Return the most informative line of an error: the last of a traceback, else the first that mentions a failure,
    else the first."""
    lines = _lines(text)
    if not lines:
        return ""
    return lines[-1] if lines[0].startswith("Traceback") else next(filter(_tells, lines), lines[0])


def _tells(line: str) -> bool:
    """Compare in lower case, with what an expression takes for `i` and `s` too: that ignores case ten times slower."""
    return _TELLING.search(line.replace("İ", "i").replace("ı", "i").replace("ſ", "s").lower()) is not None


@remembered(2 * MB)  # an open segment is extracted repeatedly
def what_failed(error: str, output: str) -> str:
    """The telling line of an error's text, or, where that only announces what was run or repeats that it failed, the
    first of the output that says more: its only line does in any language. Where a place in a file or a test is named,
    it is one of many: no line."""
    said = telling_line(error)
    if not _says_nothing(said):
        return said
    lines = _lines(output)
    more = (line for line in lines if (len(lines) == 1 or _tells(line)) and not _says_nothing(line))
    return next((line for line in more if not _LOCATED.match(line)), "")


def _lines(text: str) -> list[str]:
    text = _TAG.sub(" ", text) if "<" in text else text
    lines = (" ".join(line.split()) for line in text.splitlines())
    return [line for line in lines if any(map(str.isalpha, line))]


def _says_nothing(line: str) -> bool:
    return _LOGGED.search(line) is not None or _THAT_IT_FAILED.fullmatch(line) is not None or _announces(line)


def _announces(line: str) -> bool:
    """Return True for a heading, an echoed command, or a label such as `Usage:`."""
    if _ANNOUNCED.match(line) or _TESTED.match(line):
        return True
    masked = mask(line)
    words = _SAID.findall(_MASK.sub(" ", masked))
    return len(words) < _SENTENCE_WORDS and (masked != line or line.endswith(":"))


def unlabelled(text: str, kind: str = "") -> str:
    """Remove a leading `Error:` or error class, and a suggestion such as "did you mean"."""
    text = text.strip()
    if "you mean" in text.lower():
        text = _SUGGESTS.sub("", text)
    if kind and text.startswith(f"{kind}: "):
        return text[len(kind) + 2 :]
    return _LABEL.sub("", text) or text


@remembered(2 * MB)
def readable(masked: str, limit: int = 90) -> str:
    """Turn a masked text into a phrase without masks; `…` stands for a name. Takes the clauses before the first mask;
    if that is too little, a clause with one mask cut out, or the longest clause without masks."""
    whole = _NAMES.sub(r"\1 …", _QUOTED.sub(r"\2", _JOINED.sub("<path>", masked)))
    masked = _ASIDE.sub(_unless_masked, _OF_MASKED.sub(" ", _LEADING.sub("", whole)))
    clauses = [found for found in _clauses(masked) if any(c.isalpha() for c in _MASK.sub("", found))]
    text = _up_to_mask(masked, 0)
    if len(text.split()) < _SENTENCE_WORDS:
        unmasked = [clause for clause in clauses if not _MASK.search(clause) and len(clause.split()) > 1]
        first = clauses[0] if clauses else ""
        cut = len(_MASK.findall(first)) == 1 and len(_MASK.sub("", first).split()) >= _CUT_WORDS
        text = _up_to_mask(masked, 1) if cut else max(unmasked or clauses, key=len, default="")
    text = _without_dangling(_MASK.sub("", _DANGLING_AT.sub(" ", text)).strip())
    return _within(" ".join(text.split()).strip(" .,:;-("), limit)


def _unless_masked(aside: re.Match[str]) -> str:
    return "" if _MASKED.search(aside[0]) else aside[0]


def _without_dangling(text: str) -> str:
    end = len(text)
    while (last := _DANGLING.search(text, max(0, end - _DANGLING_LENGTH), end)) is not None:
        end = last.start()
        while end > 0 and text[end - 1] in _BEFORE_DANGLING:
            end -= 1
    return text[:end]


def _clauses(text: str) -> list[str]:
    return [clause.strip() for clause in _CLAUSE.split(text)]


def _up_to_mask(masked: str, allowed: int) -> str:
    """Return whole clauses with at most `allowed` masks. A mask in a place at the end ("at <path>") does not count."""
    masks, before, kept = [found.span() for found in _MASK.finditer(masked)], 0, 0
    for end in [found.start() for found in _CLAUSE.finditer(masked)] + [len(masked)]:
        while before < len(masks) and masks[before][1] <= end:
            before += 1
        at_end = before > 0 and _AT_END.search(masked, max(0, masks[before - 1][0] - _AT_LENGTH), end) is not None
        if before - at_end <= allowed:
            kept = end
    return masked[:kept]


def _within(text: str, limit: int) -> str:
    """Shorten to whole sentences if they fill a third of the limit, else between words."""
    sentences = text[:limit].rfind(". ") if len(text) > limit else -1
    return text[:sentences] if sentences >= limit // 3 else shorten(text, limit)


def shorten(text: str, limit: int) -> str:
    """Cut between words to at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1].rsplit(" ", 1)[0].rstrip(" ,;:.-") + "…"


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return text[:1].upper() + text[1:]
