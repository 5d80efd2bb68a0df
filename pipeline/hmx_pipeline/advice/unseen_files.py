"""Files that a request names and no session has seen: written paths, and dotted modules turned into paths.

Input: a request, the known files, and how many sessions changed each. Output: files with their certainty. The known
files show where paths begin and how modules end: `shop.cart.Cart` becomes `src/shop/cart.py` if `src/shop/` is known
and most changed files end in `.py`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Final

from hmx_pipeline.segments.file_paths import dotted_names, files_in

BY_MODULE: Final = 0.7  # a path that is written out counts 1
_OUTSIDE: Final = ("/", "~", "..")
_INSTALLED: Final = re.compile(r".*/(?:site-packages|dist-packages|(?:blob|raw|tree)/[^/]+)/")
"""Prefix of a path into an installed package (in a traceback) or into a repository (in a link)."""


class Layout:
    """The layout of a workspace: its directories, and the usual suffix of its files."""

    def __init__(self, files: Iterable[str], changed: Mapping[str, int]) -> None:
        self._files = set(files)
        suffixes: Counter[str] = Counter()
        for path, times in changed.items():
            suffixes[path[path.rfind(".") :] if "." in path.rsplit("/", 1)[-1] else ""] += times
        self._suffix = min(suffixes, key=lambda suffix: (-suffixes[suffix], suffix), default="")
        above: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for path in self._files:
            *directories, _ = path.split("/")
            for depth, directory in enumerate(directories):
                above[directory]["".join(f"{part}/" for part in directories[:depth])] += 1
        self._above = {name: min(found, key=lambda a: (-found[a], a)) for name, found in above.items()}
        """Directory name → the path that most often stands before it."""

    def unmet(self, request: str) -> dict[str, float]:
        """Return path → certainty. A dotted name also gives its parent, which may be the module that defines the last
        part."""
        named: dict[str, float] = {}
        for said in files_in(request):
            path = _INSTALLED.sub("", said)
            if "/" in path and not path.startswith(_OUTSIDE):
                named.setdefault(path, 1.0)
        if self._suffix:
            for module in map(_module, dotted_names(request)):
                for parts in (module, module[:-1]):
                    if len(parts) > 1:
                        path = self._above.get(parts[0], "") + "/".join(parts) + self._suffix
                        named.setdefault(path, BY_MODULE)
        return {path: surely for path, surely in named.items() if path not in self._files}


def _module(dotted: str) -> list[str]:
    """Return the parts before the first that cannot name a module, such as a class."""
    return list(takewhile(lambda part: part.islower() and part.isidentifier(), dotted.split(".")))
