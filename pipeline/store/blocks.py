"""A block of commands and the position after it, applied as one or not at all.

Enters: commands made of the records from a stored position on. Leaves: where the partition stands now. Whoever read
from another position than the stored one changes nothing: the same block twice, or a block of a process that has lost
touch, is harmless. Fails: StoreUnavailableError; TornStateError when the server failed in the middle of a block.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import redis

from pipeline.settings import SettingsError
from pipeline.store.keys import Keys
from pipeline.store.projection import FORGET, Command

Client: TypeAlias = Any
"""`redis.Redis`, whose own types do not know that it answers with bytes here."""

_TORN: Final = b"torn"
# ARGV: field, expected position ('' = none), new position, then per command the number of its arguments and these.
# Effects of a script that fails half-way stay, so the position says `torn` until the last command is through.
_SCRIPT: Final = (
    """
local at = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if at ~= ARGV[2] then return at end
redis.call('HSET', KEYS[1], ARGV[1], 'torn')
local i = 4
while i <= #ARGV do
  local n = tonumber(ARGV[i])
  if ARGV[i + 1] == '"""
    + FORGET.decode()
    + """' then
    for _, held in ipairs(redis.call('SMEMBERS', ARGV[i + 2])) do redis.call('HDEL', held, ARGV[i + 3]) end
    redis.call('DEL', ARGV[i + 2])
  else
    redis.call(unpack(ARGV, i + 1, i + n))
  end
  i = i + n + 1
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return ARGV[3]
"""
)


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
        return redis.Redis.from_url(url, decode_responses=False, socket_connect_timeout=3, socket_timeout=15)
    except ValueError as error:
        raise SettingsError(f"HMX_REDIS_URL={url!r}: {error}") from error


class Blocks:
    """Writes blocks and reads positions."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._script = client.register_script(_SCRIPT)

    def apply(self, partition: str, expected: int | None, new: int, commands: Sequence[Command]) -> int | None:
        """Where `partition` (topic/number) stands afterwards: at `new`, or unchanged elsewhere; None where nowhere."""
        arguments: list[bytes] = [partition.encode(), b"" if expected is None else b"%d" % expected, b"%d" % new]
        for command in commands:
            arguments.append(b"%d" % len(command))
            arguments += command
        with reachable():
            answer = self._script(keys=[self._keys.positions], args=arguments)
        return _position(answer)

    def positions(self) -> dict[str, int]:
        """topic/partition → position up to which its records are in memory."""
        with reachable():
            found = self._client.hgetall(self._keys.positions)
        positions = {name.decode(): _position(at) for name, at in found.items()}
        return {name: at for name, at in positions.items() if at is not None}


def _position(text: bytes) -> int | None:
    if text == _TORN:
        raise TornStateError(
            "a block was applied in part: delete the pipeline's keys in Redis, and memory is built anew"
        )
    return int(text) if text else None
