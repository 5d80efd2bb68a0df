"""The speaker's name at the start of a transcript line, as in `Anna: hello`."""

import re
from typing import Final

from hmx_pipeline.segments.lexicon import word_set

_SPEAKER: Final = re.compile(r"([A-Z][a-z]+(?: [A-Z][a-z]+)?): ")
LABELS: Final = word_set(
    """
    Note Error Warning Problem Question Answer Plan Goal Update Summary Result Issue Bug Fix Todo Feature Task Input
    Output Example Title Description Status Reason Cause Context Background Expected Actual Steps Request Response
    User Assistant System Human Agent Tip Hint Info Important Reminder Option Idea Proposal Severity File Line Test
    Remember Policy Rule Decision Conclusion Analysis Review Comment Feedback Correction Also Edit Reply Version
    Type Name Date Time Place Style Code Naming Testing Tests Commits Docs Documentation Security Logging Formatting
    Lint Linting Database Git Branches Releases Deployment Handling Conventions Guidelines Architecture Performance
    Dependencies Build Languages Language Framework Stack Environment Tooling Tools Port Host
    """
)
"""Words before a colon that are no speakers."""


def speaker_of(text: str) -> str:
    """Return the speaker's name; empty if the text does not begin with one and a colon."""
    match = _SPEAKER.match(text)
    return match[1] if match is not None and match[1] not in LABELS else ""
