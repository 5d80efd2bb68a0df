"""The forms of natural languages, as data: one TOML file a language, named by its ISO 639-1 code.

In: nothing. Out: the tables of those files. A section belongs to the module that reads it. To add a language, add its
file; a language without one still learns from actions and results. A file that is not valid TOML fails at import.
"""

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
"""Code → section → what stands there. Sorted by code."""


def of_all(section: str) -> dict[str, Mapping[str, Any]]:
    """Code → that section, of the languages whose file has it."""
    return {code: tables[section] for code, tables in LANGUAGES.items() if section in tables}
