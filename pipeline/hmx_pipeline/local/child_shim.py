"""Child shim: runs a command that is killed when its parent process ends.

Enters: the parent's pid and the command. The command keeps this process's pid. The kernel kills it on Linux, a small
watcher process elsewhere. Run as a file, because imports would slow down the start.
"""

import os
import sys
import time

PR_SET_PDEATHSIG = 1
SIGKILL = 9


def die_with_parent(parent: int) -> None:
    if sys.platform == "linux" and not os.environ.get("HMX_SHIM_WATCH"):
        import ctypes

        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")
        if os.getppid() != parent:  # it ended before prctl took effect
            sys.exit(1)
    else:
        watch(parent, os.getpid())


def watch(parent: int, command: int) -> None:
    """Forks twice, so that the watcher is no child of the command, and kills the command when its parent is gone."""
    middle = os.fork()
    if middle:
        os.waitpid(middle, 0)
        return
    if os.fork():
        os._exit(0)
    os.closerange(0, 3)
    while alive(command):
        if not alive(parent):
            os.kill(command, SIGKILL)
            break
        time.sleep(0.2)
    os._exit(0)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


if __name__ == "__main__":
    die_with_parent(int(sys.argv[1]))
    os.execvp(sys.argv[2], sys.argv[2:])  # noqa: S606 - no shell is wanted
