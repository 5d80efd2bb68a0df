"""Memory of a process: glibc malloc settings that return freed memory, and a garbage collector that runs seldom.

glibc keeps a heap per allocating thread, up to eight per core, each at its peak size. A Kafka client has one thread per
broker. Other C libraries need no settings.
"""

import ctypes
import gc
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
_HEAPS: Final = 2
_OWN_PAGES: Final = 128 * 1024
"""Blocks of at least this many bytes get their own pages, returned when freed. Unset, glibc raises it to the largest
block freed so far."""


def keep_little() -> None:
    """Applies the settings; call it before any other thread starts."""
    tell = getattr(ctypes.CDLL(None), "mallopt", None)
    if tell is not None:
        for parameter, value in (
            (_ARENA_MAX, _HEAPS),
            (_MMAP_THRESHOLD, _OWN_PAGES),
            (_TRIM_THRESHOLD, _OWN_PAGES),
        ):
            tell(parameter, value)


def collect_seldom() -> None:
    """Lets the garbage collector run less often, and never over what is there already: records and requests seldom
    leave reference cycles."""
    gc.set_threshold(50_000, 20, 50)
    gc.freeze()


def give_back() -> None:
    """Returns free memory to the system; takes some milliseconds."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
