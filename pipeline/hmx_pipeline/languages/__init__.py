"""Word lists and sentence forms of natural languages, as data: one TOML file per ISO 639-1 code.

Input: `languages/*.toml`, at import. Output: `LANGUAGES`, language code → section → table, and one section of all
languages (`of_all`). Each section belongs to the module that reads it. To add a language, add its file. A language
without a file still learns from actions and results. Raises at import if a file is not valid TOML.
"""

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final


def _read() -> dict[str, Mapping[str, Any]]:
    found = sorted(files(__name__).iterdir(), key=lambda file: file.name)
    return {
        file.name.removesuffix(".toml"): tomllib.loads(file.read_text("utf-8"))
        for file in found
        if file.name.endswith(".toml")
    }


LANGUAGES: Final[Mapping[str, Mapping[str, Any]]] = _read()
"""Language code → section → its table. Sorted by code."""


def of_all(section: str) -> dict[str, Mapping[str, Any]]:
    """Return language code → this section, for the languages whose file has it."""
    return {code: tables[section] for code, tables in LANGUAGES.items() if section in tables}


def expression(text: str) -> re.Pattern[str]:
    """Compile an expression of a language file; a line break in it, and blanks behind that, count for nothing."""
    return re.compile(re.sub(r"\n *", "", text), re.IGNORECASE)
