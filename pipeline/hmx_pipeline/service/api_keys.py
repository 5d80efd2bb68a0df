"""API keys: a file with the SHA-256, tenant and scopes of each key; the keys themselves are not stored.

Enters: lines `SHA-256 tenant<tab>scopes<tab>subject<tab>agent`; without scopes a key reads and writes, without a
subject it is the tenant's, without an agent it vouches for none. Leaves: a key's grant, or None.
Services reload a changed file, so revocation works from the next request. Changes replace the file atomically, one at a
time. Raises OSError when changing; a service that cannot read the file accepts no key.
"""

import fcntl
import hashlib
import logging
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

from hmx_pipeline.contracts.ids import too_long

LOG: Final = logging.getLogger("hmx.service")
LIVE: Final = "hx_live_"
NAME: Final = 12
"""Characters of the SHA-256 that identify a key."""


class Scope(StrEnum):
    READ = "read"
    """Read the tenant's memory."""
    WRITE = "write"
    """Append the tenant's events."""
    ADMIN = "admin"
    """List tenants, read operators' figures, and import fingerprints, rule and erase for its tenant; it opens no other
    tenant's memory."""


USUAL: Final = frozenset({Scope.READ, Scope.WRITE})


class Grant(NamedTuple):
    tenant: str
    scopes: frozenset[Scope]
    subject: str | None = None
    """The only person for whom the key asks and writes; None for the tenant's own backend. Never with the scope
    admin."""
    agent: str | None = None
    """The only agent whose events the key writes. For events of such a key alone, the agent is proven."""
    open: bool = False
    """True if the service asks for no keys, so that everybody is believed."""


def is_name(text: str) -> bool:
    """Returns whether a tenant, subject or agent of a grant may be called so."""
    return bool(text) and text.isprintable() and text == text.strip() and not too_long(text)


def digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def parse(lines: Iterable[str]) -> Iterator[tuple[str, Grant | None]]:
    """Parses the lines, comments skipped; the grant is None for an invalid line."""
    for line in lines:
        recognised, _, rest = line.strip().partition(" ")
        if recognised and not recognised.startswith("#"):
            tenant, _, said = rest.partition("\t")
            said, _, bound = said.partition("\t")
            subject, _, agent = bound.partition("\t")
            try:
                scopes = frozenset(map(Scope, said.split(","))) if said else USUAL
            except ValueError:
                scopes = frozenset()
            well = tenant.strip() and scopes and not (subject and Scope.ADMIN in scopes)
            yield recognised, Grant(tenant.strip(), scopes, subject or None, agent or None) if well else None


class KeyFile:
    """The key file, as a service reads it."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seen: tuple[int, ...] | None = None
        self._grants: dict[str, Grant] = {}

    def grant(self, key: str) -> Grant | None:
        return self._listed().get(digest(key))

    def _listed(self) -> dict[str, Grant]:
        try:
            found = self._file.stat()
            seen = found.st_ino, found.st_mtime_ns, found.st_size
            if seen != self._seen:
                lines = list(parse(self._file.read_text().splitlines()))
                self._grants = {recognised: grant for recognised, grant in lines if grant is not None}
                self._seen = seen
                if len(self._grants) < len(lines):
                    LOG.warning("some lines of the key file are invalid and ignored: `hmx keys list` shows them")
        except (OSError, UnicodeError):
            self._grants, self._seen = {}, None
        return self._grants


def add(file: Path, grant: Grant) -> str:
    """Creates a key and returns it; it cannot be recovered later."""
    key = LIVE + secrets.token_urlsafe(24)
    line = f"{digest(key)} {grant.tenant}\t{','.join(sorted(grant.scopes))}"
    if grant.subject is not None or grant.agent is not None:
        line += f"\t{grant.subject or ''}"
    if grant.agent is not None:
        line += f"\t{grant.agent}"
    _change(file, lambda lines: [*lines, line])
    return key


def revoke(file: Path, which: str) -> None:
    """Removes a key, given by the start of its SHA-256 or in full. Raises LookupError unless exactly one matches."""
    begins = digest(which) if which.startswith(LIVE) else which

    def without(lines: list[str]) -> list[str]:
        gone = [line for line in lines if line.strip().startswith(begins)]
        if len({line.split()[0] for line in gone}) != 1:
            raise LookupError(f"{len(gone)} keys match: give more of the id" if gone else "there is no such key")
        return [line for line in lines if line not in gone]

    _change(file, without)


def _change(file: Path, change: Callable[[list[str]], list[str]]) -> None:
    """Replaces the file atomically, keeping mode, owner and symbolic links."""
    file = file.resolve()
    with _alone(file.parent):
        kept = file.stat() if file.exists() else None
        lines = change(file.read_text().splitlines() if kept else [])
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(descriptor, "w") as held:
                held.write("".join(f"{line}\n" for line in lines))
                if kept is not None:
                    os.fchmod(descriptor, stat.S_IMODE(kept.st_mode))
                    os.fchown(descriptor, kept.st_uid, kept.st_gid)
                held.flush()
                os.fsync(descriptor)
            Path(name).replace(file)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Locks the folder, so that changes run one at a time."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
