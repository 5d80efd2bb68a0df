"""Language detection of a message: by script, else by the most function words, else English.

Input: a message, of which the first 400 characters count. Output: the code of a language that has a file, such as `de`.
"""

import re
from typing import Final

from hmx_pipeline.contracts.bounded_cache import remembered
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.languages import of_all

_DEFAULT: Final = "en"
_WORD: Final = re.compile(r"[^\W\d_]+")
_LOOKED_AT: Final = 400
"""Number of characters read."""
_SCRIPTS: Final = tuple(
    (code, re.compile(table["script"])) for code, table in of_all("language").items() if "script" in table
)
_OF_WORD: Final[dict[str, list[str]]] = {}
for _code, _table in of_all("language").items():
    for _word in _table.get("words", "").split():
        _OF_WORD.setdefault(_word, []).append(_code)


@remembered(MB)
def language_of(text: str) -> str:
    looked_at = text[:_LOOKED_AT]
    for code, script in () if looked_at.isascii() else _SCRIPTS:
        if script.search(looked_at):
            return code
    counts = {_DEFAULT: 0}
    for codes in filter(None, map(_OF_WORD.get, _WORD.findall(looked_at.lower()))):
        for code in codes:
            counts[code] = counts.get(code, 0) + 1
    most = max(counts.values())
    return _DEFAULT if counts[_DEFAULT] == most else min(code for code in counts if counts[code] == most)
