"""A block of commands and the position after it, applied as one or not at all; and what is read at one moment.

Enters: commands made of the records from a stored position on. Leaves: where the partition stands now. Whoever read
from another position than the stored one changes nothing: the same block twice, or a block of a process that has lost
touch, is harmless. That is held by WATCH on the partition's position, not by a script: a transaction's arguments cost
the server half of what a script's do. Fails: StoreUnavailableError; TornStateError when a command of a block failed.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple, TypeAlias, cast

import redis
from hiredis import pack_command
from redis.exceptions import ResponseError

from pipeline.settings import SettingsError
from pipeline.store.changes import Command
from pipeline.store.keys import Keys

Client: TypeAlias = Any
"""`redis.Redis`, whose own types do not know that it answers with bytes here."""

_pack: Final = cast("Callable[[Command], bytes]", pack_command)  # its own type allows a command of one argument only
_TORN: Final = b"torn"
_ANEW: Final = "a block was applied in part: delete the pipeline's keys in Redis, and memory is built anew"


class Stands(NamedTuple):
    """Where a partition is after a block was tried; None where it is nowhere."""

    at: int | None
    ours: bool
    """The block was written; else somebody was quicker, or Redis was emptied."""


class StoreUnavailableError(Exception):
    """Redis does not answer, or not now; the same call may succeed later."""


class TornStateError(Exception):
    """A block was applied in part: memory in Redis must be built anew."""


@contextmanager
def reachable() -> Iterator[None]:
    """Redis' ways to be away become one."""
    try:
        yield
    except (redis.ConnectionError, redis.TimeoutError, redis.exceptions.OutOfMemoryError) as error:
        raise StoreUnavailableError(f"Redis does not answer: {str(error).rstrip('.')}") from error
    except redis.ResponseError as error:
        # A replica that is not promoted yet, a script still running, a server without room.
        if str(error).split(" ", 1)[0] in ("READONLY", "BUSY", "LOADING", "MASTERDOWN", "OOM", "MISCONF", "NOREPLICAS"):
            raise StoreUnavailableError(f"Redis refuses for now: {error}") from error
        raise


def connect(url: str) -> Client:
    """A client that answers with bytes; it connects when first used. Raises SettingsError for what is no such URL."""
    try:
        return redis.Redis.from_url(
            url, decode_responses=False, protocol=2, socket_connect_timeout=3, socket_timeout=15
        )
    except ValueError as error:
        raise SettingsError(f"HMX_REDIS_URL={url!r}: {error}") from error


class Blocks:
    """Writes blocks and reads positions."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def apply(self, partition: str, expected: int | None, new: int, commands: Sequence[Command]) -> Stands:
        """`partition` is topic/number; it goes from `expected` to `new`, or stays where it is."""
        name, guard = partition.encode(), self._keys.guard(partition)
        stand = (b"HGET", self._keys.positions, name)
        moved = [(b"HSET", self._keys.positions, name, b"%d" % new), (b"SET", guard, b"%d" % new)]
        if expected is None:  # what a reader remembers may be of an earlier filling
            moved.append((b"SET", self._keys.filling, os.urandom(16)))
        with reachable(), _connection(self._client) as connection:
            at = _position(_answers(connection, [(b"WATCH", guard), stand])[-1])
            if at != expected:
                _answers(connection, [(b"UNWATCH",)])
                return Stands(at, ours=False)
            answers = _answers(connection, [(b"MULTI",), *commands, *moved, (b"EXEC",)])
            if answers[-1] is None:  # somebody was quicker, or the server was emptied
                return Stands(_position(_answers(connection, [stand])[-1]), ours=False)
            if failed := [answer for answer in answers[-1] if isinstance(answer, ResponseError)]:
                _answers(connection, [(b"HSET", self._keys.positions, name, _TORN)])
                raise TornStateError(f"{_ANEW}: {failed[0]}")
        return Stands(new, ours=True)

    def read_again(self) -> None:
        """Whoever is about to write from the stored positions says so first: these may have gone back, as after a
        fail-over, and what a reader remembers may be of what is lost. An emptied server is told by its first block."""
        with reachable():
            self._client.set(self._keys.filling, os.urandom(16), xx=True)

    def positions(self) -> dict[str, int]:
        """topic/partition → position up to which its records are in memory."""
        with reachable():
            found = self._client.hgetall(self._keys.positions)
        positions = {name.decode(): _position(at) for name, at in found.items()}
        return {name: at for name, at in positions.items() if at is not None}


def snapshot(client: Client, commands: Sequence[Command]) -> list[Any]:
    """The answers of commands that only read, all of one moment. Raises the first error among them."""
    with reachable(), _connection(client) as connection:
        read: list[Any] = _answers(connection, [(b"MULTI",), *commands, (b"EXEC",)])[-1]
        for answer in read:
            if isinstance(answer, ResponseError):
                raise answer
    return read


@contextmanager
def _connection(client: Client) -> Iterator[Any]:
    """One connection for a transaction. The client's own pipeline would cost more than all the rest."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        yield connection
    except BaseException:
        connection.disconnect()  # answers may be outstanding
        raise
    finally:
        pool.release(connection)


def _answers(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """One for each command. Raises the first error among them, so of a transaction that was not executed its cause."""
    connection.send_packed_command([_packed(commands)])
    answers: list[Any] = []
    failed: ResponseError | None = None
    for _ in commands:
        try:
            answers.append(connection.read_response())
        except ResponseError as error:
            failed = failed or error
    if failed is not None:
        raise failed
    return answers


def _packed(commands: Sequence[Command]) -> bytes:
    """As RESP. The client's own way looks at each argument's type first, and here all are bytes."""
    return b"".join(map(_pack, commands))


def _position(text: bytes | None) -> int | None:
    if text == _TORN:
        raise TornStateError(_ANEW)
    return int(text) if text else None
