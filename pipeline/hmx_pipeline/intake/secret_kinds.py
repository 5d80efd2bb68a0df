"""Credential formats of vendors: `secret_kinds.toml` has one row per kind."""

import tomllib
from importlib.resources import files
from typing import Final, NamedTuple


class SecretKind(NamedTuple):
    id: str
    keywords: str
    """Patterns, separated by spaces, which decide whether the pattern is tried."""
    pattern: str
    example: str
    counter: str
    """Looks like a match, but is none."""


_ROWS: Final = tomllib.loads(files(__package__).joinpath("secret_kinds.toml").read_text("utf-8"))
KINDS: Final = tuple(SecretKind(name, *row) for name, row in _ROWS.items())
