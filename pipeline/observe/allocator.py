"""How the C library keeps memory that was freed: so that a process of many threads gives it back.

glibc gives each thread that allocates a heap of its own, up to eight for a core, and keeps in each what its busiest
moment has taken. A client of Kafka has a thread for each broker. Other C libraries do what is said here by themselves.
"""

import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_HEAPS: Final = 2
_OWN_PAGES: Final = 128 * 1024
"""From so many bytes on a block has pages of its own, which go back when it is freed; it would be raised by itself to
the size of the largest block that was ever freed."""


def keep_little() -> None:
    """Before any other thread is started."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        for parameter, value in (
            (_ARENA_MAX, _HEAPS),
            (_MMAP_THRESHOLD, _OWN_PAGES),
            (_TRIM_THRESHOLD, _OWN_PAGES),
        ):
            tell(parameter, value)


def give_back() -> None:
    """What is free, to the system. Takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
