"""Secrets are taken out before anything is stored, hashed or passed on.

Enters: the plain JSON values of an event. Leaves: the same values with `[REDACTED]` in place of secrets, and the JSON
paths where that happened; what held no secret is the same object as before. Never fails. An event's ids, type, sequence
and timestamp stay as they are, whatever they look like.

A secret is the value of a secret-bearing key, also of one named beside it (`{"name": "Cookie", "value": …}`), or a text
shaped like one: known tokens, private keys, credentials in URLs, assignments in command lines, program text and
configuration, passwords and the like that somebody tells in plain words, numbers of payment cards. Strings that hold
JSON are looked into.
"""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import orjson

from pipeline.contracts.event import Event
from pipeline.contracts.limits import MB, NESTING, REDACTED_PATH, REDACTED_PATHS, TEXT_STEPS, WORK_STEPS
from pipeline.contracts.remembered import remembered
from pipeline.intake.paths import path_of
from pipeline.intake.scan import finder
from pipeline.intake.spoken import CARD, CARD_SHAPE, PIN_SHAPE, SECRET, SECRET_SHAPE, WORDS, is_card, is_told

REDACTED: Final = "[REDACTED]"
_KEPT: Final = frozenset(Event.model_fields) - {"content", "metadata", "source", "provenance_ref", "tags"}

_KEY_WORDS: Final = (
    "api_key", "api-key", "apikey", "authorization", "bearer", "cookie", "credential", "passcode", "passphrase",
    "password", "private_key", "private-key", "privatekey", "secret", "token",
)  # fmt: skip
_METRIC: Final = re.compile(
    r"tokens\Z|tokens?[_-]?(?:used|count|usage|limit|budget|estimate|remaining|total|details|per[_-]?second)", re.ASCII
)
_NAMES: Final = ("name", "key", "header", "field")
_NUMERIC: Final = re.compile(r"[0-9][0-9.,_]*", re.ASCII)


class Rule(NamedTuple):
    shape: str
    """What every match holds, roughly: for the engine of `finder`, which tells in a tenth of the time."""
    holds: Callable[[str], bool]
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]


def _any_case(word: str) -> str:
    """`word` in any case; its first letter stands as a set, so that the regex engine can skip to it."""
    first = word[0]
    start = f"[{first.lower()}{first.upper()}]" if first.isalpha() else re.escape(first)
    return f"{start}(?i:{re.escape(word[1:])})"


def _value(match: re.Match[str]) -> str:
    return match["before"] + REDACTED


def _value_unless_metric(match: re.Match[str]) -> str:
    if _METRIC.search(match["key"].lower()) and _NUMERIC.fullmatch(match["value"]):
        return match[0]
    return match["before"] + REDACTED


def _value_if(secret: Callable[[re.Match[str]], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: _value(match) if secret(match) else match[0]


def _rule(shape: str, pattern: str, replacement: Callable[[re.Match[str]], str] = _value) -> Rule:
    return Rule(shape, finder(shape), re.compile(pattern, re.ASCII), replacement)


def _assigned(words: str) -> list[str]:
    """What assignments to such a word hold: quoted, bare, an option, a line."""
    like = rf"(?i-u:{words})[\w-]*"
    return [
        rf"{like}\\*[\"']?\s*[:=][:=]*\s*\\*[\"']",
        rf"{like}=",
        rf"-[\w-]*{like}[ \t]",
        rf"(?i-u:{words})[0-9_]*[ \t]*:[ \t]",
    ]


def _assignments(word: str) -> list[Rule]:
    """`"password": "x"`, `password = 'x'`, `PASSWORD=x`, `--password x`, a line that ends in `password: x`, or
    one that goes on behind what looks secret; not `password=read()`, not `=$PASSWORD`, not `password: see below`."""
    key = rf"(?P<key>{_any_case(word)}[\w-]{{0,64}}+)"  # a bound, lest a text of nothing but such words takes for ever
    new = r"(?!\[REDACTED\])"
    equals = r"\\{0,8}[\"']?\s*(?::?={1,3}|:)\s*(?P<q>\\{0,8}[\"'])"
    quoted = rf"(?P<before>{key}{equals}){new}(?P<value>[^\n]+?)(?=(?P=q)|\n|\Z)"
    bare = rf"(?P<before>{key}=){new}(?P<value>[^\s\"'`$,;&|<>()\[\]{{}}\\]++)(?!\()"
    option = rf"(?P<before>(?<![\w-])--?[\w-]{{0,32}}?{key}[ \t]+){new}(?P<value>[^\s\"'`$-][^\s\"'`]*+)"
    ends = r"(?=[ \t\r]*(?:\n|\\n|\Z))"
    secretive = r"(?=\S{0,64}?[0-9])(?=\S{0,64}?[A-Za-z])\S{6}|\S{20}"
    value = r"[^\s\"'`$,;&|<>()\[\]{}\\]++"
    own = rf"(?P<key>{_any_case(word)}(?:_?[0-9]{{1,4}})?)"  # not TokenUsage: what follows is a name of a program
    line = rf"(?P<before>{own}[ \t]*:[ \t]+){new}(?P<value>(?:{value}{ends}|(?={secretive}){value}))"
    patterns = quoted, bare, option, line
    shapes = _assigned(re.escape(word))
    return [_rule(*one, _value_unless_metric) for one in zip(shapes, patterns, strict=True)]


def _header(word: str) -> Rule:
    return _rule(
        rf"(?i-u:{re.escape(word)})\s*:",
        rf"(?P<before>{_any_case(word)}\s*:\s*)(?!\[REDACTED\])(?P<value>[^\s\"'\\][^\n\"'\\]*)",
    )


def _token(pattern: str, after: str = "") -> Rule:
    return _rule(pattern, rf"(?P<before>(?<![A-Za-z0-9])|(?<=\\[nrt])){after}(?:{pattern})")


_AUTHORITY: Final = r":\\*/\\*/[^\s/@\"'<>]*@"
"""Of a URL that names a user."""
_RULES: Final[dict[str, list[Rule]]] = {word: _assignments(word) for word in _KEY_WORDS} | {
    "sk-": [_token(r"sk-[A-Za-z0-9_-]{8,}")],
    "pypi-": [_token(r"pypi-[A-Za-z0-9_-]{16,}")],
    "akia": [_token(r"AKIA[0-9A-Z]{12,}")],
    "asia": [_token(r"ASIA[0-9A-Z]{16}")],
    "eyj": [_token(r"eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{5,}(?:\.[A-Za-z0-9_-]*)?", after="(?<![_-])")],
    "ghp_": [_token(r"ghp_[A-Za-z0-9]{16,}")],
    "gho_": [_token(r"gho_[A-Za-z0-9]{16,}")],
    "ghu_": [_token(r"ghu_[A-Za-z0-9]{16,}")],
    "ghs_": [_token(r"ghs_[A-Za-z0-9]{16,}")],
    "ghr_": [_token(r"ghr_[A-Za-z0-9]{16,}")],
    "github_pat_": [_token(r"github_pat_[A-Za-z0-9_]{16,}")],
    "xox": [_token(r"xox[a-z]-[A-Za-z0-9-]{8,}")],
    "-----begin": [
        _rule(
            r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
            r"(?P<before>)-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
        )
    ],
    "@": [_rule(_AUTHORITY, r"(?P<before>:\\{0,8}/\\{0,8}/[^\s/:@\"'<>]*+:)(?!\[REDACTED\])[^\s/@\"'<>]++(?=@)")],
}
_RULES["bearer"].append(
    _rule(r"(?i-u:bearer)\s", rf"(?P<before>{_any_case('bearer')}\s+)(?=\S*[0-9]|\S{{20}})[\w.~+/=-]{{8,}}")
)
for _word in ("authorization", "cookie", "api-key"):
    _RULES[_word].insert(0, _header(_word))  # before what takes one word only
_RULES[""] = [
    Rule(SECRET_SHAPE, finder(SECRET_SHAPE), SECRET, _value_if(is_told)),
    Rule(CARD_SHAPE, finder(CARD_SHAPE), CARD, _value_if(is_card)),
]
"""By a needle in lower case: where the text doesn't hold it, its rules can't match."""

SUSPICIOUS: Final = (
    *(rf"(?i-u:{re.escape(needle)})" for needle in (*_RULES, *WORDS) if needle not in ("", "@")),
    _AUTHORITY,
    PIN_SHAPE,
    CARD_SHAPE,
    r"\\\\u",  # JSON within a string may spell a word with escapes
)
suspicious: Final = finder(*SUSPICIOUS)
"""Whether an event's dump, with no escapes but the necessary ones, might hold a secret; most events' doesn't."""


_doubtful: Final = finder(*SUSPICIOUS[:-1], r"\\u")
"""The same of a single string of the event, unescaped: where it says no, no rule matches."""


_ALL_ASSIGNED: Final = frozenset(shape for word in _KEY_WORDS for shape in _assigned(re.escape(word)))
_holds_any: Final = finder(
    *_assigned("|".join(map(re.escape, _KEY_WORDS))),  # as one, or the engine takes a hundred times as long
    *dict.fromkeys(rule.shape for rules in _RULES.values() for rule in rules if rule.shape not in _ALL_ASSIGNED),
)
"""Whether a rule might match a text; most that hold a needle only speak of tokens and passwords."""


class TooCostlyError(Exception):
    """Looking for an event's secrets takes more than WORK_STEPS."""


def redact(fields: dict[str, Any]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The event's values without secrets, and the JSON paths where they were; of very many the first.

    Raises TooCostlyError.
    """
    found = _Found()
    searched = {name: value for name, value in fields.items() if name not in _KEPT}
    clean = _object(searched, found, 0)
    if clean is searched:
        return fields, ()
    return {name: value for name, value in fields.items() if name in _KEPT} | clean, tuple(found.paths)


class _Found:
    """Where secrets were, told by the keys and indices that lead to the value looked at.

    A path is only made where there was a secret, and so often: in a deep event each is long.
    """

    def __init__(self) -> None:
        self.left = WORK_STEPS
        self.paths: list[str] = []
        self.trail: list[str | int] = []

    def work(self, steps: int) -> None:
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError

    def searched(self, text: str) -> bool:
        """Whether a text has to be searched, which then counts."""
        doubtful = _doubtful(text)
        self.work(TEXT_STEPS + len(text) // TEXT_STEPS if doubtful else 1)
        return doubtful

    def here(self) -> None:
        if len(self.paths) < REDACTED_PATHS:
            self.paths.append(path_of(self.trail)[:REDACTED_PATH])


def _walk(value: Any, found: _Found, depth: int) -> Any:
    if isinstance(value, str):
        return _string(value, found, depth)
    if depth >= NESTING and isinstance(value, dict | list):  # only within strings that hold JSON: nobody looks so deep
        found.here()
        return REDACTED
    if isinstance(value, dict):
        return _object(value, found, depth)
    if isinstance(value, list):
        return _list(value, found, depth)
    found.work(1)
    return value


def _list(value: list[Any], found: _Found, depth: int) -> list[Any]:
    items: list[Any] = []
    for index, item in enumerate(value):
        found.trail.append(index)
        items.append(_walk(item, found, depth + 1))
        found.trail.pop()
    return value if all(map(_same, items, value)) else items


def _same(one: Any, other: Any) -> bool:
    return one is other


def _object(value: dict[str, Any], found: _Found, depth: int) -> dict[str, Any]:
    clean: dict[str, Any] = {}
    changed = False
    taken: dict[str, int] = {}
    named = _named_secret(value) if "value" in value else ""
    for key, item in value.items():
        name = _text(key) if found.searched(key) else key
        if name in clean:  # two secrets were keys of one object
            name = _free(name, clean, taken)
        found.trail.append(name)
        if bears_secret(key) and not _empty(item):
            new = _under_secret_key(key.lower(), item, found)
        elif named and key == "value" and not _empty(item):
            new = _under_secret_key(named, item, found)
        else:
            new = _walk(item, found, depth + 1)
        if name != key:
            found.here()
        found.trail.pop()
        changed = changed or new is not item or name != key
        clean[name] = new
    return clean if changed else value


def _free(name: str, clean: dict[str, Any], taken: dict[str, int]) -> str:
    """`[REDACTED]+`, `[REDACTED]+2`, …: no number is tried twice, so that many such keys take linear time."""
    free = name + "+"
    while free in clean:
        taken[name] = taken.get(name, 1) + 1
        free = f"{name}+{taken[name]}"
    return free


@remembered(MB)
def bears_secret(key: str) -> bool:
    """Whether what stands under such a name is one."""
    low = key.lower()
    return any(word in low for word in _KEY_WORDS)


def _named_secret(value: dict[str, Any]) -> str:
    """The secret-bearing name, in lower case, that stands beside a value, as in lists of headers and of settings."""
    names = (name for where in _NAMES if isinstance(name := value.get(where), str) and bears_secret(name))
    return next(names, "").lower()


def _empty(value: Any) -> bool:
    return value is None or value is True or value is False or value in ("", REDACTED)


def _under_secret_key(key: str, value: Any, found: _Found) -> Any:
    if _METRIC.search(key) and _counts(value):
        return value
    found.here()
    return REDACTED


def _counts(value: Any, levels: int = 3) -> bool:
    """Whether a metric's value is a number, or an object of numbers as models report their usage."""
    if isinstance(value, str):
        return bool(_NUMERIC.fullmatch(value))
    if isinstance(value, dict):
        return levels > 0 and all(_plain(key) and _counts(item, levels - 1) for key, item in value.items())
    return not isinstance(value, list)


def _plain(key: str) -> bool:
    return _METRIC.search(key.lower()) is not None or not (bears_secret(key) or _text(key) != key)


def _string(value: str, found: _Found, depth: int) -> str:
    if not found.searched(value):
        return value
    inner = _json(value)
    if inner is not None:
        new = _nested(inner, value, found, depth)
    else:
        new = _text(value)
        if new != value:
            found.here()
    return value if new == value else new


def _json(text: str) -> Any:
    """What a string holds that is JSON, but for numbers and the like, else None."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _nested(inner: Any, text: str, found: _Found, depth: int) -> str:
    clean = _walk(inner, found, depth + 1)
    return text if clean is inner else orjson.dumps(clean).decode()


def _text(text: str) -> str:
    """Once more as long as something changes: what was taken out may have hidden where the next secret begins."""
    before = None
    while text != before and _holds_any(text):
        before = text
        low = text.lower()
        for needle, rules in _RULES.items():
            if needle in low:
                for _, holds, pattern, replacement in rules:
                    if holds(text):
                        text = pattern.sub(replacement, text)
    return text
