"""What an agent repeats of what memory has told it: in a prompt, a tool's result, a quotation.

Enters: a text. Leaves: the text without it. Never fails. What begins with the mark of a pack's entries is cut out up to
the next blank line, or memory would take its own words for evidence.
"""

import re
from typing import Final

from pipeline.contracts.pack import ENTRY_MARK

_FIRST: Final = ENTRY_MARK[0]
_ENTRY: Final = re.compile(re.escape(ENTRY_MARK) + r".*?(?:\n[ \t\r]*\n|\Z)", re.DOTALL)


def echoes(text: str) -> bool:
    """Whether the text, or its beginning, holds the mark. A single character is found in a tenth of the time."""
    return _FIRST in text and ENTRY_MARK in text


def own_words(text: str) -> str:
    return _ENTRY.sub("", text).strip()
