"""Redaction by secret names in settings, program text, command options, YAML and XML.

Input: a text. Output: the text without what stands under a secret name (`assigned`), and, for weak names such as `key`,
without values that look like a secret (`unnamed`). A rule is tried for each secret word that the text contains.
"""

import re
from collections.abc import Callable
from string import ascii_lowercase
from typing import Final, NamedTuple

from hmx_pipeline.intake.scan import NEW, Work, any_case, finder, rule, value_if
from hmx_pipeline.intake.secret_names import PASS, WORDS, is_about, is_blank, is_code, is_keyed, is_mixed, is_sentence

METRIC: Final = re.compile(
    r"tokens\Z|tokens?[_-]?(?:used|count|usage|limit|budget|estimate|remaining|total|details|per[_-]?second)", re.ASCII
)
NUMERIC: Final = re.compile(r"[0-9][0-9.,_]*", re.ASCII)


class NamedRule(NamedTuple):
    """A rule for all secret words. Its pattern for one word is compiled when a text first needs it."""

    shape: str
    holds: Callable[[str], bool]
    pattern: str
    replacement: Callable[[re.Match[str]], str]


def _named(shape: str, pattern: str, secret: Callable[[re.Match[str]], bool]) -> NamedRule:
    return NamedRule(shape, finder(shape, strict=True), pattern, value_if(secret))


_COMPILED: Final[dict[tuple[str, str], re.Pattern[str]]] = {}


def _of_word(pattern: str, word: str) -> re.Pattern[str]:
    """Return the pattern for one word. It begins with a set of letters, to which the engine skips; the pattern of all
    words takes ten times as long."""
    compiled = _COMPILED.get((pattern, word))
    if compiled is None:
        compiled = _COMPILED[pattern, word] = re.compile(pattern.replace(_ANY_WORD, word), re.ASCII)
    return compiled


_ANY_WORD: Final = "(?#word)"
_KEY: Final = rf"(?P<key>{_ANY_WORD}[\w-]{{0,64}}+)"  # unbounded, long words take quadratic time
ENTITIES: Final = "&quot;|&apos;|&#3[49];"
"""Quotes as escaped in HTML and XML."""
_QUOTE: Final = rf"(?:\\{{0,8}}[\"']|{ENTITIES})"
_VALUE: Final = r"[^\s\"'`$,;&|<>()\[\]{}\\]++"
_SHAPED_WORD: Final = "(?i-u:" + "|".join((*WORDS, "pass", r"\bpw")) + ")"
_SHAPED_KEY: Final = rf"{_SHAPED_WORD}[A-Za-z0-9_-]*"


def _counts(match: re.Match[str]) -> bool:
    """Return True for token counts and numbers of passed tests."""
    key = match["key"].lower()
    return (METRIC.search(key) is not None or key == "pass") and NUMERIC.fullmatch(match["value"]) is not None


def _quoted_secret(match: re.Match[str]) -> bool:
    key, value = match["key"], match["value"]
    return not (_counts(match) or is_about(key) or is_blank(value) or is_sentence(value))


def _bare_secret(match: re.Match[str]) -> bool:
    key, value = match["key"], match["value"]
    if _counts(match) or is_about(key) or is_blank(value) or is_code(value):
        return False
    follows = match.string[match.end() : match.end() + 1]
    if follows == "[":  # a subscripted name in program text
        return not value.isidentifier()
    return not (follows in (",", ")") and follows and value.isidentifier() and not is_mixed(value))


def _line_secret(match: re.Match[str]) -> bool:
    """Return True for a secret at a line's end, but not for `PASS: test_login`."""
    own = match["key"].lower() != "pass" or match.string[: match.start("key")].endswith(("_", "-", *ascii_lowercase))
    return own and _bare_secret(match)


def _mixed_secret(match: re.Match[str]) -> bool:
    return _bare_secret(match) and is_mixed(match["value"]) and "://" not in match["value"]


_ENDS: Final = r"(?=[ \t\r]*(?:\n|\\n|\Z))"
_SECRETIVE: Final = r"(?=\S{0,64}?[0-9])(?=\S{0,64}?[A-Za-z])\S{6}|\S{20}"
_OWN: Final = rf"(?P<key>{_ANY_WORD}(?:_?[0-9]{{1,4}})?)"  # not TokenUsage: what follows is a name in a program
_GENERIC: Final = r"(?P<key>[kKaAsSpP](?i:ey|uth|pi|alt|w)[\w-]{0,32}+)"
_CELL: Final = 8
"""Shorter cells of a table may well be names: `| token | OAuth2 |`."""
_DASHES: Final = r"(?:(?<![\w-])|(?<=\\[abfnrtv]))--?"
_TYPED: Final = r"(?:\s{0,4}:\s{0,4}&?[A-Za-z][\w.|]{0,32}(?:\[[\w., |\[\]]{0,32}\])?\s{0,4}(?==))?"
_OPENS: Final = rf"(?P<q>\"\"\"|'''|{_QUOTE})(?!(?P=q))(?:{_QUOTE}){{0,3}}"
"""One or several quotes, but not the two of an empty value."""
_EQUALS: Final = rf"{_QUOTE}?\]?{_TYPED}\s*(?:[:!]?={{1,3}}>?|::?)\s*[bBfFuUrRN@$]{{0,2}}{_OPENS}"
_ASSIGNED: Final = [
    _named(  # "password": "x", password = 'x', password: str = "x", &quot;password&quot;: &quot;x&quot;
        rf"{_SHAPED_KEY}(?:\\*[\"']|{ENTITIES})?\]?[^\n\"'=]*[:=][:=>]*\s*[A-Za-z@$]*(?:\\*[\"']|{ENTITIES})",
        rf"(?P<before>{_KEY}{_EQUALS}){NEW}(?P<value>[^\n]+?)(?=(?P=q)|\n|\Z)",
        _quoted_secret,
    ),
    _named(  # setenv("DB_PASSWORD", "x1y2z3")
        rf"{_SHAPED_KEY}\\*[\"']?\s*,\s*\\*[\"']",
        rf"(?P<before>{_KEY}\\{{0,8}}[\"']?\s*,\s*(?P<q>\\{{0,8}}[\"'])){NEW}(?P<value>[^\s\"'\\]+)(?=\\{{0,8}}[\"']|\n|\Z)",
        _mixed_secret,
    ),
    _named(  # PASSWORD=x; not =$PASSWORD, not =read()
        rf"{_SHAPED_KEY}=",
        rf"(?P<before>{_KEY}=){NEW}(?P<value>{_VALUE})(?!\()",
        _bare_secret,
    ),
    _named(  # aws_secret_access_key = x1y2z3
        rf"{_SHAPED_KEY}[ \t]*[:=?]*=>?[ \t]*[^\s\"']",
        rf"(?P<before>{_KEY}(?:[ \t]+[:?]?={{1,2}}>?[ \t]*|[:?]?={{1,2}}>?[ \t]+)){NEW}(?P<value>{_VALUE})(?!\()",
        _mixed_secret,
    ),
    _named(  # --password x
        rf"-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]",
        rf"(?P<before>{_DASHES}[\w-]{{0,32}}?{_KEY}[ \t]+){NEW}(?P<value>[^\s\"'`$-][^\s\"'`]*+)",
        _bare_secret,
    ),
    _named(  # --password "x"
        rf"-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]+\\*[\"']",
        rf"(?P<before>{_DASHES}[\w-]{{0,32}}?{_KEY}[ \t]+{_OPENS}){NEW}(?P<value>[^\n]+?)(?=(?P=q)|\n|\Z)",
        _quoted_secret,
    ),
    _named(  # a line that ends in `password: x`, or goes on after a likely secret; not `password: see below`
        rf"{_SHAPED_WORD}[0-9_]*[ \t]*:[ \t]",
        rf"(?P<before>{_OWN}[ \t]*:[ \t]+){NEW}(?P<value>(?:{_VALUE}{_ENDS}|(?={_SECRETIVE}){_VALUE}))",
        _line_secret,
    ),
    _named(  # user:me password:x1y2z3
        rf"{_SHAPED_WORD}[0-9_]*:[^\s:/]",
        rf"(?P<before>{_OWN}:){NEW}(?P<value>(?={_SECRETIVE}){_VALUE})",
        _mixed_secret,
    ),
    _named(  # password: |\n  x
        rf"{_SHAPED_KEY}\\*[\"']?:[ \t]*[|>][+-]?[0-9]?[ \t]*\n",
        rf"(?P<before>(?m:^)(?P<indent>[ \t]*)[\w.-]{{0,64}}?{_KEY}[\"']?:[ \t]*[|>][+-]?[0-9]?[ \t]*\n(?P=indent)[ \t]+){NEW}"
        r"(?P<value>\S[^\n]*(?:\n(?P=indent)[ \t]+\S[^\n]*)*)",
        lambda match: not is_about(match["key"]),
    ),
    _named(  # name: DB_PASSWORD\n  value: x
        rf"{_SHAPED_KEY}\\*[\"']?[ \t\r]*[,\n]\s*\\*[\"']?(?i-u:value)",
        rf"(?P<before>{_KEY}\\{{0,8}}[\"']?[ \t\r]{{0,9}}[,\n]\s{{0,40}}\\{{0,8}}[\"']?[vV]alue\\{{0,8}}[\"']?[ \t]{{0,9}}[:=][ \t]{{0,9}}(?P<q>\\{{0,8}}[\"'])?){NEW}(?P<value>[^\s\"'][^\n\"']*)",
        _quoted_secret,
    ),
    _named(  # ENV DB_PASSWORD x, aws configure set aws_secret_access_key x
        rf"(?:ENV|setx|set)\s+\S*{_SHAPED_KEY}[ \t]",
        rf"(?P<before>\b(?:ENV|setx|config(?:ure)?\s{{1,9}}set)\s{{1,9}}[\w/.:@-]{{0,64}}?{_KEY}[ \t]{{1,9}}[\"']?){NEW}(?P<value>[^\s\"'`$-][^\s\"'`]*+)",
        _bare_secret,
    ),
    _named(  # | password | x1y2z3 |, password -> x1y2z3
        rf"{_SHAPED_WORD}[0-9_]*[\"'`*]*(?:[ \t]*\||\t|[ \t]+(?:->|→))",
        rf"(?P<before>{_OWN}[\"'`*]{{0,3}}(?:[ \t]{{0,64}}\|[ \t]{{0,64}}|\t|[ \t]{{1,9}}(?:->|→)[ \t]{{1,9}})[\"'`*]{{0,3}}){NEW}(?P<value>(?={_SECRETIVE}){_VALUE})",
        lambda match: len(match["value"]) >= _CELL and _mixed_secret(match),
    ),
    _named(  # <password>x</password>, <string name="api_key">x</string>, <key>Password</key><string>x</string>
        rf"{_SHAPED_KEY}[^<>\n]*>",
        rf"(?P<before><[^<>\n]{{0,64}}?{_KEY}(?:[\s\"'/][^<>\n]{{0,200}})?>\s{{0,16}}(?:<!\[CDATA\[)?){NEW}(?P<value>[^<>\n]+)(?=<|\]\])",
        _quoted_secret,
    ),
    _named(
        rf"(?i-u:<key>)[^<>]*{_SHAPED_KEY}</",
        rf"(?P<before><[kK]ey>[^<>\n]{{0,64}}?{_KEY}</[kK]ey>\s{{0,64}}<string>){NEW}(?P<value>[^<>\n]+)",
        _quoted_secret,
    ),
    _named(  # <add key="DbPassword" value="x"/>
        rf"{_SHAPED_KEY}\\*[\"'][^<>\n]*(?i-u:value)",
        rf"(?P<before>{_KEY}\\{{0,8}}[\"'][^<>\n]{{0,80}}?[vV]alue\\{{0,8}}[\"']?\s?[=:]\s?(?P<q>\\{{0,8}}[\"'])){NEW}(?P<value>[^\n]+?)(?=(?P=q))",
        _quoted_secret,
    ),
]  # fmt: skip


def _unnamed(blank: str) -> str:
    """Return a pattern for values that look like secrets, with the length expected under such names."""
    value = "[A-Za-z0-9+/=_.~!@#$%^&*-]"
    ends = rf"(?:[A-Za-z0-9_-]*(?:\\*[\"']?(?:: ?str ?)?{blank}[:=][:=>]*{blank}\\*[\"'`]?|\\*[\"'] value=\\*[\"'])|>|: [|>](?:\n|\\n) *){value}"
    return rf"(?i-u:key|api|salt){ends}{{16}}|(?i-u:auth|pw){ends}{{10}}"


UNNAMED_SHAPE: Final = _unnamed("[ \\t\\r\\n\\f\\v]*")
unnamed: Final = rule(
    UNNAMED_SHAPE,
    rf"(?P<before>{_GENERIC}(?:\\{{0,8}}[\"']?{_TYPED}\s*(?::?={{1,2}}>?|:)\s*\\{{0,8}}[\"'`]?"
    r"|\\{0,8}[\"']\svalue=\\{0,8}[\"']|>|: [|>]\n\s{1,40}))"  # <add key="auth" value="x">, <auth>x, auth: |\n  x
    rf"{NEW}(?P<value>[\w+/=.~!@#$%^&*-]{{10,}}+)(?!\()",
    lambda match: is_keyed(match["key"], match["value"]),
)
UNNAMED_ROUGHLY: Final = _unnamed(r"(?:[ \t\r\n\f\v]|\\[nt])?")
"""Approximation for `signing_key_2 = <40 random characters>`: only the value looks like a secret."""


def _needle(word: str) -> str:
    """Return a literal part at the start of a word; for owners of keys, "key"."""
    return "key" if word.startswith("(") else re.split(r"[\[(]", word)[0]


_NEEDLES: Final = (
    *((_needle(word), finder(f"(?i-u:{word})", strict=True), any_case(word)) for word in WORDS),
    ("pass", finder(r"(?i-u:pass[0-9_\"'\\ =:<>-])|[a-z]Pass", strict=True), PASS),
)
"""For each word: a lower-case literal of texts that contain it, a check, and its pattern."""
may_assign: Final = finder(
    rf"{_SHAPED_KEY}(?:(?:[^A-Za-z0-9\n]|{ENTITIES}){{0,24}}[:=>,]|\\*[\"'][^<>\n]*(?i-u:value)|\\*[\"']?[ \t\r]*\n\s*\\*[\"']?(?i-u:value)|[ \t]*\n?[:=>,]|[^<>\n]*>|[\"'`*]*[ \t]*(?:[|\t]|→))"
    rf"|-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]|(?:ENV|setx|set)\s+\S*{_SHAPED_KEY}[ \t]",
    strict=True,
)
"""Returns True if a secret word stands where a rule expects it."""


def _any_shape() -> str:
    """Return one pattern for the shapes of all rules. What many begin with is written once: so the engine follows a
    quarter of the states."""
    shapes = [one.shape for one in _ASSIGNED]
    keyed = "|".join(shape.removeprefix(_SHAPED_KEY) for shape in shapes if shape.startswith(_SHAPED_KEY))
    worded = "|".join(shape.removeprefix(_SHAPED_WORD) for shape in shapes if shape.startswith(f"{_SHAPED_WORD}[0-9_]"))
    others = (shape for shape in shapes if not shape.startswith(_SHAPED_WORD))
    return "|".join([f"{_SHAPED_KEY}(?:{keyed})|{_SHAPED_WORD}(?:{worded})", *others])


ASSIGNED_SHAPE: Final = _any_shape()


def assigned(text: str, work: Work) -> str:
    asked = [rule for rule in _ASSIGNED if rule.holds(text)]
    low = text.lower() if asked else ""
    for needle, holds, word in _NEEDLES:
        if needle in low and holds(text):
            for rule in asked:
                work(text)
                text = _of_word(rule.pattern, word).sub(rule.replacement, text)
    return text
