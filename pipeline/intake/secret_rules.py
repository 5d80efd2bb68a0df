"""The rules that take secrets out of a text: credentials by their shape, and values by the names beside them.

Enters: a text. Leaves: the text with `[REDACTED]` in place of secrets. Never fails. Each rule has two patterns: its
shape, which the linear engine of `finder` looks for and which every match holds, and what finds the place; where no
shape is found, no other pattern is asked. No pattern takes more than linear time.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from string import ascii_lowercase
from typing import Final, NamedTuple

from pipeline.intake.named import (
    PASS,
    WORDS,
    is_about,
    is_blank,
    is_code,
    is_keyed,
    is_mixed,
    is_random,
    is_sentence,
)
from pipeline.intake.scan import finder
from pipeline.intake.secret_kinds import KINDS
from pipeline.intake.spoken import CARD, CARD_SHAPE, PIN_SHAPE, SECRET, SECRET_SHAPE, is_card, is_told
from pipeline.intake.spoken import WORDS as SPOKEN_WORDS

REDACTED: Final = "[REDACTED]"
METRIC: Final = re.compile(
    r"tokens\Z|tokens?[_-]?(?:used|count|usage|limit|budget|estimate|remaining|total|details|per[_-]?second)", re.ASCII
)
NUMERIC: Final = re.compile(r"[0-9][0-9.,_]*", re.ASCII)
_PASSES: Final = 8
"""A text in which each removal shows another secret is hostile: after so many it is taken out whole."""


class Rule(NamedTuple):
    shape: str
    """What every match holds, roughly: for the engine of `finder`, which tells in a tenth of the time."""
    holds: Callable[[str], bool]
    pattern: re.Pattern[str]
    replacement: Callable[[re.Match[str]], str]


def _value(match: re.Match[str]) -> str:
    return match["before"] + REDACTED


def _value_if(secret: Callable[[re.Match[str]], bool]) -> Callable[[re.Match[str]], str]:
    return lambda match: _value(match) if secret(match) else match[0]


def _rule(shape: str, pattern: str, secret: Callable[[re.Match[str]], bool] | None = None) -> Rule:
    return Rule(shape, finder(shape), re.compile(pattern, re.ASCII), _value_if(secret) if secret else _value)


# --- values by the names beside them -------------------------------------------------------------------------------


def _any_case(word: str) -> str:
    """`word` in any case; its first letter stands as a set, so that the regex engine can skip to it."""
    return f"[{word[0].lower()}{word[0].upper()}](?i:{word[1:]})" if word[0].isalpha() else f"(?i:{word})"


class NamedRule(NamedTuple):
    """A rule for every word that names secrets: its pattern is made for a word where a text first asks for that."""

    holds: Callable[[str], bool]
    pattern: str
    replacement: Callable[[re.Match[str]], str]


def _named(shape: str, pattern: str, secret: Callable[[re.Match[str]], bool]) -> NamedRule:
    return NamedRule(finder(shape), pattern, _value_if(secret))


_COMPILED: Final[dict[tuple[str, str], re.Pattern[str]]] = {}


def _of_word(pattern: str, word: str) -> re.Pattern[str]:
    """One word's pattern begins with a set of letters, which the engine skips to; that of all words takes ten times as
    long."""
    compiled = _COMPILED.get((pattern, word))
    if compiled is None:
        compiled = _COMPILED[pattern, word] = re.compile(pattern.replace(_ANY_WORD, word), re.ASCII)
    return compiled


_ANY_WORD: Final = "(?#word)"
_NEW: Final = r"(?!\[REDACTED\])"
_KEY: Final = rf"(?P<key>{_ANY_WORD}[\w-]{{0,64}}+)"  # a bound, lest a text of nothing but words takes for ever
_QUOTE: Final = r"(?:\\{0,8}[\"']|&quot;|&#3[49];)"
_VALUE: Final = r"[^\s\"'`$,;&|<>()\[\]{}\\]++"
_SHAPED_WORD: Final = "(?i-u:" + "|".join((*WORDS, "pass", r"\bpw")) + ")"
_SHAPED_KEY: Final = rf"{_SHAPED_WORD}[A-Za-z0-9_-]*"


def _counts(match: re.Match[str]) -> bool:
    """How many tokens, or how many tests pass."""
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
    return not (follows in (",", ")") and follows and value.isidentifier() and not is_mixed(value))


def _line_secret(match: re.Match[str]) -> bool:
    """Not `PASS: test_login`."""
    own = match["key"].lower() != "pass" or match.string[: match.start("key")].endswith(("_", "-", *ascii_lowercase))
    return own and _bare_secret(match)


def _mixed_secret(match: re.Match[str]) -> bool:
    return _bare_secret(match) and is_mixed(match["value"]) and "://" not in match["value"]


_ENDS: Final = r"(?=[ \t\r]*(?:\n|\\n|\Z))"
_SECRETIVE: Final = r"(?=\S{0,64}?[0-9])(?=\S{0,64}?[A-Za-z])\S{6}|\S{20}"
_OWN: Final = rf"(?P<key>{_ANY_WORD}(?:_?[0-9]{{1,4}})?)"  # not TokenUsage: what follows is a name of a program
_GENERIC: Final = r"(?P<key>[kKaAsSpP](?i:ey|uth|pi|alt|w)[\w-]{0,32}+)"
_TYPED: Final = r"(?:\s{0,4}:\s{0,4}[A-Za-z][\w.|]{0,32}(?:\[[\w., |\[\]]{0,32}\])?\s{0,4}(?==))?"
_EQUALS: Final = rf"{_QUOTE}?\]?{_TYPED}\s*(?:[:!]?={{1,3}}>?|:)\s*[bBfFuUrRN@$]{{0,2}}(?P<q>{_QUOTE})"
_ASSIGNED: Final = [
    _named(  # "password": "x", password = 'x', password: str = "x", &quot;password&quot;: &quot;x&quot;
        rf"{_SHAPED_KEY}(?:\\*[\"']|&quot;|&#3[49];)?\]?[^\n\"'=]*[:=][:=>]*\s*[A-Za-z@$]*(?:\\*[\"']|&quot;|&#3[49];)",
        rf"(?P<before>{_KEY}{_EQUALS}){_NEW}(?P<value>[^\n]+?)(?=(?P=q)|\n|\Z)",
        _quoted_secret,
    ),
    _named(  # setenv("DB_PASSWORD", "x1y2z3")
        rf"{_SHAPED_KEY}\\*[\"']?\s*,\s*\\*[\"']",
        rf"(?P<before>{_KEY}\\{{0,8}}[\"']?\s*,\s*(?P<q>\\{{0,8}}[\"'])){_NEW}(?P<value>[^\s\"'\\]+)(?=(?P=q)|\n|\Z)",
        _mixed_secret,
    ),
    _named(  # PASSWORD=x; not =$PASSWORD, not =read()
        rf"{_SHAPED_KEY}=",
        rf"(?P<before>{_KEY}=){_NEW}(?P<value>{_VALUE})(?!\()",
        _bare_secret,
    ),
    _named(  # aws_secret_access_key = x1y2z3
        rf"{_SHAPED_KEY}[ \t]*[:=?]*=>?[ \t]*[^\s\"']",
        rf"(?P<before>{_KEY}(?:[ \t]+[:?]?={{1,2}}>?[ \t]*|[:?]?={{1,2}}>?[ \t]+)){_NEW}(?P<value>{_VALUE})(?!\()",
        _mixed_secret,
    ),
    _named(  # --password x
        rf"-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]",
        rf"(?P<before>(?<![\w-])--?[\w-]{{0,32}}?{_KEY}[ \t]+){_NEW}(?P<value>[^\s\"'`$-][^\s\"'`]*+)",
        _bare_secret,
    ),
    _named(  # --password "x"
        rf"-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]+\\*[\"']",
        rf"(?P<before>(?<![\w-])--?[\w-]{{0,32}}?{_KEY}[ \t]+(?P<q>\\{{0,8}}[\"'])){_NEW}(?P<value>[^\n]+?)(?=(?P=q)|\n|\Z)",
        _quoted_secret,
    ),
    _named(  # a line that ends in `password: x`, or one that goes on behind what looks secret; not `password: see below`
        rf"{_SHAPED_WORD}[0-9_]*[ \t]*:[ \t]",
        rf"(?P<before>{_OWN}[ \t]*:[ \t]+){_NEW}(?P<value>(?:{_VALUE}{_ENDS}|(?={_SECRETIVE}){_VALUE}))",
        _line_secret,
    ),
    _named(  # password: |\n  x
        rf"{_SHAPED_KEY}\\*[\"']?:[ \t]*[|>][+-]?[0-9]?[ \t]*\n",
        rf"(?P<before>(?m:^)(?P<indent>[ \t]*)[\w.-]{{0,64}}?{_KEY}[\"']?:[ \t]*[|>][+-]?[0-9]?[ \t]*\n(?P=indent)[ \t]+){_NEW}"
        r"(?P<value>\S[^\n]*(?:\n(?P=indent)[ \t]+\S[^\n]*)*)",
        lambda match: not is_about(match["key"]),
    ),
    _named(  # <password>x</password>, <string name="api_key">x</string>, <key>Password</key><string>x</string>
        rf"{_SHAPED_KEY}[^<>\n]*>",
        rf"(?P<before><[^<>\n]{{0,64}}?{_KEY}(?:[\s\"'/][^<>\n]{{0,200}})?>\s{{0,16}}(?:<!\[CDATA\[)?){_NEW}(?P<value>[^<>\n]+)(?=<|\]\])",
        _quoted_secret,
    ),
    _named(
        rf"(?i-u:<key>)[^<>]*{_SHAPED_KEY}</",
        rf"(?P<before><[kK]ey>[^<>\n]{{0,64}}?{_KEY}</[kK]ey>\s{{0,64}}<string>){_NEW}(?P<value>[^<>\n]+)",
        _quoted_secret,
    ),
    _named(  # <add key="DbPassword" value="x"/>
        rf"{_SHAPED_KEY}\\*[\"'][^<>\n]*(?i-u:value)",
        rf"(?P<before>{_KEY}\\{{0,8}}[\"'][^<>\n]{{0,80}}?[vV]alue\\{{0,8}}[\"']?\s?[=:]\s?(?P<q>\\{{0,8}}[\"'])){_NEW}(?P<value>[^\n]+?)(?=(?P=q))",
        _quoted_secret,
    ),
]  # fmt: skip
_UNNAMED: Final = _rule(
    r"(?i-u:key|auth|api|salt|pw)[A-Za-z0-9_-]*\\*[\"']?(?::[ ]?str[ ]?)?\s*[:=][:=>]*\s*\\*[\"'`]?[A-Za-z0-9+/=_.~!@#$%^&*-]{10}",
    rf"(?P<before>{_GENERIC}\\{{0,8}}[\"']?{_TYPED}\s*(?::?={{1,2}}>?|:)\s*\\{{0,8}}[\"'`]?){_NEW}(?P<value>[\w+/=.~!@#$%^&*-]{{10,}}+)(?!\()",
    lambda match: is_keyed(match["key"], match["value"]),
)
_UNNAMED_ROUGHLY: Final = r"(?i-u:key|auth|api|salt|pw)[A-Za-z0-9_-]*\\*[\"']?(?::[ ]?str[ ]?)?(?:\s|\\[nt])?[:=][:=>]*(?:\s|\\[nt])?\\*[\"'`]?[A-Za-z0-9+/=_.~!@#$%^&*-]{10}"
"""`signing_key_2 = <40 random characters>`: no word says that it is secret, but it is made as secrets are."""

# --- what commands, statements and protocols carry -----------------------------------------------------------------

_ARGUMENT: Final = r"[\"']?(?P<value>[^\s\"'`$<>|;&(){}\\-][^\s\"'`<>|;&\\]*)"


def _header(word: str) -> Rule:
    return _rule(
        rf"(?i-u:{word})\\*[\"']?\s*:",
        rf"(?P<before>{_any_case(word)}\s*:\s*){_NEW}(?P<value>[^\s\"'\\][^\n\"'\\]*)",
        _told_in_header,
    )


def _told_in_header(match: re.Match[str]) -> bool:
    """Not `Bearer ${TOKEN}`."""
    words = match["value"].split()
    return len(words) > len(("Bearer", "x")) or not is_blank(words[-1])


def _given(match: re.Match[str]) -> bool:
    return not is_blank(match["value"]) and not is_code(match["value"])


_AUTHORITY: Final = r":\\*/\\*/[^ \n/@\"'<>]*@"
"""Of a URL that names a user."""
_HEADERS: Final = [*map(_header, ("authorization", "cookie", "api-key"))]
_CARRIED: Final = [
    _rule(r"(?i-u:bearer|ntlm|negotiate)\s", rf"(?P<before>(?:{_any_case('bearer')}|(?i:ntlm|negotiate))\s+)(?=\S*[0-9]|\S{{20}})[\w.~+/=-]{{8,}}"),
    _rule(
        r"(?i-u:basic)\s+[A-Za-z0-9+/]{12}",
        rf"(?P<before>{_any_case('basic')}\s+){_NEW}(?=[A-Za-z0-9+/]*[0-9=])(?=[A-Za-z0-9+/]*[A-Z])(?P<value>[A-Za-z0-9+/]{{12,}}={{0,2}})",
    ),
    _rule(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-",
        r"(?P<before>)(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-)"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- END [A-Z0-9 ]*KEY ----|Private-MAC: ?\w*|\Z)",
    ),
    _rule(_AUTHORITY, rf"(?P<before>:\\{{0,8}}/\\{{0,8}}/[^\s/:@\"'<>]*+:){_NEW}(?P<value>[^\s/@\"'<>]++)(?=@)", _given),
    _rule(_AUTHORITY, rf"(?P<before>:\\{{0,8}}/\\{{0,8}}/){_NEW}(?P<value>[^\s/:@\"'<>]{{16,}}+)(?=@)", lambda match: is_random(match["value"])),
    _rule(
        r"(?i-u:[?&;]sig(?:nature)?=|-signature=)[A-Za-z0-9%/+_=-]{16}",
        r"(?P<before>(?:[?&;][sS]ig(?:nature)?|-[sS]ignature)=)(?P<value>[A-Za-z0-9%/+_=-]{16,})",
    ),
    _rule(  # curl -u name:x
        r"curl[^\n]*\s-(?:u|U|-user|-proxy-user)",
        r"(?P<before>\bcurl\b[^\n|;]{0,600}?\s(?:-u|-U|--user|--proxy-user)[ =]{0,8}[\"']?[^\s:\"']{1,200}:)" + _NEW + r"(?P<value>[^\s\"'`$]+)",
        _given,
    ),
    _rule(  # mysql -px, sshpass -p x, docker login -p x, redis-cli -a x, ldapsearch -w x, smbclient -U name%x
        r"(?:(?:mysql|mariadb)[^\n]*\s-p[^ ]|sshpass\s|(?:docker|podman|helm)[^\n]* login [^\n]*-p|(?:mongo|az )[^\n]*\s-p|redis-cli[^\n]*\s-a|ldap[a-z]+\s[^\n]*\s-w|(?:smb|rpc|winexe|psexec)[^\n]*\s-U)",
        rf"(?P<before>\b(?:(?:mysql|maria)\w*\b[^\n|;]{{0,200}}?\s-p|sshpass\s+-p\s*|(?:docker|podman|helm)\b[^\n|;]{{0,80}}?\blogin\b[^\n|;]{{0,200}}?\s-p[ =]?"
        r"|(?:mongo\w*|az)\b[^\n|;]{0,200}?\s-p[ =]?|redis-cli\b[^\n|;]{0,200}?\s-a\s+|ldap\w+\b[^\n|;]{0,200}?\s-w\s+"
        rf"|(?:smb|rpc|winexe|psexec)\w*\b[^\n|;]{{0,200}}?\s-U\s+[\"']?[^\s%\"']+%)){_NEW}{_ARGUMENT}",
        _given,
    ),
    _rule(  # --auth x1y2, where the value is made as secrets are
        r"-(?:auth|key|pw)[ =]",
        rf"(?P<before>(?<![\w-])--?[\w-]{{0,32}}(?P<key>auth|key|pw)[ =][\"']?){_NEW}(?P<value>[^\s\"'`$<>|;&(){{}}\\-][^\s\"'`<>|;\\]*)",
        lambda match: is_keyed("auth", match["value"]),
    ),
    _rule(  # openssl -passin pass:x, cmdkey /pass:x
        r"(?:-pass(?:in|out)?[ =]+[\"']?pass:|/(?i-u:p|pass|password):)[^ ]",
        rf"(?P<before>(?<![\w])(?:-pass(?:in|out)?[ =]+[\"']?pass:|-pass[ =]+pass:|/(?:[pP]ass(?:word)?|[pP]):)){_NEW}{_ARGUMENT}",
        _given,
    ),
    _rule(  # machine h login n password x; enable secret 5 x
        r"(?:login|user|account)\s+[^\n ]+\s+pass|(?:password|secret)\s[0-9]\s",
        rf"(?P<before>(?:\b(?:login|user|account)\s+\S{{1,200}}\s+pass(?:word|wd)?\s+|\b(?:password|secret) [0-9] )){_NEW}(?P<value>[^\s\"'<>]+)",
        _given,
    ),
    _rule(  # ALTER USER n PASSWORD 'x', IDENTIFIED BY 'x'
        r"(?i-u:password|identified\s+(?:with\s+[A-Za-z0-9_]+\s+)?by(?:\s+password)?)(?:\s|=|\()+N?\\*[\"']",
        r"(?P<before>(?i:\bpassword|\bidentified\s{1,4}(?:with\s{1,4}\w{1,40}\s{1,4})?by(?:\s{1,4}password)?)[\s=(]{1,4}N?\\{0,8}(?P<q>[\"']))"
        + _NEW
        + r"(?P<value>[^\n\"']+?)(?=\\{0,8}(?P=q))",
        lambda match: not (is_blank(match["value"]) or is_sentence(match["value"])),
    ),
    _rule(
        r"(?i-u:ConvertTo-SecureString)\s",
        r"(?P<before>(?i:ConvertTo-SecureString)(?:\s+-\w+)*\s+\\{0,8}[\"'])" + _NEW + r"(?P<value>[^\n\"'$]+)",
    ),
]  # fmt: skip

# --- credentials by their shape ------------------------------------------------------------------------------------

_LOOK: Final = re.compile(r"\(\?<?[=!][^()]*\)")
_ESCAPED: Final = "|".join(
    f"(?<={escape})"
    for escape in (
        r"\\[abfnrtuUv]",
        r"\\x[0-9A-Fa-f]{2}",
        r"\\[uU][0-9A-Fa-f]{4}",
        r"\\[0-7]",
        r"\\[0-7]{3}",
        r"%[0-9A-Fa-f]{2}",
        r"[0-9;\[]m",
    )
)
"""What isn't part of a token, though it is written with letters: `\\n`, `\\x3d`, `%3D`, a terminal's colour."""
_COUNTED: Final = re.compile(r"\{([0-9]+),?[0-9]*\}")
_ENOUGH: Final = 8
_COMMANDS: Final = (
    "-----BEGIN", "---- BEGIN", "PuTTY", "sig=", "ignature=", "curl ", "sshpass", "edis-cli", "docker login", "podman login", "helm registry",
    "mysql -", "mysqldump -", "mysqladmin -", "mariadb -", "mongo -", "mongosh -", "ldapsearch -", "smbclient", "IDENTIFIED BY", "identified by", "SecureString",
    "softlayer", "ntlm ", "NTLM ", "egotiate ", "/p:", "-pass ", "-auth ", "-auth=", "-key ", "-pw ", "_PASS:", "pass:", "Pass:", "pass :", "PASS :",
    *(f"{word}{end}" for word in ("pass", "Pass", "PASS") for end in ("=", " =", '"', "'", ">", '\\"', "\\\\")),
)  # fmt: skip
"""What commands and statements that carry a secret hold."""


def _literal(word: str) -> str:
    return "".join(f"\\{c}" if c in r"\.+*?()|[]{}^$" else c for c in word)


def _needle(word: str) -> str:
    """The beginning of a word that stands in it as it is; of the owners of keys, their key."""
    return "key" if word.startswith("(") else re.split(r"[\[(]", word)[0]


def _least(match: re.Match[str]) -> str:
    """A counted repetition, roughly: the engine remembers how far it is in each."""
    return f"{{{min(int(match[1]), _ENOUGH)},}}"


class _Token(NamedTuple):
    keywords: tuple[str, ...]
    rule: Rule


def _token(keywords: str, pattern: str) -> _Token:
    end = "" if pattern.endswith((",}", "*")) else "(?![A-Za-z0-9])"
    before = rf"(?P<before>(?<![A-Za-z0-9])|{_ESCAPED})"
    return _Token(tuple(keywords.split()), _rule(_LOOK.sub("", pattern), rf"{before}{_NEW}(?:{pattern}){end}"))


_TOKENS: Final = [_token(kind.keywords, kind.pattern) for kind in KINDS]
_PLAIN_LENGTH: Final = 4
_INSIDE: Final = ("[A-Za-z", "[0-9", "[a-z")
"""How the patterns begin whose keyword stands further inside."""


def _roughly(token: _Token) -> Iterator[tuple[bool, str]]:
    """What a token holds, and whether that stands at its beginning: its keywords, or its shape where these are short."""
    starts = not token.rule.shape.startswith(_INSIDE)
    if token.keywords and min(map(len, token.keywords)) >= _PLAIN_LENGTH:
        yield from ((starts, _literal(word)) for word in token.keywords)
    else:
        yield True, _COUNTED.sub(_least, token.rule.shape)


_ROUGHLY: Final = tuple(dict.fromkeys(one for token in _TOKENS for one in _roughly(token)))
holds_token: Final = finder(
    r"(?:(?-u:\b)|_|\\(?:[abfnrtv]|[uUx0-7][0-9A-Fa-f]{0,4})|%[0-9A-F]{2}|[0-9;]m)(?:"
    + "|".join(rough for starts, rough in _ROUGHLY if starts) + ")",
    *(rough for starts, rough in _ROUGHLY if not starts),
)  # fmt: skip
"""Whether a text, or an event's dump, might hold a credential of the table."""

# --- whether there is anything to do -------------------------------------------------------------------------------

_ODD_LETTERS: Final = (
    r"[\x{FF10}-\x{FF19}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{1D400}-\x{1D7FF}]"
    r"|[A-Za-z0-9][\x{AD}\x{180E}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{FEFF}][A-Za-z0-9_-]"
)
"""Letters in full width or of mathematics, and what shows nothing between two letters."""
_spelled_oddly: Final = finder(
    r"[\x{AD}\x{180E}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{2064}\x{FEFF}\x{FF01}-\x{FF5E}\x{1D400}-\x{1D7FF}]"
)
_UNSEEN: Final = dict.fromkeys(
    (0xAD, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2065), 0xFEFF)
)
_NEEDLES: Final = (
    *((_needle(word), finder(f"(?i-u:{word})"), _any_case(word)) for word in WORDS),
    ("pass", finder(r"(?i-u:pass[0-9_\"'\\ =:<>-])|[a-z]Pass"), PASS),
)
"""What a text in lower case holds where it holds the word."""
_TOLD: Final = [
    Rule(SECRET_SHAPE, finder(SECRET_SHAPE), SECRET, _value_if(is_told)),
    Rule(CARD_SHAPE, finder(CARD_SHAPE), CARD, _value_if(is_card)),
]
SUSPICIOUS: Final = (
    *(f"(?i-u:{word})" for word in (*WORDS, *SPOKEN_WORDS)),
    *map(_literal, _COMMANDS),
    _UNNAMED_ROUGHLY,
    r"[bB]asic [A-Za-z0-9+/]{8}",
    _AUTHORITY,
    _ODD_LETTERS,
    PIN_SHAPE,
    CARD_SHAPE,
    r"\\\\u",  # JSON within a string may spell a word with escapes
)
suspicious: Final = finder(*SUSPICIOUS)
"""Whether an event's dump, with no escapes but the necessary ones, might hold another secret; most events' doesn't."""
_odd: Final = finder(*SUSPICIOUS[:-1], r"\\u")


def doubtful(text: str) -> bool:
    """The same of a single string of the event, unescaped: where it says no, no rule is asked."""
    return _odd(text) or holds_token(text)


_may_assign: Final = finder(
    rf"{_SHAPED_KEY}(?:(?:[^A-Za-z0-9\n]|&quot;|&#3[49];){{0,6}}[:=>,]|\\*[\"'][^<>\n]*(?i-u:value)|[ \t]*\n?[:=>,]|[^<>\n]*>)"
    rf"|-[A-Za-z0-9_-]*{_SHAPED_KEY}[ \t]"
)
"""Whether a rule of names might match: one look for all of them."""
_may_carry: Final = finder(
    *map(_literal, (*_COMMANDS, "bearer", "Bearer", "BEARER", "SSWORD", "ssword", "secret ", "SECRET ", "p:", "pass:", "PASS:")),
    r"[bB]asic[ \t]", r"(?i-u:ntlm|negotiate|identified)\s", _AUTHORITY,
)  # fmt: skip
"""The same of commands, statements and protocols."""


def without_secrets(text: str) -> str:
    """Text in other letters is read as it looks; where only that shows a secret, what is left is as it looks too."""
    cleaned = _clean(text)
    if not text.isascii() and _spelled_oddly(text):
        plain = as_read(cleaned)
        if plain != cleaned and (found := _clean(plain)) != plain:
            return found
    return cleaned


def as_read(text: str) -> str:
    """Without what shows nothing, and letters of any width as plain ones."""
    return unicodedata.normalize("NFKC", text.translate(_UNSEEN))


def _clean(text: str) -> str:
    """Once more as long as something changes: what was taken out may have hidden where the next secret begins."""
    for _ in range(_PASSES):
        before = text
        if _may_assign(text):
            text = _assigned(_applied(_HEADERS, text))
        text = _applied((_UNNAMED,), text)
        if _may_carry(text):
            text = _applied(_CARRIED, text)
        if holds_token(text):
            text = _applied((rule for _, rule in _TOKENS), text)
        text = _applied(_TOLD, text)
        if text == before:
            return text
    return REDACTED


def _assigned(text: str) -> str:
    asked = [rule for rule in _ASSIGNED if rule.holds(text)]
    low = text.lower() if asked else ""
    for needle, holds, word in _NEEDLES:
        if needle in low and holds(text):
            for rule in asked:
                text = _of_word(rule.pattern, word).sub(rule.replacement, text)
    return text


def _applied(rules: Iterable[Rule], text: str) -> str:
    for rule in rules:
        if rule.holds(text):
            text = rule.pattern.sub(rule.replacement, text)
    return text
