"""Shutdown: the signals that stop a process, the deadline that ends it, what starts in place of one that ended itself.

Enters: SIGTERM or SIGINT. Leaves: a `threading.Event` that is set; a process that still runs after 9.5 s ends with exit
code 0, or starts anew. The deadline is for a process that still waits for an answer after it was told to stop. A hard
end is safe: the next owner aborts the open transaction, Redis changes are atomic, and clients resend what was not
acknowledged.
"""

import logging
import os
import signal
import threading
from collections.abc import Callable
from typing import Any, Final

LOG: Final = logging.getLogger("hmx")
END_S: Final = 9.5
"""Supervisors usually kill after ten seconds."""


class Shutdown:
    """How often this process was told to stop, and what starts in its place if it told itself."""

    def __init__(self) -> None:
        self.told = 0
        self.anew: Callable[[], None] | None = None

    def replaced(self) -> bool:
        """False as soon as anybody else told it to stop: then it ends."""
        return self.anew is not None and self.told <= 1


SHUTDOWN: Final = Shutdown()


def end_in_time() -> None:
    """Ends the process after END_S with exit code 0, or starts it anew, and logs that it was cut off. Call it for every
    signal."""
    SHUTDOWN.told += 1
    if SHUTDOWN.told == 1:
        timer = threading.Timer(END_S, _end)
        timer.daemon = True
        timer.start()


def stop_event() -> threading.Event:
    """Returns an event that is set when the process is told to stop, and makes sure that it then ends in time."""
    stop = threading.Event()

    def ask_to_stop(*_: Any) -> None:
        end_in_time()
        stop.set()

    signal.signal(signal.SIGTERM, ask_to_stop)
    signal.signal(signal.SIGINT, ask_to_stop)
    return stop


def _end() -> None:
    LOG.warning("told to stop %.1f s ago, but a call still waits for an answer: ending the process", END_S)
    logging.shutdown()
    try:
        if SHUTDOWN.anew is not None and SHUTDOWN.replaced():
            SHUTDOWN.anew()
    except OSError:
        os._exit(1)
    os._exit(0)
