"""Words and phrases that tell what kind a sentence is, as the language files list them in `[rules]`.

In: a kind. Out: its cues of all languages, as one expression. Nothing fails.
"""

import re
from typing import Final

from pipeline.languages import of_all

WIDE: Final = re.compile(r"[぀-ヿ㐀-鿿]")
"""A letter of a language that writes no blanks."""


def cue(kind: str) -> re.Pattern[str]:
    """Where words stand apart, whole words."""
    tables = of_all("rules").values()
    listed = {one.replace("_", " ") for table in tables for one in table.get(kind, "").split()}
    cues = sorted(listed, key=lambda one: (-len(one), one))
    whole = "|".join(re.escape(one) for one in cues if not WIDE.match(one))
    pieces = "|".join(re.escape(one) for one in cues if WIDE.match(one))
    return re.compile(rf"(?<![\w'])(?:{whole})(?![\w'])|{pieces}", re.IGNORECASE)
