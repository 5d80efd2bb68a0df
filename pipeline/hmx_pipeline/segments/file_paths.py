"""File paths, identifiers and dotted names in texts.

Input: a message, a command, or a result. Output: paths that end with a suffix, without a leading `./`; identifiers,
definitions first; or lines, each with the file that it is of.
"""

import re
import sys
from itertools import chain
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB

_NAME: Final = r"(?:[\w.@+-]*[.@+-])?[^\WA-Za-z]*[A-Za-z]\w*\.[A-Za-z][A-Za-z0-9]{0,4}"
_FILE: Final = rf"(?:~/|\.{{1,2}}/|/)?(?:[\w.@+-]+/)*{_NAME}"
_PATH: Final = re.compile(rf"(?<![\w/.@:+-]){_FILE}(?![\w/(])")
_WHOLE: Final = re.compile(_FILE)
_AT_START: Final = re.compile(r"\s*([\w.@+~/-]*\.[A-Za-z][A-Za-z0-9]{0,4})(?=[:\s]|$)(?::\d+)?:?(.*)")
_REMOVED: Final = re.compile(r"(?:^|&&|;|\n)\s*(?:git\s+)?rm\s+([^;&|\n]+)")
_DEFINES: Final = ("def", "class", "func", "type", "interface", "struct", "trait", "module")
_DEFINED: Final = re.compile(rf"\b(?:{'|'.join(_DEFINES)}|function)\s+(?:\([^)]*\)\s*)?([A-Za-z_]\w{{2,}})")
_IDENTIFIER: Final = re.compile(
    r"\b(?:[A-Za-z]+_\w+|_\w{2,}|[a-z]+[A-Z]\w+|[A-Z][a-z0-9]+[A-Z]\w*|[A-Za-z]\w{2,}(?=\(\)))"
)
_DOTTED: Final = re.compile(r"\b[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\b")
_PART: Final = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_SUFFIX: Final = re.compile(r"\.\w+$")
LINES: Final = 24  # lines of a result that are read
_PATH_LENGTH: Final = 160


def file_named(text: str) -> str:
    """Return the text without `./` if it is a path, else ""."""
    return text.removeprefix("./") if _WHOLE.fullmatch(text) else ""


def files_in(text: str) -> list[str]:
    """Return the distinct file names, in order. Only names with a suffix count."""
    if "." not in text:
        return []
    return list(dict.fromkeys(found.removeprefix("./") for found in _PATH.findall(text)))


def files_removed(command: str) -> list[str]:
    """Return the files that a shell command removes by name."""
    if "rm " not in command:
        return []
    words = [word for found in _REMOVED.findall(command) for word in found.split()]
    return [word.removeprefix("./") for word in words if not word.startswith("-")]


def located_lines(text: str) -> list[tuple[str, str]]:
    """Split search output into pairs of file and line text; the file is empty if a line names none."""
    found = []
    for line in text.split("\n", LINES)[:LINES]:
        match = _AT_START.match(line) if "." in line[:_PATH_LENGTH] else None
        path = file_named(match[1]) if match else ""
        found.append((path, match[2]) if match and path else ("", line))
    return found


@remembered(4 * MB)  # an open segment is extracted repeatedly
def identifiers(text: str, most: int = sys.maxsize) -> tuple[str, ...]:
    """Return the distinct identifiers, but only so many: definitions first, then other names that only code would
    contain."""
    found: dict[str, None] = {}
    defined = _DEFINED.finditer(text) if any(word in text for word in _DEFINES) else ()
    for match in chain(defined, _IDENTIFIER.finditer(text)):
        if len(found) >= most:
            break
        found[match[match.re.groups]] = None
    return tuple(found)


def dotted_names(text: str) -> list[str]:
    return list(dict.fromkeys(_DOTTED.findall(text)))


def name_parts(name: str) -> list[str]:
    """Split a name into words: `cmd/session_state.go` → cmd, session, state; `sessionState` → session, state."""
    return [part.lower() for part in _PART.findall(_SUFFIX.sub("", name))]
