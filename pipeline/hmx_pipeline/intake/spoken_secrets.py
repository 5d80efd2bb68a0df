"""Secrets in plain language ("the password is hunter2"), and payment card numbers.

Input: a match of SECRET or CARD. Output: whether it is a secret. `The password is wrong` is a statement, but `the
password is hunter2` is a secret: a value counts by its characters or quotes, or if the author calls it theirs.
"""

import re
from typing import Final

_WORDS: Final = (
    "(?i:pass(?:word|phrase|code|wd)|pin(?: code| number)?|secret(?: key)?|token|credential|(?:api|access)[ _-]?key)"
)
_OF: Final = "(?i: (?:for|of|to|on|in|at|from) )"
_IS: Final = (
    "(?:(?i: (?:is|was|are|will be)(?: (?:now|still|currently|simply|just|set to))?):?|['’]s| to| ?:?=| ?:| [-–—])"
)
_TOLD: Final = rf"(?P<word>{_WORDS})s?(?:{_OF}[^\s]+(?: [^\s]+){{0,4}}?| \([^\s)]{{1,64}}\))?(?P<is>{_IS})[ \n]{{1,4}}"
"""Matches `the password for the staging database is now …`."""
_QUOTE: Final = "[\"'“‘]"


def _shape(pattern: str) -> str:
    """Convert for `finder`, which is faster with ASCII words."""
    return pattern.replace("(?i:", "(?i-u:")


WORDS: Final = ("passwd", "api key", "access key", "access-key", "access_key", "accesskey")
"""What is named in speech besides the names in `intake.secret_names`, and PINs."""
PIN_SHAPE: Final = r"(?i-u:\bpin[ :=])"
_ROUGHLY: Final = rf"{_WORDS}s?(?:{_OF}[^\n]*| \([^ \n]*\))?{_IS}[ \n]+"
SECRET_SHAPE: Final = _shape(
    rf"{_ROUGHLY}(?:{_QUOTE}|[^ \n]*(?:[0-9!@#$%^&*+~]|[a-z][A-Z]))|(?i:\b(?:my|our) )[^\n]*{_ROUGHLY}[a-zA-Z]"
)
SECRET: Final = re.compile(
    rf"(?P<before>(?<![\w-]){_TOLD}(?P<quote>{_QUOTE})?[`*]{{0,3}})(?![^\s]{{0,200}}[(\[])"
    r"(?P<value>(?(quote)[^\n\"'“”‘’\\]{1,80}(?=[\"'”’\n]|\Z)"
    r"|(?:(?<=passphrase is )[a-z]+(?: [a-z]+){2,11}(?=[.!\n]|\Z)"
    r"|[^\s\"'“”‘’`<>{}\\]{0,200}[^\s\"'“”‘’`<>{}\\.,;:)*])(?!\w)))",
    re.ASCII,
)
_STATES: Final = frozenset(
    """
    a about above again all already also always an and any at available bad bare based because below better blank both
    broken but by case-sensitive clear correct critical default different easy empty enough exactly false fine for from
    gone good gray grey hard here hidden important in incorrect insecure int invalid it just kept known less like long
    longer lost maybe missing more most my never new nil no none not now null of ok okay old on one only open optional
    or our out over passed plain plaintext private probably public random read ready really required right safe same
    secret secure sent set short simple simply so stale still stolen strong supported taken temporary text that the
    their them there these this those to too true unclear under undefined unique unknown unset up up-to-date used valid
    very via visible weak what when where which with without working written wrong yes your
    """.split()  # noqa: SIM905  a hundred quoted words would be no easier to read
)
"""Words that describe a password without revealing it."""
_STATE_ENDS: Final = ("ed", "ing", "able", "ible", "ly")
_TECHNICAL: Final = re.compile(
    r"(?:base|sha|md|utf|oauth|argon|pbkdf|bcrypt|aes|hs|rs|es|ipv|http|v)-?\d+(?!\w).*"
    r"|\d+[-+]?(?:st|nd|rd|th|x|[kmg]?b|m?s|m|h|d|(?:char|digit|bit|byte|hour|day|minute|second|letter|word|month)[a-z-]*)"
    r"|[a-z_]\w*(?:\.[a-z_]\w*)+|.*://.*|[/.~$%<*-].*",
    re.ASCII,
)
"""Algorithms, sizes, program names, paths and placeholders, in lower case."""
_MIXED: Final = re.compile(r"[a-z][A-Z]")
_SYMBOL: Final = re.compile(r"\w.*[!?].*\w|.*[@#$%^&*+~=]", re.ASCII)
_OWN: Final = re.compile(r"\b(?:my|our) (?:[\w'-]+ ){0,3}\Z", re.ASCII | re.IGNORECASE)
_OWN_LONGEST: Final = 64
_ENDS: Final = re.compile(r"[\"'”’]?[ \t]*(?:[.,;:!)\n]|\\n|\Z)")
_LONG: Final = 8
_DIGITS: Final = 4
_CREDENTIAL: Final = re.compile(rf".*\b{_WORDS}s?(?:{_OF}.*)?", re.ASCII)

ABROAD: Final = "(?i-u:mot de passe|senha|kennwort|passwort|contrase)|密[码碼]|口令|パスワード"
_ABROAD: Final = (
    r"(?:(?i:mot de passe|senha|kennwort|passwort|contrase[nñ]a)(?: [^\s:=：]{1,24}){0,5}?|密[码碼]|口令|パスワード)"
    r"[\"'`*]{0,3}(?: {0,4}[:=：-]| (?:ist|lautet|est|es|é)(?= )| {0,4}[はが是为為]) {0,4}[\"'`*“«「『]{0,3}"
)
TOLD_ABROAD_SHAPE: Final = rf"(?:{ABROAD})[^\n]*[0-9!@#$%^&*+~]"
TOLD_ABROAD: Final = re.compile(rf"(?P<before>{_ABROAD})(?P<value>[!#-&+-;=?-_a-~]{{6,200}})", re.ASCII)
"""In the other languages that memory understands."""
_WORD: Final = re.compile(r"[A-Za-z./:_-]*[.!,;:]?|[0-9][0-9.,:/-]*[A-Za-z-]*[.!,;:]?", re.ASCII)

CARD_SHAPE: Final = (
    r"(?-u:\b)(?:[2-6][0-9]{3}[ -]?[0-9]{4}[ -]?[0-9]{4}[ -]?[0-9]{1,4}(?:[ -]?[0-9]{1,3})?"
    r"|3[47][0-9]{2}[ -]?[0-9]{6}[ -]?[0-9]{5})(?-u:\b)"
)
CARD: Final = re.compile(
    r"(?P<before>(?<![\w.-]))(?:(?:2[2-7]|3[05689]|[4-6][0-9])[0-9]{2}(?P<gap>[ -]?)[0-9]{4}(?P=gap)[0-9]{4}(?P=gap)"
    r"[0-9]{1,4}(?:(?P=gap)[0-9]{1,3})?|3[47][0-9]{2}(?P<space>[ -]?)[0-9]{6}(?P=space)[0-9]{5})(?![\w-]|\.[0-9])",
    re.ASCII,
)
"""Digits in the groups of a card, or in one group. It begins with an issuer's digits, unlike most years and times."""
_DOUBLED: Final = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)


def is_told(match: re.Match[str]) -> bool:
    value, word = match["value"].strip("!?.,"), match["word"].lower()
    low = value.lower()
    if " " in value and not match["quote"]:  # a passphrase, or a sentence about one
        return _is_own(match) and not any(said in _STATES or said.endswith(_STATE_ENDS) for said in low.split()[1:])
    assigned = match["is"].lstrip()[:1] in ":=t-–—"  # such as `changed the password to`
    if low in _STATES or _TECHNICAL.fullmatch(low) or (assigned and word in low):
        return False
    digits = any(map(str.isdecimal, value))
    if word.startswith("pin"):
        return value.isdecimal() and len(value) >= _DIGITS
    if not word.startswith("pass"):
        if match["is"] != " to" and digits and not value.isdecimal() and len(value) >= _LONG and " " not in value:
            return True
    elif (digits and len(value) >= _DIGITS) or _SYMBOL.match(value) or match["quote"]:
        return True
    if assigned or word == "secret":
        return False
    return (word.startswith("pass") and _MIXED.search(value) is not None) or (
        _is_own(match) and not low.endswith(_STATE_ENDS) and _ENDS.match(match.string, match.end()) is not None
    )


def is_told_abroad(match: re.Match[str]) -> bool:
    return _WORD.fullmatch(match["value"]) is None


def _is_own(match: re.Match[str]) -> bool:
    return _OWN.search(match.string, max(0, match.start() - _OWN_LONGEST), match.start()) is not None


def is_card(match: re.Match[str]) -> bool:
    """Check the Luhn digit."""
    digits = [int(character) for character in match[0] if character.isdecimal()]
    return (sum(digits[-1::-2]) + sum(_DOUBLED[digit] for digit in digits[-2::-2])) % 10 == 0


def names_credential(said: str) -> bool:
    """Return True if the text names a credential, such as `our password for the shop`."""
    return _CREDENTIAL.fullmatch(said) is not None
