"""Word lists for intents, actions and phases of work, in general English. No tenant's words.

`[work]` of `languages/en.toml` has them, and says what each is for.

`LEXICON_VERSION` is part of every intent key: a changed lexicon makes other keys.
"""

from collections.abc import Mapping
from typing import Any, Final

from hmx_pipeline.languages import LANGUAGES, of_all

LEXICON_VERSION: Final = "1"
_WORK: Final[Mapping[str, Any]] = LANGUAGES["en"]["work"]


def word_set(text: str) -> frozenset[str]:
    return frozenset(text.split())


PHRASES: Final[Mapping[str, str]] = _WORK["phrases"]
VERBS: Final[Mapping[str, str]] = _WORK["verbs"]
LIGHT_VERBS: Final[Mapping[str, str]] = _WORK["light_verbs"]
WEAK: Final[Mapping[str, str]] = _WORK["weak"]
OBJECTS: Final[Mapping[str, str]] = _WORK["objects"]
STOP_WORDS: Final = word_set(_WORK["stop_words"])
PLEASANTRIES: Final = word_set(" ".join(table["words"] for table in of_all("courtesy").values()))
"""Words of courtesy and assent. A message of nothing else carries no wish."""
CHOOSING: Final = word_set(_WORK["choosing"])
READS: Final = word_set(_WORK["reads"])
PHASES: Final = {phase: word_set(names) for phase, names in _WORK["phases"].items()}
CHECKS: Final = word_set(_WORK["checks"])
ENDS: Final = word_set(_WORK["ends"])
SILENT: Final = word_set(_WORK["silent"])
