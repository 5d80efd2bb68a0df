"""Pasted text in a message: what its author only shows, such as a page, a mail, a log, a quote or a transcript.

Input: a message. Output: the message with a mark instead of each pasted part, so that no sentence joins what stood
around it. What an introduction announces (`Here is the page:`) is pasted up to the message's end, because whoever wrote
the page decides what it contains, closing marks included. When in doubt text counts as pasted: then it states nothing.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hmx_pipeline.compiler.knowledge.language import TONGUES
from hmx_pipeline.contracts.bounded_cache import once
from hmx_pipeline.intake.scan import Prefiltered
from hmx_pipeline.languages.cues import cue
from hmx_pipeline.segments.speakers import LABELS, speaker_of

MARK: Final = "\0"
"""Stands for pasted text."""
_LOOKS: Final = re.compile(
    r"[\n:：<`~\"“„«「『>|#\\\[{\u00ad\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]|--"
)
_TYPED: Final = re.compile(r"[\u00ad\u200b\u202a-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]")
"""Characters that nobody types, and that hide text or its order."""
_FENCE: Final = re.compile(r"```.*?(?:```|\Z)|~~~.*?(?:~~~|\Z)", re.DOTALL)
_OPENING: Final = re.compile(r"<!--|<(\w[\w:-]*)(?:\s[^<>]*)?>")
_CLOSING: Final = re.compile(r"</(\w[\w:-]*)\s*>")
_SHOWN: Final = (
    ">",
    "|",
    "#",
    "//",
    "$ ",
    "+++",
    "---",
    "@@",
    "⏺",
    "⎿",
    "❯",
    "│",
    "\t",
    "    ",
    "![",
    "[//]",
    "=== ",
    "-- ",
    "/*",
)
"""How quoted or pasted lines begin."""
_LOGGED: Final = re.compile(
    r"\[?\d{4}-\d\d-\d\d[T ]\d\d:\d\d|\[?\d\d:\d\d:\d\d|\[\d\d?:\d\d|\d\d?:\d\d(?: ?[APap][Mm])? [-–—] "
    r"|\[?(?:TRACE|DEBUG|INFO|WARN(?:ING)?|ERROR|FATAL)\b[\]:]?\s"
)
_TAG: Final = re.compile(r"</?[a-z][\w:-]*(?:\s[^<>]*)?/?>", re.IGNORECASE)
_TEMPLATE: Final = re.compile(r"<\||<<|\[/?INST\]")
"""How chat templates of models mark whose turn it is."""
_OBJECT: Final = re.compile(r"\s*[\[{]+\s*(?:[\"'}\]]|$)")
_CLOSED: Final = re.compile(r".*[\]}]\s*[,;]?\s*$")
_COPIED: Final = re.compile(
    r"Traceback \(|diff --git |@@ -\d"
    r"|\s*\{?\\(?:begin|documentclass|rtf)\b|BEGIN:V|\$ \S|[\w.-]+@[\w.-]+:[^ ]*[$#] "
    r"|\[[^\]]*\.\w{2,4}\]\s*$|[\w-]+\.[a-z]{2,4}\s*$"
    r"|.{0,80}\b(?:\d+|an?) (?:second|minute|hour|day|week|month|year)s? ago\W*$|\d\d?:\d\d(?: ?[APap][Mm])?\s*$"
    r"|.{0,80}\b\d+ (?:votes?|upvotes?|likes?|points?|replies)\W*$"
)
"""What begins something forwarded or copied: the head of a diff, of a document or a file, a shell's
prompt, and when somebody wrote a message, or how many liked it."""
_RULER: Final = frozenset("-_=*")
_LETTER_OR_DIGIT: Final = re.compile(r"\w")
_FRONT: Final = re.compile(r"\A---\n.*?(?:^---\s*$|\Z)", re.DOTALL | re.MULTILINE)
"""What a page says of itself before it begins."""
_OPENED: Final = re.compile(r"[\"“„«「]([^\"”“»」\n]*)$")
_ENDS: Final = {'"': '"', "“": "”", "„": "“”", "«": "»", "「": "」"}
_CLOSES: Final = frozenset("".join(_ENDS.values()))
_NAME: Final = r"[A-ZÀ-Þ](?:['’][A-ZÀ-Þ]|c[A-Z])?[a-zß-ÿ]+(?:[-'’][A-Za-zÀ-ÿ]+)?\.?"
_NAMED: Final = re.compile(
    rf"[*_@<]*(?P<first>{_NAME})(?P<more>(?: {_NAME}){{0,2}}(?: ?[(\[][^)\]]{{1,40}}[)\]])?)[*_]*(?::[*_]*\s|>)"
    rf"|(?:{_NAME} ){{1,2}}{_NAME}:$|(?:[A-ZÀ-Þ]{{2,}} ){{1,2}}[A-ZÀ-Þ]{{2,}}:\s"
    r"|@[\w.-]{1,40}:\s|[A-Z][A-Z0-9]{1,9}-\d{1,7}:\s|<@?[a-z][\w.-]{0,40}> "
)
"""A speaker in front of a line: `Eve Smith (Sales): `, `**Eve**: `, `@eve: `, `<eve> `, or a ticket: `OPS-12: `."""
_COLON: Final = re.compile(r".{1,160}(?:[:：]|\.\.\.|…)\s*$|.{1,120}?(?::\s|：)")
_HEADERS: Final = re.compile(rf"\s*(?:{cue('headers').pattern})\s?[:：]", re.IGNORECASE)
_ROLE: Final = re.compile(rf"[\s#*<\[(]*/?(?:{cue('roles').pattern})(?:\s?[:：]|[\])>]|\s*$)", re.IGNORECASE)
_LETTER: Final = re.compile(rf"\s*(?:{cue('salutes').pattern})[^.!?:,]{{0,60}},\s*$", re.IGNORECASE)
_SOURCES: Final = Prefiltered(cue("sources"))
_REPORTS: Final = Prefiltered(cue("quotes"))
_HANDLES: Final = Prefiltered(cue("handles"))
_POINTS: Final = Prefiltered(cue("shows"))
_DECLARES: Final = Prefiltered(cue("declares"))


@once  # for a message's settings, then for its sentences
def without_pasted(text: str) -> str:
    """Return the message as its author wrote it."""
    if _LOOKS.search(text) is None:
        return text
    if text.count("```") % 2:
        text = text[: text.index("```")]
    if "<" in text:
        text = _without_markup(text)
    lines = _FRONT.sub(MARK, text).split("\n")
    kept = [*_own(lines)]
    return _FENCE.sub(f" {MARK} ", "\n".join(kept))


def _without_markup(text: str) -> str:
    """Replace elements, up to the first tag that closes each, and comments."""
    closings: dict[str, list[re.Match[str]]] = {}
    for found in reversed([*_CLOSING.finditer(text)]):
        closings.setdefault(found[1], []).append(found)
    parts, at = [], 0
    for opening in _OPENING.finditer(text):
        begin, end = opening.span()
        if begin < at:
            continue
        if opening[1] is None:
            closed = text.find("-->", end)
            over = len(text) if closed < 0 else closed + len("-->")
        else:
            after = closings.get(opening[1], [])
            while after and after[-1].start() < end:
                after.pop()
            if not after:
                continue
            over = after[-1].end()
        parts += [text[at:begin], f" {MARK} "]
        at = over
    return "".join([*parts, text[at:]])


def _is_ruled(line: str) -> bool:
    """Return True for a ruler with words, or the head of a diff, which begins what was forwarded or copied."""
    if _COPIED.match(line):
        return True
    ruled = line.rstrip()
    ends = _RULER.issuperset(ruled[:2]) and _RULER.issuperset(ruled[-3:])
    return ends and _LETTER_OR_DIGIT.search(ruled, 2, max(len(ruled) - 3, 0)) is not None


def _own(lines: Sequence[str]) -> Iterator[str]:
    """Yield each line, or a mark for a pasted one, up to the first that begins what somebody else wrote."""
    shown, speaking, fenced, until = False, False, False, ""
    last = max((at for at, line in enumerate(lines) if line.strip()), default=-1)
    closed = {mark: max((at for at, line in enumerate(lines) if mark in line), default=-1) for mark in _CLOSES}
    for at, line in enumerate(lines):
        if fenced or line.startswith(("```", "~~~")):
            fenced ^= line.startswith(("```", "~~~"))
            yield line
            continue
        speaks = (at > 0 or not speaker_of(line)) and _speaks(line)  # the caller judges one before the whole message
        following = lines[at + 1] if at + 1 < len(lines) else None
        begins = 0 if at and _LETTER.match(line) else _begins(line, following, follows=at < last)
        if begins >= 0:
            yield f"{line[:begins]} {MARK}"
            return
        if until:
            over = any(mark in line for mark in until)
            until = "" if over else until
            yield MARK
            continue
        shown = bool(line.strip()) and (shown or line.startswith(">"))
        speaking = bool(line.strip()) and (speaking or speaks)
        until = _until(line, closed, at)
        yield MARK if until or shown or speaking or _is_shown(line) else line


def _speaks(line: str) -> bool:
    """Return True if a speaker's name stands before the line, and not a label, or a word for an update."""
    named = _NAMED.match(line)
    if named is None:
        return False
    first, *more = f"{named['first'] or ''}{named['more'] or ''}".split() or [""]
    if any(tongue.says["corrects"].match(line) for tongue in TONGUES.values()):
        return False
    return first.capitalize() not in LABELS and (not more or more[-1].capitalize() not in LABELS)


def _is_shown(line: str) -> bool:
    return (
        line.startswith(_SHOWN)
        or _LOGGED.match(line) is not None
        or _TYPED.search(line) is not None
        or (_OBJECT.match(line) is not None and _CLOSED.match(line) is not None)
    )


def _until(line: str, closed: Mapping[str, int], at: int) -> str:
    """Return what closes a quote that the line opens and leaves open. `closed` names each mark's last line."""
    if _OBJECT.match(line) is not None and _CLOSED.match(line) is None:
        return MARK  # no line has it, so to the message's end
    opened = _OPENED.search(line)
    if opened is None or (opened[0][0] == '"' and line.count('"') % 2 == 0):
        return ""
    marks = _ENDS[opened[0][0]]
    return marks if any(closed[mark] > at for mark in marks) else ""


def _begins(line: str, following: str | None, *, follows: bool) -> int:
    """Return where in the line somebody else's text begins that lasts to the message's end; -1 if it does not.
    `follows` is True if a later line is not blank."""
    if _is_ruled(line) or _TEMPLATE.search(line) or _ROLE.match(line) or _TAG.match(line):
        return 0
    if _HEADERS.match(line) and following is not None and _HEADERS.match(following):
        return 0
    colon = _COLON.match(line)
    if colon is not None and (follows or line[colon.end() :].strip()) and _introduces(line, colon.end()):
        return colon.end()
    if not follows:
        return -1
    last = not (following or "").strip()
    if last and _asks_of(line):
        return len(line)
    handles = _HANDLES.search(line)
    points = handles is not None and (_POINTS.search(line, handles.start()) or (line.endswith("?") and last))
    return len(line) if points else -1


def _asks_of(line: str) -> bool:
    """Return True if a paragraph asks about a source (`What does this page say?`) or says what it states (`The README
    says`), so that the source is what comes next."""
    if _SOURCES.search(line) is None:
        return False
    if line.rstrip().endswith(("?", "？")):
        return _POINTS.search(line) is not None
    return any(found.end() == len(line.rstrip(" .…")) for found in _REPORTS.finditer(line))


def _introduces(line: str, end: int) -> bool:
    """Return True if the words up to the colon announce a text of somebody else."""
    before = line[:end].rstrip(" :：.…")
    handles = _HANDLES.search(before)
    if handles is not None and (handles.end() == len(before) or _POINTS.search(before) is not None):
        return True
    declared = [*_DECLARES.finditer(before)]
    if declared and declared[-1].end() == len(before):
        return False
    source = _SOURCES.search(before)
    if line[end:].strip():
        return _REPORTS.search(before) is not None or (
            source is not None
            and (_POINTS.match(before) is not None or _POINTS.search(before, source.end()) is not None)
        )
    return (source is not None and _POINTS.search(before) is not None) or _REPORTS.search(before) is not None
