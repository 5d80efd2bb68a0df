"""JSON paths for rejections and redactions: `$.content.headers`, `$.tags[3]`, `$.content['odd key']`."""

import re
from collections.abc import Iterable
from typing import Final

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", re.ASCII)
_LONGEST: Final = 64


def child(path: str, key: str | int) -> str:
    """Extend a path by a key. A long or unusual key is cut and quoted, so that a path is short ASCII without line
    breaks."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if _PLAIN.fullmatch(key) else f"{path}[{key[:_LONGEST]!a}]"


def path_of(parts: Iterable[str | int]) -> str:
    path = "$"
    for part in parts:
        path = child(path, part)
    return path
