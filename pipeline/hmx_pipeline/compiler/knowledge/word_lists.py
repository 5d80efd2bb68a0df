"""English word lists for the statement parser. `[words]` of `languages/en.toml` has them, and says what each is for."""

from collections.abc import Mapping
from typing import Any, Final

from hmx_pipeline.languages import LANGUAGES
from hmx_pipeline.segments.lexicon import word_set

_WORDS: Final[Mapping[str, Any]] = LANGUAGES["en"]["words"]

ANYTHING: Final = word_set(_WORDS["anything"])
NO_SUBJECT: Final = word_set(_WORDS["no_subject"])
VAGUE: Final = word_set(_WORDS["vague"])
PASSING: Final = word_set(_WORDS["passing"])
NO_VERB: Final = word_set(_WORDS["no_verb"])
ORDINARY: Final = word_set(_WORDS["ordinary"])
HANGING: Final = word_set(_WORDS["hanging"])
ASKING: Final = word_set(_WORDS["asking"])
SUPPOSING: Final = word_set(_WORDS["supposing"])
SUPPOSING_PHRASES: Final = tuple(_WORDS["supposing_phrases"])
SUPPOSING_WITHIN: Final = frozenset(" ".join(SUPPOSING_PHRASES).split()) - {"i", "is", "like"}
"""Each phrase contains one of these words."""
TRAILING: Final = word_set(_WORDS["trailing"])
REPORTING: Final = word_set(_WORDS["reporting"])
TO_REPORT: Final = word_set(_WORDS["to_report"])
REPORTS: Final = word_set(_WORDS["reports"])
ORDERING: Final = word_set(_WORDS["ordering"])
BASE_FORMS: Final = word_set(_WORDS["base_forms"])
BOUND: Final = word_set(_WORDS["bound"])
