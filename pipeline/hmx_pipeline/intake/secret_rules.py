"""Secret redaction in a text: all rules, those for headers, commands, URLs and odd letters too, and their quick checks.

Input: a text as it reads, without JSON's escapes, or an event's bytes. Output: the text with `[REDACTED]` for each
secret (`without_secrets`), or whether the bytes need the search at all (`suspicious`). Each rule has two patterns: its
shape, which every match contains and the linear engine of `finder` searches, and the pattern that locates the match.
The second is only tried if the shape is found. Every pattern takes linear time.
"""

import re
import unicodedata
from collections.abc import Iterable
from typing import Final

from hmx_pipeline.intake.named_secret_rules import ASSIGNED_SHAPE, UNNAMED_ROUGHLY, assigned, may_assign, unnamed
from hmx_pipeline.intake.scan import NEW, REDACTED, Rule, Work, any_case, finder, free, literal, rule
from hmx_pipeline.intake.secret_names import OWNERS, WORDS, is_blank, is_code, is_keyed, is_random, is_sentence
from hmx_pipeline.intake.secret_tokens import holds_token_in, without_tokens
from hmx_pipeline.intake.spoken_secrets import (
    ABROAD,
    CARD,
    CARD_SHAPE,
    PIN_SHAPE,
    SECRET,
    SECRET_SHAPE,
    TOLD_ABROAD,
    TOLD_ABROAD_SHAPE,
    is_card,
    is_told,
    is_told_abroad,
)
from hmx_pipeline.intake.spoken_secrets import WORDS as SPOKEN_WORDS

_UNFOLDED: Final = 2
"""Times that a text may grow where its letters are normalised; one letter may become 18."""
_PASSES: Final = 8
"""If so many passes each reveal another secret, the text is hostile and is redacted as a whole."""

# --- secrets in commands, statements and protocols -----------------------------------------------------------------

_ARGUMENT: Final = r"[\"']?(?P<value>[^\s\"'`$<>|;&(){}\\-][^\s\"'`<>|;&\\]*)"


def _header(word: str) -> Rule:
    return rule(
        rf"(?i-u:{word})\\*[\"']?\s*:",
        rf"(?P<before>{any_case(word)}\s*:\s*){NEW}(?P<value>[^\s\"'\\][^\n\"'\\]*)",
        _told_in_header,
    )


def _told_in_header(match: re.Match[str]) -> bool:
    """Return False for `Bearer ${TOKEN}`."""
    words = match["value"].split()
    return len(words) > len(("Bearer", "x")) or not is_blank(words[-1])


def _given(match: re.Match[str]) -> bool:
    return not is_blank(match["value"]) and not is_code(match["value"])


def _of_curl(before: str) -> bool:
    """Return True if the option belongs to curl. Searches backwards, because the distance to the command is
    unbounded."""
    return _CURL.search(before, 1 + max(map(before.rfind, "\n|;"))) is not None


_MANIFEST: Final = r"kind: [\"']?Secret[\"']?(?:[\s,\\]|$)"
_is_manifest: Final = finder(_MANIFEST, strict=True)
_CURL: Final = re.compile(r"\bcurl\b", re.ASCII)
_AUTHORITY: Final = r":\\*/\\*/[^ \n/@\"'<>]*(?::[^ \n@\"'<>]*)?@"
"""A URL's authority with a user, whose password may hold a slash."""
_HEADERS: Final = [*map(_header, ("authorization", "cookie", "api-key"))]
_CARRIED: Final = [
    rule(r"(?i-u:bearer|ntlm|negotiate)\s", rf"(?P<before>(?:{any_case('bearer')}|(?i:ntlm|negotiate))\s+)(?=\S*[0-9]|\S{{20}})[\w.~+/=-]{{8,}}"),
    rule(
        r"(?i-u:basic)\s+[A-Za-z0-9+/]{12}",
        rf"(?P<before>{any_case('basic')}\s+){NEW}(?=[A-Za-z0-9+/]*[0-9=])(?=[A-Za-z0-9+/]*[A-Z])(?P<value>[A-Za-z0-9+/]{{12,}}={{0,2}})",
    ),
    rule(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-",
        r"(?P<before>)(?:-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----|PuTTY-User-Key-File-)"
        r"[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|---- END [A-Z0-9 ]*KEY ----|Private-MAC: ?\w*|\Z)",
    ),
    rule(_AUTHORITY, rf"(?P<before>:\\{{0,8}}/\\{{0,8}}/[^\s/:@\"'<>]*+:){NEW}(?P<value>[^\s/\"'<>]{{1,256}}(?=@)|(?![0-9]{{1,5}}[/?#])[^\s@\"'<>]{{1,256}}(?=@[\w.-]))", _given),
    rule(_AUTHORITY, rf"(?P<before>:\\{{0,8}}/\\{{0,8}}/){NEW}(?P<value>[^\s/:@\"'<>]{{16,}}+)(?=@)", lambda match: is_random(match["value"])),
    rule(
        r"(?i-u:[?&;]sig(?:nature)?=|-signature=)[A-Za-z0-9%/+_=-]{16}",
        r"(?P<before>(?:[?&;][sS]ig(?:nature)?|-[sS]ignature)=)(?P<value>[A-Za-z0-9%/+_=-]{16,})",
    ),
    rule(  # curl -u name:x
        r"curl[^\n]*\s-(?:u|U|-user|-proxy-user)",
        r"(?P<before>\s(?:-u|-U|--user|--proxy-user)[ =]{0,16}(?:\\{0,8}[\"']){0,4}[^\s:\"'\\]{0,200}:)" + NEW + r"(?P<value>[^\s\"'`$][^\s\"'`]*)",
        lambda match: _given(match) and _of_curl(match.string[max(0, match.start() - 600) : match.start()]),
    ),
    rule(  # mysql -px, sshpass -p x, docker login -p x, redis-cli -a x, ldapsearch -w x, smbclient -U name%x
        r"(?:(?:mysql|mariadb)[^\n]*\s-p[^ ]|sshpass\s|(?:7z|cqlsh|cypher-shell)[^\n]*\s-p|(?:sqlcmd|zip|mosquitto|ipmitool)[^\n]*\s-P|http[^\n]*\s-a|(?:docker|podman|helm)[^\n]* login [^\n]*-p|(?:mongo|az )[^\n]*\s-p|redis-cli[^\n]*\s-a|ldap[a-z]+\s[^\n]*\s-w|(?:smb|rpc|winexe|psexec)[^\n]*\s-U)",
        rf"(?P<before>\b(?:(?:mysql|maria)\w*\b[^\n|;]{{0,200}}?\s-p|sshpass\s+-p\s*|(?:docker|podman|helm)\b[^\n|;]{{0,80}}?\blogin\b[^\n|;]{{0,200}}?\s-p[ =]?"
        r"|(?:mongo\w*|az)\b[^\n|;]{0,200}?\s-p[ =]?|(?:7z\w?|cqlsh|cypher-shell)\b[^\n|;]{0,200}?\s-p\s?|(?:sqlcmd|zip|unzip|mosquitto_\w+|ipmitool)\b[^\n|;]{0,200}?\s-P\s+"
        r"|\bhttps?\b[^\n|;]{0,80}?\s-a\s+[\w.@-]{1,64}:|redis-cli\b[^\n|;]{0,200}?\s-a\s+|ldap\w+\b[^\n|;]{0,200}?\s-w\s+"
        rf"|(?:smb|rpc|winexe|psexec)\w*\b[^\n|;]{{0,200}}?\s-U\s+[\"']?[^\s%\"']+%)){NEW}{_ARGUMENT}",
        _given,
    ),
    rule(  # --auth x1y2, if the value looks like a secret
        r"-(?:auth|key|pw)[ =]",
        rf"(?P<before>(?<![\w-])--?[\w-]{{0,32}}(?P<key>auth|key|pw)[ =][\"']?){NEW}(?P<value>[^\s\"'`$<>|;&(){{}}\\-][^\s\"'`<>|;\\]*)",
        lambda match: is_keyed("auth", match["value"]),
    ),
    rule(  # openssl -passin pass:x, cmdkey /pass:x
        r"(?:-pass(?:in|out)?[ =]+[\"']?pass:|/(?i-u:p|pass|password):)[^ ]",
        rf"(?P<before>(?<![\w])(?:-pass(?:in|out)?[ =]+[\"']?pass:|-pass[ =]+pass:|/(?:[pP]ass(?:word)?|[pP]):)){NEW}{_ARGUMENT}",
        _given,
    ),
    rule(  # machine h login n password x; enable secret 5 x
        r"(?:login|user|username|account)\s+[^\n ]+\s+pass|(?:password|secret)\s[0-9]\s|(?:requirepass|masterauth)\s",
        rf"(?P<before>(?:\b(?:login|user(?:name)?|account)\s+(?!(?:and|or)\s)\S{{1,200}}\s+pass(?:word|wd)?\s+|\b(?:password|secret) [0-9] |\b(?:requirepass|masterauth)\s+)){NEW}(?P<value>[^\s\"'<>]+)",
        _given,
    ),
    rule(  # ALTER USER n PASSWORD 'x', IDENTIFIED BY 'x'; not "no revision identified by 'x'"
        r"(?i-u:password|identified\s+(?:with\s+[!-~]+\s+)?(?:by|as)(?:\s+password)?)(?:\s|=|\()+N?(?:\\*[\"']|&#3[49];|&quot;|&apos;)",
        r"(?P<before>(?i:\b(?:(?:set|with)_?)?password|(?P<thing>\b(?:revision|resource|object|record|element|entity|item)\s{1,9})?\bidentified\s{1,9}(?:with\s{1,9}[!-~]{1,40}\s{1,9})?(?:by|as)(?:\s{1,9}password)?)[\s=(]{1,16}N?\\{0,16}(?P<q>[\"']|&#3[49];|&quot;|&apos;))"
        + NEW
        + r"(?P<value>[^\n\"']+?)(?=\\{0,16}(?P=q))",
        lambda match: not (match["thing"] or is_blank(match["value"]) or is_sentence(match["value"])),
    ),
    rule(  # requests.get(url, auth=("n", "x")), HTTPBasicAuth('n', 'x')
        r"(?i-u:auth)(?:=\(|\()\s*[\"']",
        rf"(?P<before>(?i:auth)=?\(\s{{0,9}}(?P<q>[\"'])[^\"'\n]{{0,80}}(?P=q),\s{{0,9}}(?P<p>[\"'])){NEW}(?P<value>[^\n\"']+)(?=(?P=p))",
        _given,
    ),
    rule(  # echo x | sudo -S, echo n:x | chpasswd, echo x | docker login --password-stdin
        r"echo\s[^\n|]*\|[^\n]*(?:sudo\s[^\n]*-S|chpasswd|-stdin|with-token)",
        rf"(?P<before>\becho\s{{1,9}}(?:-[en]\s{{1,9}})?[\"']?(?:[\w.-]{{1,64}}:)?){NEW}(?P<value>[^\s\"'|$`]+)(?=[\"']?\s{{0,9}}\|\s{{0,9}}(?:sudo\s[^\n|]{{0,80}}?-S|(?:sudo\s{{1,9}})?chpasswd|[^\n|]{{0,200}}?(?:-stdin|with-token)))",
        _given,
    ),
    rule(  # a manifest's values, before or after its kind
        _MANIFEST,
        rf"(?P<before>(?m:^)(?P<indent>[ \t]{{0,16}})(?:stringData|data):[ \t]*\n(?P=indent)[ \t]+[\w.-]{{1,200}}:[ \t]+){NEW}(?P<value>\S[^\n]*(?:\n(?P=indent)[ \t]+\S[^\n]*)*)",
        lambda match: _is_manifest(match.string),
    ),
    rule(
        r"(?i-u:ConvertTo-SecureString)\s",
        r"(?P<before>(?i:ConvertTo-SecureString)(?:\s+-\w+)*\s+\\{0,8}[\"'])" + NEW + r"(?P<value>[^\n\"'$]+)",
    ),
]  # fmt: skip
_COMMANDS: Final = (
    "-----BEGIN", "---- BEGIN", "PuTTY", "sig=", "ignature=", "curl ", "sshpass", "edis-cli", "docker login", "podman login", "helm registry",
    "az login ", "7z ", "cqlsh ", "cypher-shell ", "sqlcmd ", "zip -", "mosquitto_", "ipmitool ", "http -a", "https -a", "auth=(", "Auth(",
    "requirepass ", "masterauth ", "sudo -S", "chpasswd", "-stdin", "with-token", "mysql -", "mysqldump -", "mysqladmin -", "mariadb -", "mongo -", "mongosh -", "ldapsearch -", "smbclient", "IDENTIFIED ", "identified by", "identified with", "SecureString",
    "ntlm ", "NTLM ", "egotiate ", "/p:",
)  # fmt: skip
"""Literals of commands and statements that carry a secret."""
_PASSED: Final = r"(?i-u:pass)(?:[0-9_-][A-Za-z0-9_-]*)?(?:[ \]]*=|\\*[\"'>\]]|\\\\)|(?:_PASS|[pP]ass)[ \]]*:|PASS[ \]]+:|-(?:(?:key|store)?pass|auth|key|pw)[ =]"
"""Matches `DB_PASS=x`, `"pass2": "x"`, `--pass x`; not `PASS: test_login`."""


# --- quick checks --------------------------------------------------------------------------------------------------

_WIDE: Final = r"\x{24B6}-\x{24E9}\x{FF10}-\x{FF19}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{1D400}-\x{1D7FF}"
_INVISIBLE: Final = r"\x{AD}\x{34F}\x{180E}\x{200B}-\x{200F}\x{202A}-\x{202E}\x{2060}-\x{206F}\x{FE00}-\x{FE0F}\x{FEFF}\x{E0000}-\x{E01EF}"
_ODD_LETTERS: Final = rf"[{_WIDE}]|[A-Za-z0-9][{_INVISIBLE}][A-Za-z0-9_-]"
"""Full-width or mathematical letters, and invisible characters between letters."""
_spelled_oddly: Final = finder(
    rf"[{_INVISIBLE}\x{{24B6}}-\x{{24E9}}\x{{FF01}}-\x{{FF5E}}\x{{1D400}}-\x{{1D7FF}}]", strict=True
)
_UNSEEN: Final = dict.fromkeys((
    0xAD, 0x34F, 0x180E, *range(0x200B, 0x2010), *range(0x202A, 0x202F), *range(0x2060, 0x2070), *range(0xFE00, 0xFE10),
    0xFEFF, *range(0xE0000, 0xE01F0),
))  # fmt: skip
_TOLD: Final = [
    rule(SECRET_SHAPE, SECRET, is_told),
    rule(TOLD_ABROAD_SHAPE, TOLD_ABROAD, is_told_abroad),
    rule(CARD_SHAPE, CARD, is_card),
]
SUSPICIOUS: Final = (
    *(f"(?i-u:{word})" for word in (*WORDS, *SPOKEN_WORDS)),
    *map(literal, _COMMANDS),
    _PASSED,
    UNNAMED_ROUGHLY,
    r"[bB]asic [A-Za-z0-9+/]{8}",
    _AUTHORITY,
    _ODD_LETTERS,
    PIN_SHAPE,
    CARD_SHAPE,
    ABROAD,
    r"\\\\u",  # JSON in a string may escape the letters of a word
)
suspicious: Final = finder(*SUSPICIOUS)
"""Returns True if an event's dump may contain a secret besides tokens; most do not."""
FIRST_LOOK: Final = (
    rf"(?i-u:(?:api|private|{OWNERS})[ _-]?key|secret|token|cred[es]|cookie|bearer|authorization|contrasena|pwd"
    r"|pass(?:[cpw0-9_-]|[ \]]*[=:\"'>\\\]]))|-(?:(?:key|store)?pass|auth|key|pw)[ =]",
    UNNAMED_ROUGHLY,
    f"({'|'.join(map(literal, _COMMANDS))})",
    r"[bB]asic [A-Za-z0-9+/]{8}", _AUTHORITY, PIN_SHAPE, CARD_SHAPE, ABROAD, _MANIFEST, r"\\\\u",
)  # fmt: skip
"""Patterns of a single scan that most events pass: what a dump contains if `suspicious` matches. They need few
automaton states, which fit into a processor's cache."""
_other_letters: Final = finder(_ODD_LETTERS)


def in_other_letters(dump: bytes) -> bool:
    """Return True for unusual letters. ASCII events, which most are, need no scan."""
    return not dump.isascii() and _other_letters(dump)


_odd: Final = finder(*SUSPICIOUS[:-1], r"\\u", strict=True)
_SHORTEST: Final = 6


def doubtful(text: str, *, tokens: bool = True) -> bool:
    """Return True if a single unescaped string must be searched; else no rule is tried."""
    return len(text) >= _SHORTEST and (_odd(text) or (tokens and holds_token_in(text)))


_carries: Final = finder(
    _MANIFEST, *map(literal, (*_COMMANDS, "bearer", "Bearer", "BEARER", "SSWORD", "ssword", "secret ", "SECRET ", "p:", "pass:", "PASS:")),
    r"-(?:(?:key|store)?pass|auth|key|pw)[ =]", r"[bB]asic[ \t]", r"(?i-u:ntlm|negotiate|identified)\s", _AUTHORITY, strict=True,
)  # fmt: skip
"""Returns True if a text names a command, statement or protocol that carries a secret."""
_may_assign: Final = finder(ASSIGNED_SHAPE, *(rule.shape for rule in _HEADERS), strict=True)
_may_carry: Final = finder(*(rule.shape for rule in _CARRIED), strict=True)
"""One look for all rules, which seldom match. The tables of each are read anew from memory."""


def without_secrets(text: str, *, tokens: bool = True, work: Work = free) -> str:
    """Redact a text. Text in unusual letters is also searched in normalised form; if only that shows a secret, the
    result is normalised, or redacted as a whole if that is much longer."""
    cleaned = _clean(text, tokens, work)
    if not text.isascii() and _spelled_oddly(text):
        plain = as_read(cleaned)
        if plain != cleaned and (found := _clean(plain, True, work)) != plain:
            return found if len(found) <= _UNFOLDED * len(text) else REDACTED
    return cleaned


def as_read(text: str) -> str:
    """Remove invisible characters and normalise letter widths."""
    return unicodedata.normalize("NFKC", text.translate(_UNSEEN))


def _clean(text: str, tokens: bool, work: Work) -> str:
    """Apply the rules until nothing changes: a removed secret may have hidden the start of another."""
    for _ in range(_PASSES):
        before = text
        if _may_assign(text) and may_assign(text):
            text = assigned(_applied(_HEADERS, text, work), work)
        text = unnamed.applied(text, work)
        if _may_carry(text) and _carries(text):
            text = _applied(_CARRIED, text, work)
        if tokens:
            text = without_tokens(text, work)
        text = _applied(_TOLD, text, work)
        if text == before:
            return text
    return REDACTED


def _applied(rules: Iterable[Rule], text: str, work: Work) -> str:
    for one in rules:
        text = one.applied(text, work)
    return text
