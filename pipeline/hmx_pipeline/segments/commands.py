"""Shell command parser: a command line becomes simple commands with program, words and options.

Input: a command line, and the options known to take no value. Output: at most eight `Simple`; a tool call becomes one
of them too (`call`), with its arguments as options, and a whole line one action (`whole_line`). No program is known by
name, only the shell's own syntax. An unclosed quote takes the rest of the line.
"""

import re
import sys
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import ACTION_COMMANDS, ACTION_WORDS, MB

_TOKEN: Final = re.compile(
    r"""(?P<comment>(?<![^\s;&|()])\#[^\n]*)|(?P<end>\|\||&&|\||;|&(?![>\d])|\n)|(?P<gap>[ \t()]+)
    |'(?P<plain>[^']*)'?|"(?P<quoted>(?:\\.|[^"\\])*)"?|\\(?P<escaped>.)|(?P<rest>[^\s'"\\|;&()]+|.)""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_HEREDOC: Final = re.compile(r"<<-?\s*['\"]?\w+['\"]?")
_SYNTAX: Final = frozenset(["if", "then", "elif", "else", "fi", "while", "until", "do", "done", "time", "!", "{", "}"])
_LOOPS: Final = frozenset(("for", "case", "select", "function"))
_REDIRECTION: Final = re.compile(r"(?:\d|&)?>>?(?:&\d)?|<")
_OPERATORS: Final = frozenset(["||", "&&", "|", ";", "&", ">", ">>", "<", "2>", "&>"])
_REDIRECTED: Final = re.compile(r"(?:(?:\d|&)?>>?|<)(?:&\d|[^>&<\s].*)", re.DOTALL)
_NAME: Final = re.compile(r"[^\W\d_][^\W\d]*(?:[:.-][^\W\d]+)*")
_NAME_LENGTH: Final = 24
_FINDS: Final = 8
"""Occurrences of a value that are looked at one by one."""
_NEEDS_QUOTES: Final = re.compile(r"[\s\"'\\$`&|;<>()*?#~!]")
OPEN: Final = "·"
_QUOTES: Final = re.compile(r"[\s'\"`]")
_JOINS: Final = "[^\\W_\u2e80-\U0010ffff]"
"""A letter that is written with spaces between words, or a digit."""


class Simple(NamedTuple):
    """One simple command, or one tool call; then the arguments are the options."""

    program: str
    words: tuple[str, ...] = ()
    options: tuple[tuple[str, str | None], ...] = ()
    """Pairs of key and value, sorted; the value is None for a switch."""
    tool: bool = False
    layout: tuple[str, ...] = ()
    """The words (by index) and options (by key) in the order in which they were written."""
    form: str = ""
    """What tells it from other actions of its program: of a call the words in its arguments that name what it does; of
    a line that is read as one, its programs, options and operators, and `OPEN` for each other word."""


def call(name: str, arguments: Sequence[tuple[str, str]]) -> Simple:
    return Simple(name, (), tuple(arguments[:ACTION_WORDS]), True, tuple(key for key, _ in arguments[:ACTION_WORDS]))


@remembered(8 * MB)
def simple_commands(line: str, switches: frozenset[str] = frozenset()) -> tuple[Simple, ...]:
    """Parse a command line, bounded. `switches`: options that take no value, as `program --flag`."""
    found = (_simple(tokens, switches) for tokens in _parts(line))
    return tuple(each for each in found if each is not None)[:ACTION_COMMANDS]


@remembered(8 * MB)
def whole_line(line: str) -> Simple | None:
    """Read a line of several commands, or with redirections, as one action with its words as written. None for one
    simple command, and for what cannot be put together again from its words."""
    tokens: list[str] = []
    form: list[str] = []
    text, begin, starts = line.strip() + " ", 0, True
    for found in _TOKEN.finditer(text):
        kind = found.lastgroup
        if kind not in ("gap", "end"):
            continue
        token, begin = text[begin : found.start()], found.end()
        if token:
            option = is_option(token) and _QUOTES.search(token) is None
            fixed = (starts and _QUOTES.search(token) is None) or _REDIRECTION.fullmatch(token) is not None
            form.append(token if fixed else f"{token.partition('=')[0]}{'=' * ('=' in token)}" if option else OPEN)
            tokens.append(token)
            starts = starts and (token in _SYNTAX or _ASSIGNMENT.match(token) is not None)
        if kind == "end":
            tokens.append(found[0])
            form.append(found[0])
            starts = True
        elif not found[0].isspace():
            return None
    whole = len(tokens) <= 2 * ACTION_WORDS and not any(c in line.strip() for c in "\n`#") and "<<" not in line
    if not whole or not any(mark in _OPERATORS or _REDIRECTED.fullmatch(mark) for mark in tokens):
        return None
    return Simple(tokens[0], tuple(tokens[1:]), form=" ".join(form))


def _simple(tokens: list[str], switches: frozenset[str]) -> Simple | None:
    """Parse the tokens of one command; None if it runs nothing."""
    start = next((i for i, token in enumerate(tokens) if token not in _SYNTAX), len(tokens))
    if start < len(tokens) and tokens[start] in _LOOPS:
        return None
    while start < len(tokens) and _ASSIGNMENT.match(tokens[start]):
        start += 1
    if start == len(tokens):
        return None
    program, rest = tokens[start], _arguments(tokens[start + 1 :])
    words: list[str] = []
    options: list[tuple[str, str | None]] = []
    layout: list[str] = []
    i = 0
    while i < len(rest) and len(words) + len(options) < ACTION_WORDS:
        token = rest[i]
        if not is_option(token):
            layout.append(str(len(words)))
            words.append(token)
        else:
            key, given, value = token.partition("=")
            layout.append(key)
            if given:
                options.append((key, value))
            elif i + 1 < len(rest) and not is_option(rest[i + 1]) and f"{program} {token}" not in switches:
                i += 1
                options.append((token, rest[i]))
            else:
                options.append((token, None))
        i += 1
    return Simple(program, tuple(words), tuple(sorted(options, key=lambda o: (o[0], o[1] or ""))), False, tuple(layout))


def is_option(token: str) -> bool:
    """Return True for `-x` and `--x`; `-3` is a number."""
    return len(token) > 1 and token[0] == "-" and not token[1:].replace(".", "").isdigit()


def _arguments(tokens: list[str]) -> list[str]:
    """Drop redirections."""
    kept: list[str] = []
    skip = False
    for token in tokens:
        if skip:
            skip = False
        elif _REDIRECTION.fullmatch(token):
            skip = not token[-1].isdigit()
        elif not _REDIRECTED.fullmatch(token):
            kept.append(token)
    return kept


def _parts(line: str) -> Iterator[list[str]]:
    """Yield the tokens of each simple command. The body of a here-document is skipped."""
    if (document := _HEREDOC.search(line)) is not None:
        line = line[: document.start()] + line[document.end() :].partition("\n")[0]
    tokens: list[str] = []
    token: list[str] = []
    for found in _TOKEN.finditer(line.replace("\\\n", " ") + "\n"):
        kind = found.lastgroup or ""
        if kind not in ("gap", "end"):
            if kind != "comment":
                token.append(_ESCAPED.sub(r"\1", found[kind]) if kind == "quoted" else found[kind])
            continue
        if token:
            tokens.append("".join(token))
            token = []
        if kind == "end" and tokens:
            yield tokens
            tokens = []
    if token:  # a quote that was never closed
        tokens.append("".join(token).rstrip("\n"))
    if tokens:
        yield tokens


def wordlike(token: str) -> bool:
    """Return True for a token written like a subcommand: letters, no digits, no path, short."""
    return len(token) <= _NAME_LENGTH and _NAME.fullmatch(token) is not None


def within(value: str, text: str) -> bool:
    """Return True if `text`, in lower case, contains the value as a whole word."""
    return first_end(value, text) > 0


def first_end(value: str, text: str, start: int = 0, stop: int = sys.maxsize) -> int:
    """Return where the value first ends as a whole word in `text`, in lower case; 0 if it is not there. Looks from
    where it could begin if it does not end before `start`, and up to `stop`, where a word ends."""
    low = value.casefold()
    at = text.find(low, max(0, start - len(low)), stop) if low else -1
    for _ in range(_FINDS):
        if at < 0:
            return 0
        end = at + len(low)
        before, after = text[at - 1 : at] if at else "", text[end : end + 1]
        if not (_joins(before) and _joins(low[0])) and not (_joins(after) and _joins(low[-1])):
            return end
        at = text.find(low, at + 1, stop)
    found = _whole(low).search(text, at, stop) if at >= 0 else None
    return found.end() if found is not None else 0


@remembered(MB)
def _whole(low: str) -> re.Pattern[str]:
    """What finds it among many: expressions take long to make."""
    before, after = rf"(?<!{_JOINS})" if _joins(low[0]) else "", rf"(?!{_JOINS})" if _joins(low[-1]) else ""
    return re.compile(before + re.escape(low) + after)


def _joins(c: str) -> bool:
    return c.isalnum() and ord(c) < 0x2E80


def quoted(word: str) -> str:
    """Quote a word for the shell, if it needs quotes."""
    if word and not _NEEDS_QUOTES.search(word):
        return word
    return f"'{word}'" if "'" not in word else '"' + re.sub(r'(["\\$`])', r"\\\1", word) + '"'
