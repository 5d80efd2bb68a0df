"""Action names: the verb of a step (`get_order`, `run git commit`), its tool, its phrase, its phase of work.

Input: the role and name of a step; then the verb. Output: the verb, at most 60 characters, empty if the event names
nothing; its tool, words, phrase and phase, and whether it changes something.
"""

import re
from collections import Counter
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.segments.lexicon import CHECKS, LIGHT_VERBS, PHASES, READS, SILENT, word_set

_CALL, _RESULT, _TEST = Role.CALL, Role.RESULT, Role.TEST  # enum lookups are ten times slower
ASK: Final = "ask the user"
"""Verb of a question to the user; it has no tool."""
EDIT: Final = "edit"
"""Verb of a file edit that names its file (HMX-E §3, `file_edit`)."""
_RUN: Final = "run "
_REQUEST: Final = "request "
_NAME: Final = 60

_HTTP: Final = re.compile(
    r"(?:(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS)\s+)?(?:https?://([^/\s?#]+))?(/[^\s?#]*)?(?:[?#]\S*)?"
)
_VARIABLE_PART: Final = re.compile(r"/(?=[^/]*\d)[^/]*")
_PREAMBLE: Final = re.compile(
    r"^(?:[\s\\(]+|(?:cd\s+\S+|set\s+-\S+|source\s+\S+|\.\s+\S+)\s*(?:&&|;|\n)|export\s+(?=\w+=)"
    r"|\w+=\"?\$\(|\w+=(?:\"[^\"]*\"|'[^']*'|\S*)\s+(?:&&\s)?|(?:for|while|until|if)\s(?s:.{0,300}?)[;\n]\s*(?:do|then)\s"
    r"|(?:sudo|time|nohup|exec|command|env)\s|(?:ba|z)?sh\s+(?:-l?c\s+)?['\"]?(?=[\w./])|timeout\s+(?:-\S+\s+)*\S+\s"
    r"|#[^\n]*\n)+"
)
"""What precedes the actual command of a line: directories, variables, loops, shells."""
_CHAIN: Final = re.compile(r"(?:&&|;)\s")
_WORD: Final = re.compile(r"[\w./+@-]+(?::[\w./+@-]+)*")
_SUBCOMMAND: Final = re.compile(r"[a-z][a-z:-]+")
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")
_WITH_SUBCOMMANDS: Final = word_set(
    """
    git gh npm npx yarn pnpm bun pip pip3 uv poetry docker docker-compose podman kubectl helm terraform aws
    gcloud az cargo go make mise just bundle rake rails gradle mvn dotnet systemctl service apt apt-get brew
    conda deno flask django-admin psql redis-cli
    """
)
_CHANGES: Final = frozenset().union(*(word_set(LIGHT_VERBS[name]) for name in ("modify", "create", "remove")))
_PLAIN_VERBS: Final = READS | _CHANGES
_ACRONYMS: Final = word_set(
    """
    api aws ci cli cpu css csv dns gcp gpu html http https id ip json jwt pdf pr qa ram sdk sql ssh ssl sso tls ui uri
    url vm xml
    """
)
_PARTS: Final = re.compile(r"[^\W_]+")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@remembered(4 * MB)
def verb_of(role: Role, name: str) -> str:
    """Return the verb; empty if the event names nothing."""
    name = name.strip()
    if not name:
        return ""
    if role is _CALL or role is _RESULT:
        return "_".join(name.split())[:_NAME]
    http = _HTTP.fullmatch(name)
    if http and (http[1] or http[2]):
        place = (http[2] or "") + _VARIABLE_PART.sub("", http[3] or "")
        return f"{_REQUEST}{http[1] or 'GET'} {place}"[:_NAME].strip()
    if role is _TEST or len(name.split(None, 1)) > 1 or "/" in name:
        return _command(name)
    return name[:_NAME]


def _command(line: str) -> str:
    words = _WORD.findall(_PREAMBLE.sub("", line, count=1)[:400]) or [""]
    program = words[0].rstrip("/").rsplit("/", 1)[-1] or "shell"
    if _PYTHON.fullmatch(program):
        program = "python"
        if len(words) > 2 and words[1] == "-m":
            program = words[2]
    if program in _WITH_SUBCOMMANDS:
        subs = [word for word in words[1:4] if _SUBCOMMAND.fullmatch(word)]
        program = " ".join([program, *subs[: 2 if subs[:1] == ["run"] else 1]])
    return f"{_RUN}{program}"[:_NAME]


@remembered(MB)
def blamed(line: str, error: str) -> str:
    """Return the command of a line `a && b` that failed: the only one that the error names, by a word that the others
    lack; empty if it is not known. A line with one command is returned whole."""
    parts = [part.strip() for part in _CHAIN.split(_PREAMBLE.sub("", line, count=1)) if part.strip()]
    if len(parts) < 2 or "<<" in line:
        return line
    named, said = [set(words_of(part)) for part in parts], set(words_of(error))
    often = Counter(word for words in named for word in words)
    found = [part for part, words in zip(parts, named, strict=True) if any(often[w] == 1 for w in words & said)]
    return found[0] if len(found) == 1 else ""


def tool_of(verb: str) -> str:
    """Return the tool: `git` for `run git commit`. Requests and tools are their own tool; asking has none."""
    if verb == ASK:
        return ""
    if verb.startswith(_RUN):
        return verb.split()[1]
    return verb.removeprefix(_REQUEST)


def words_of(verb: str) -> list[str]:
    """Split into words: four for `exchange_delivered_order_items`; for `mcp__server__tool`, those of the tool."""
    name = verb.removeprefix(_RUN).rsplit("__", 1)[-1]
    return [word.lower() for part in _PARTS.findall(name) for word in _CAMEL.split(part) if word]


def phrase_of(verb: str) -> str:
    """Return a phrase for readers: `get user details`, ``run `git commit` ``, `edit files`, or "use" with a tool's
    name."""
    if verb == ASK:
        return ASK
    if verb.startswith(_RUN):
        return f"run `{verb.removeprefix(_RUN)}`"
    if verb.startswith(_REQUEST):
        return f"request `{verb.removeprefix(_REQUEST)}`"
    if verb == EDIT:
        return "edit files"
    words = words_of(verb)
    if len(words) == 1 and verb[:1].isupper() and words[0] not in _PLAIN_VERBS:
        return f"use `{verb}`"
    return " ".join(word.upper() if word in _ACRONYMS else word for word in words) or verb


@remembered(MB)
def mutates(verb: str) -> bool:
    """Return False if the verb only reads. `write_file` changes something, although `file` is also a read command."""
    if verb == ASK or verb.startswith((f"{_REQUEST}GET", f"{_REQUEST}HEAD")):
        return False
    words = words_of(verb)
    if words and words[0] in _CHANGES:
        return True
    return not (words and (words[0] in READS or words[-1] in READS or verb.lower() in READS))


@remembered(MB)
def checks(verb: str) -> bool:
    """Return True if the verb checks whether something works."""
    return not CHECKS.isdisjoint(words_of(verb))


@remembered(MB)
def phase_of(verb: str) -> str:
    """Return the phase: `inspect`, `plan`, `modify`, `execute`, `verify`, `deploy`, `recover` or `report`."""
    words = words_of(verb.split(" ", 2)[-1] if verb.startswith(_REQUEST) else verb)
    named = next((phase for phase, own in PHASES.items() if not own.isdisjoint([*words, verb.lower()])), "")
    if named == "plan":
        return named
    if checks(verb):
        return "verify"
    if not mutates(verb):
        return "inspect"
    return named or ("execute" if verb.startswith(_RUN) else "modify")


def silent(verb: str) -> bool:
    """Return True for tools by which an agent talks to itself."""
    return verb.lower() in SILENT
