"""Logs: one line each on standard error, with ids and offsets, never a payload."""

import logging
import sys


def configure_logs(level: str) -> None:
    """Raises ValueError for a level that logging does not know."""
    logging.basicConfig(
        level=level.upper(),
        stream=sys.stderr,
        format="%(asctime)s %(levelname)-8s %(name)s  %(message)s",
        force=True,
    )
