"""State folder of a local stack: its lock file, `stack.json` and `control.key`.

Enters: a folder. Leaves: the pid of the process that runs a stack there, the stack's addresses, and its control key.
Raises StackError if the folder can't be made. The lock ends with the process that holds it, also after a crash.
"""

import fcntl
import json
import os
import secrets
import time
from pathlib import Path
from typing import Any

from hmx_pipeline.local.process import StackError

LOCK, STACK, CONTROL_KEY = "lock", "stack.json", "control.key"
LOCK_TRIES, LOCK_PAUSE = 20, 0.05  # reading the lock also holds it for a moment


def make_folder(folder: Path, setting: str) -> None:
    """Creates a folder. Raises StackError that names `setting`, the variable for another place."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StackError(f"cannot create {folder}: {error.strerror}. Set {setting} to another folder") from error


class StateLock:
    """Lock of the one process that runs a stack here. The file holds its pid."""

    def __init__(self, state: Path) -> None:
        make_folder(state, "HMX_STATE")
        self._path = state / LOCK
        self._fd: int | None = None

    def acquire(self) -> bool:
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        for _ in range(LOCK_TRIES):
            if _locked(fd, fcntl.LOCK_EX):
                os.ftruncate(fd, 0)
                os.write(fd, str(os.getpid()).encode())
                self._fd = fd
                return True
            time.sleep(LOCK_PAUSE)
        os.close(fd)
        return False

    def release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def holder(state: Path) -> int | None:
    """Returns the pid of the process that runs a stack in this folder."""
    try:
        fd = os.open(state / LOCK, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if _locked(fd, fcntl.LOCK_SH):
            return None
        return int(os.read(fd, 32) or b"0") or None
    finally:
        os.close(fd)


def _locked(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def read_stack(state: Path) -> dict[str, Any] | None:
    try:
        stack: dict[str, Any] = json.loads((state / STACK).read_text())
    except FileNotFoundError:
        return None
    return stack


def status(state: Path) -> dict[str, Any] | None:
    """Returns the content of `stack.json` while a stack runs, else None."""
    return read_stack(state) if holder(state) is not None else None


def write_stack(state: Path, stack: dict[str, Any]) -> None:
    aside = state / f"{STACK}.{os.getpid()}"
    aside.touch(mode=0o600)  # a Redis that was given has its password in the URL
    aside.write_text(json.dumps(stack, indent=2) + "\n")
    aside.replace(state / STACK)  # atomic, so a reader never sees half a file


def remove_stack(state: Path) -> None:
    (state / STACK).unlink(missing_ok=True)


def control_key(state: Path) -> str:
    """Returns the secret that authenticates this stack's ticks and barriers; created once."""
    path = state / CONTROL_KEY
    if not path.exists():
        aside = path.with_suffix(f".{os.getpid()}")
        aside.touch(mode=0o600)
        aside.write_text(secrets.token_hex(32) + "\n")
        aside.replace(path)
    return path.read_text().strip()
