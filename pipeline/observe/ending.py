"""Ending in time. What a process that was told to stop still waits for may never come: a broker that does not answer.

Whatever is cut off is whole all the same: a transaction is aborted by the next owner, Redis changes as a whole or not,
and what a client was not told of it sends again.
"""

import logging
import os
import threading
from typing import Final

LOG: Final = logging.getLogger("hmx")
END_S: Final = 9.5
"""Supervisors wait ten seconds, as a rule, before they kill."""


def end_in_time() -> None:
    """From now on the process has END_S. It was told to stop, so it ends with exit code 0 also where it is cut off; the
    log says which."""
    timer = threading.Timer(END_S, _end)
    timer.daemon = True
    timer.start()


def _end() -> None:
    LOG.warning("told to stop %.1f s ago, and something still waits for an answer: the process ends", END_S)
    logging.shutdown()
    os._exit(0)
