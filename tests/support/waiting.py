"""Waiting for a condition instead of for a time."""

import time
from collections.abc import Callable

PATIENCE_S = 120.0
"""Only what fails takes so long: much more than a busy machine needs."""


def until(holds: Callable[[], object], what: str = "", seconds: float = PATIENCE_S) -> None:
    """Asks until the condition holds; fails, and says what was waited for, when the time is up."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited for {seconds:.0f} s in vain {what and 'until ' + what}"
        time.sleep(0.05)
