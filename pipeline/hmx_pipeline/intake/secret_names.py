"""Secret names (`password`, `--api-key`, `DB_PASS`), and values under them that are no secrets.

Input: a name, or a value under it. Output: whether what stands under the name is secret (`bears_secret`); whether the
value is a placeholder (`is_blank`), code, a sentence or random. A name about a secret's type, file or age
(`token_type`, `--password-file`) has no secret value. Types (`password: str`), placeholders (`${DB_PASS}`, `<your
key>`) and references (`token=self.token`) are no secrets.
"""

import re
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.intake.scan import REDACTED

OWNERS: Final = "access|account|auth|client|consumer|database|db|deploy|decryption|encryption|hmac|master|priv|service|shared|signing|ssh|storage|subscription"
WORDS: Final = (
    "api[_-]?key", "authorization", "bearer", "cookie", "credential", "creds", "passcode", "passphrase", "passw(?:or)?d",
    "passwd", "pwd", "contrasena", "passwort", "private[_-]?key", "secret", "token", f"(?:{OWNERS})[_-]?key",
)  # fmt: skip
"""Parts of names, in lower case."""
_OF: Final = "|".join(
    f"(?<=(?i:{words})[pP])"
    for words in ("db|my", "api|app|ftp|key|ssh|web", "user|root|smtp|mail|wifi", "admin|login|proxy|redis|store")
)
PASS: Final = rf"[pP](?:(?:(?<=(?<![A-Za-z])[pP])|{_OF})[aA][sS][sS]|(?<=[a-z]P)ass|(?<=(?<![A-Za-z])P)W)(?![A-Za-z])"
"""Matches `DB_PASS`, `smtpPass`, `dbpass`; not `passed`, `bypass`."""
_BEARS: Final = re.compile("|".join(f"(?i:{word})" for word in WORDS) + f"|{PASS}", re.ASCII)
_OPTION: Final = re.compile(r"--?[A-Za-z][\w-]{0,64}", re.ASCII)
_INNOCENT: Final = re.compile(r"(?i:tokeni[sz]|cookiecutter|secretar|passwordless)", re.ASCII)
_ABOUT: Final = (
    "age|algorithm|alg|arn|audience|class|count|created_?at|description|dir|directory|disabled|enabled|endpoint|env|env_?var|errors?"
    "|exists|expir(?:es|y|ation|ed)(?:_?(?:in|at|date))?|fields?|file|file_?name|file_?path|format|header|help|helper"
    "|hint|input|issuer|label|len|length|lifetime|limit|manager|max|message|min|names?|offset|path|patterns?|placeholder"
    "|policy|policies|position|prompt|provider|ref|regex|required|reset|rotation|scopes?|size|status|store|strategy"
    "|title|ttl|types?|updated_?at|uri|url|valid|validator|valid_until|version"
)
_ABOUT_IT: Final = re.compile(rf"(?i:[_.-](?:{_ABOUT}))\Z|(?<=[a-z])(?=[A-Z])(?i:{_ABOUT})\Z", re.ASCII)
_TYPES: Final = frozenset(
    """
    any array binary bool boolean buffer byte bytes bytea callable char clob date datetime dict double false file float hidden
    i32 i64 int integer json list long map nil no none null number object off on optional option oauth oauth2
    protected public readonly required secretstr set str string strings text token true tuple u8 undefined union
    unknown uuid varchar void write-only yes basic bearer jwt default enabled disabled manual auto missing invalid empty
    redacted masked hidden removed filtered unset n/a na tbd todo
    """.split()  # noqa: SIM905  a hundred quoted words would be no easier to read
)
_TYPE: Final = re.compile(
    r"(?:[A-Za-z_][\w.]{0,40})?[\[(<].*|[A-Z][A-Za-z0-9]*(?:Str|String|Bytes|Types?|Config|Options?|Props|Provider|Service"
    r"|Manager|Handler|Credentials?|Token|Secret|Password|Key|Store|Source|Factory|Client|Request|Response|Input|Field"
    r"|Schema|Error)\??",
    re.ASCII,
)
_BLANK: Final = re.compile(
    r"\$[({].*|\$[A-Za-z_]\w*|[#@%]?\{.*|<[^>]*>?|%[({]?[A-Za-z_]+[)}]?[sd%]?|[*•.xX_#?-]{3,}|\[.*\]|\.\.\..*|.*\.\.\."
    r"|(?i:(?:your|my|an?|example|sample|dummy|fake|insert|enter|replace|change|some|the|put|add|test)(?:[ _-][A-Za-z]+)+)"
    r"|.*(?i:[_ -]here\b|goes[_ -]here|placeholder|example|x{6}|\*{4}|<[a-z _-]+>|\$\{).*",
    re.ASCII | re.DOTALL,
)
_CODE: Final = re.compile(
    r"[A-Za-z_]\w*(?:(?:\.|->|::)[A-Za-z_]\w*)+|(?:[\w.]+\.)?(?:os|process|env|config|settings|self|this|args|opts?"
    r"|request|req|ctx|secrets|vars|local|data|var|module|params|props|state|ENV)[.\[(].*|[\w.:]*\(.*|.*\)",
    re.ASCII | re.DOTALL,
)
_PATH: Final = re.compile(
    r"(?:[~.]{0,2}/[\w.@~ -]*(?:/[\w.@~ -]*)*|[A-Za-z]:\\.*|(?:file|https?|s3|vault|arn|ref\+|op|ssm):.*)",
    re.ASCII | re.DOTALL,
)
_LONG_PART: Final = re.compile(r"(?=[^/]*[A-Z])(?=[^/]*[a-z])[A-Za-z0-9+]{20}", re.ASCII)
_NAMED_SO: Final = re.compile(
    r"(?i:pass(?:w|phrase|code)|secret|token|credential|api_?key|apikey|private_?key|cookie|pwd)", re.ASCII
)
_WORDY: Final = re.compile(r"[A-Za-z]+(?:[_.:/-][A-Za-z]+)*|[A-Za-z]+(?:[_-](?:[A-Za-z]+|[0-9]{1,4}))+", re.ASCII)
_SENTENCE: Final = re.compile(
    r"(?i:\b(?:a|an|and|are|be|can|cannot|enter|for|from|if|in|invalid|is|must|no|not|of|or|please|required|should|that|the|this"
    r"|to|use|used|using|when|will|with|you|your)\b)",
    re.ASCII,
)
_HEX: Final = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{56}|[0-9a-f]{64}|[0-9a-f]{128}|[0-9A-F-]{36}|[0-9a-f-]{36}", re.ASCII
)
_DIGEST: Final = re.compile(r"(?:md5|sha\d{1,3})[:=$-].*", re.ASCII | re.IGNORECASE)
_LONGEST_NAME: Final = 512
"""A longer value is no placeholder, path or name."""
_MIXED_LENGTH: Final = 6
_RANDOM_LENGTH: Final = 16
_DISTINCT: Final = 8


@remembered(MB)
def bears_secret(key: str) -> bool:
    """Return True if values under this name are secrets."""
    return _BEARS.search(key) is not None and not is_about(key)


@remembered(MB)
def names_next(argument: str) -> bool:
    """Return True if the next argument of a command is a secret: `--password`."""
    return _OPTION.fullmatch(argument) is not None and bears_secret(argument)


def is_about(key: str) -> bool:
    """Return True if a name with a secret word means something else."""
    return _ABOUT_IT.search(key) is not None or _INNOCENT.search(key) is not None


def is_blank(value: str) -> bool:
    """Return True if the value is a type, a path, a placeholder, or a word that says that there is none."""
    if _length(value) > _LONGEST_NAME:
        return False
    return value.lower() in _TYPES or _BLANK.fullmatch(value) is not None or is_path(value)


def _length(value: str) -> int:
    """Return the length without redaction marks, so that a second pass gives the same result."""
    return len(value) if len(value) <= _LONGEST_NAME else len(value.replace(REDACTED, ""))


def is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None and (":" in value or _LONG_PART.search(value) is None)


def is_code(value: str) -> bool:
    """Return True if an unquoted value in program text is a reference or a type."""
    return _length(value) <= _LONGEST_NAME and (
        _CODE.fullmatch(value) is not None
        or _TYPE.fullmatch(value) is not None
        or (_WORDY.fullmatch(value.rstrip("0123456789")) is not None and _NAMED_SO.search(value) is not None)
    )


def is_sentence(value: str) -> bool:
    """Return True if a quoted value is a sentence: `Enter your password`."""
    return " " in value.strip() and _SENTENCE.search(value) is not None and not any(map(is_random, value.split()))


def is_mixed(value: str) -> bool:
    """Return True if an unquoted value mixes letters with digits or symbols, like passwords, and is no word."""
    value = value.strip(":.,!?")
    return len(value) >= _MIXED_LENGTH and _WORDY.fullmatch(value) is None and any(map(str.isalpha, value))


def is_random(value: str) -> bool:
    """Return True if the value of a name such as `key` is random, and no digest or id."""
    return (
        len(value) >= _RANDOM_LENGTH
        and len(set(value)) >= _DISTINCT
        and any(map(str.isdecimal, value))
        and any(map(str.isalpha, value))
        and not (_HEX.fullmatch(value) or _DIGEST.fullmatch(value) or _WORDY.fullmatch(value))
    )


_KEYED: Final = re.compile(r"(?:[kK](?i:ey)|[aA](?i:uth|pi)|[sS](?i:alt)|[pP][wW])[\w-]{0,32}\Z", re.ASCII)
_BASE64: Final = re.compile(r"(?=.*[A-Z])(?=.*[a-z])[A-Za-z0-9+/]{12,}={0,2}", re.ASCII)
_AUTH: Final = re.compile(r"(?i:(?:\b|_)(?:auth|pw)\Z)", re.ASCII)
_ID: Final = re.compile(r"\A(?:[A-Za-z._/:-]*|[0-9.:_-]*|[0-9a-f-]*|[A-Za-z]+[._-]?[0-9.]+)\Z", re.ASCII)
_NAMED: Final = r"[A-Za-z_]+(?:[0-9]{1,5}[A-Za-z_]*)?"
_DOTTED: Final = re.compile(rf"{_NAMED}(?:\.{_NAMED}){{1,4}}", re.ASCII)
"""Matches `oauth2.auth.name`, `ed25519.PrivateKey`."""
_AUTH_LENGTH: Final = 10
_LONGEST: Final = 4096


def may_be_keyed(key: str) -> bool:
    """Return True for a name with `key`, `auth` or the like."""
    return _KEYED.search(key) is not None and not is_about(key)


def is_keyed(key: str, value: str) -> bool:
    """Return True if the value of such a name looks like a secret."""
    if len(value) > _LONGEST or not may_be_keyed(key) or is_blank(value) or _TYPE.fullmatch(value.rpartition(".")[2]):
        return False
    if _DOTTED.fullmatch(value) is not None:
        return False
    if key.lower().endswith("auth") and len(value) % 4 == 0 and _BASE64.fullmatch(value):
        return True
    return is_random(value) or (_AUTH.search(key) is not None and len(value) >= _AUTH_LENGTH and not _ID.search(value))
