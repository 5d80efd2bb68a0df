"""Cue words and phrases that tell the kind of a sentence, from the `[rules]` sections of the language files.

Input: a kind of cue, such as `scope`. Output: one compiled expression for all languages.
"""

import re
from typing import Final

from hmx_pipeline.languages import of_all

WIDE: Final = re.compile(r"[぀-ヿ㐀-鿿]")
"""A letter of a language that writes no spaces."""


def cue(kind: str) -> re.Pattern[str]:
    """Return one expression for the cues of all languages. It matches whole words in languages that write spaces."""
    tables = of_all("rules").values()
    listed = {one.replace("_", " ") for table in tables for one in table.get(kind, "").split()}
    cues = sorted(listed, key=lambda one: (-len(one), one))
    whole = "|".join(re.escape(one) for one in cues if not WIDE.match(one))
    pieces = "|".join(re.escape(one) for one in cues if WIDE.match(one))
    return re.compile(rf"(?<![\w'])(?:{whole})(?![\w'])|{pieces}", re.IGNORECASE)
