"""Shutdown deadline: ends a process that still waits for an answer after it was told to stop.

A hard end is safe: the next owner aborts the open transaction, Redis changes are atomic, and clients resend what was
not acknowledged.
"""

import logging
import os
import threading
from typing import Final

LOG: Final = logging.getLogger("hmx")
END_S: Final = 9.5
"""Supervisors usually kill after ten seconds."""


def end_in_time() -> None:
    """Ends the process after END_S with exit code 0, and logs that it was cut off."""
    timer = threading.Timer(END_S, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    LOG.warning("told to stop %.1f s ago, but a call still waits for an answer: ending the process", END_S)
    logging.shutdown()
    os._exit(0)
