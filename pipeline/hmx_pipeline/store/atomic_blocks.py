"""Atomic blocks: commands and the new topic position, applied in one transaction or not at all; snapshot reads.

Enters: commands made from the records after a stored position. Leaves: the position the partition now has. WATCH on
that position makes a repeated or outdated block harmless; a script would cost the server twice as much as the
transaction. Raises StoreUnavailableError, and TornStateError if a command of a block fails.
"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import unquote

import redis
from redis import exceptions
from redis.exceptions import ResponseError
from redis.sentinel import Sentinel

from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.settings import SettingsError
from hmx_pipeline.store.changes import ROWS, Command
from hmx_pipeline.store.fill_progress import begun, completeness, questions
from hmx_pipeline.store.redis_keys import Keys

Client: TypeAlias = Any
"""`redis.Redis`; its own types do not tell that replies are bytes here."""

ANSWER_S: Final = 15
"""Timeout of a Redis command, in seconds; the request is then answered with 503."""
SENTINEL: Final = "+sentinel"
_SENTINEL_URL: Final = re.compile(r"(rediss?)\+sentinel://(?:(.*)@)?([^/@]+)/([^/?]+)(?:/(\d+))?")
_TORN: Final = b"torn"
_ANEW: Final = "a block was applied only partly: delete the pipeline's keys in Redis, then memory is rebuilt"


class Stands(NamedTuple):
    """Position of a partition after a block was tried; None if Redis holds none."""

    at: int | None
    ours: bool
    """Whether the block was written; False if another process was first, or Redis was emptied."""


class StoreUnavailableError(Exception):
    """Redis does not answer or refuses for now; the same call may succeed later."""


class TornStateError(StoreUnavailableError):
    """A block was applied only partly: memory in Redis must be rebuilt."""


class DamagedError(StoreUnavailableError):
    """A key does not have its layout's type: something else wrote or cut it."""


class TamperedError(Exception):
    """A record does not match its digest, or one of both is missing; the materialiser restores it from its topic."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name}")
        self.kind = kind
        self.name = name


_REFUSALS: Final[Mapping[str, str]] = {
    "READONLY": "it is a replica and takes no writes; a failover may be under way",
    "LOADING": "it is loading its data after a start",
    "OOM": "its memory is at maxmemory; raise maxmemory or add memory",
    "MASTERDOWN": "it is a replica without its primary",
    "MOVED": "it is a Cluster node that does not hold these keys; set HMX_REDIS_URL to a server that holds all of them",
    "ASK": "it is a Cluster node whose keys are being moved",
    "TRYAGAIN": "it is a Cluster node whose keys are being moved",
    "CLUSTERDOWN": "the Cluster has lost some of its nodes",
    "BUSY": "it is busy with a script",
    "MISCONF": "it cannot write its data to disk",
    "NOREPLICAS": "it has too few up-to-date replicas",
    "NOPERM": "its user lacks this permission; grant it with ACL SETUSER",
    "NOAUTH": "it wants another user or password: check HMX_REDIS_URL and HMX_REDIS_PASSWORD",
}
_CODES: Final[Mapping[type[redis.RedisError], str]] = {
    exceptions.ReadOnlyError: "READONLY",
    exceptions.BusyLoadingError: "LOADING",
    exceptions.OutOfMemoryError: "OOM",
    exceptions.MasterDownError: "MASTERDOWN",
    exceptions.MovedError: "MOVED",
    exceptions.AskError: "ASK",
    exceptions.TryAgainError: "TRYAGAIN",
    exceptions.ClusterDownError: "CLUSTERDOWN",
    exceptions.NoPermissionError: "NOPERM",
    exceptions.AuthenticationError: "NOAUTH",
    exceptions.AuthenticationWrongNumberOfArgsError: "NOAUTH",
}
"""The client drops the first word of these errors."""


@contextmanager
def reachable() -> Iterator[None]:
    """Converts Redis errors into this module's exceptions."""
    try:
        yield
    except redis.RedisError as error:
        explained = _explained(error)
        if explained is error:
            raise
        raise explained from error


def _explained(error: redis.RedisError) -> Exception:
    """Returns the matching exception of this module; the same error if it is a defect of ours."""
    said = str(error).rpartition("of pipeline caused error: ")[2].rstrip(".")
    code = _CODES.get(type(error)) or said.split(" ", 1)[0]
    if code in _REFUSALS:
        return StoreUnavailableError(f"Redis refuses for now: {_REFUSALS[code]} ({code})")
    if isinstance(error, exceptions.ConnectionError | exceptions.TimeoutError):
        return StoreUnavailableError(f"Redis does not answer: {said}")
    if code == "WRONGTYPE" or "WRONGTYPE" in said:
        return DamagedError("a key in Redis has another type than expected")
    return error


def connect(url: str, password: str = "", ca: str = "") -> Client:
    """A client that answers with bytes; it connects when first used. Raises SettingsError for what is no such URL.

    Each connection reads the file of authorities anew, and asks Sentinel anew who the primary is.
    """
    options: dict[str, Any] = {"decode_responses": False, "protocol": 2, "socket_connect_timeout": 3}
    options |= {"socket_timeout": ANSWER_S, **({"password": password} if password else {})}
    if ca and url.startswith("rediss"):
        options["ssl_ca_certs"] = ca
    try:
        if SENTINEL in url.partition("://")[0]:
            return _primary(url, options)
        return redis.Redis.from_url(url, **options)
    except ValueError:  # its text may hold a part of the password
        raise SettingsError(
            "HMX_REDIS_URL is no URL of a Redis: write redis://user:password@host:6379/0, or rediss:// with TLS. Set a"
            " password that has / # ? @ or % in HMX_REDIS_PASSWORD"
        ) from None


def _primary(url: str, options: dict[str, Any]) -> Client:
    """redis+sentinel://user:password@host:port,host:port/name/database; rediss+sentinel:// with TLS, to both kinds."""
    found = _SENTINEL_URL.fullmatch(url)
    if found is None:
        raise ValueError(url)
    scheme, login, hosts, name, database = found.groups()
    tls = {"ssl": True, **{k: v for k, v in options.items() if k.startswith("ssl")}} if scheme == "rediss" else {}
    user, _, password = map(unquote, (login or "").partition(":"))
    options = {**options, **tls, "db": int(database or 0), **{k: v for k, v in
               (("username", user), ("password", password)) if v}}  # fmt: skip
    places = [(host, int(port or 26379)) for host, _, port in (each.partition(":") for each in hosts.split(","))]
    waits = {"socket_timeout": options["socket_connect_timeout"], **tls}
    sentinel: Any = Sentinel
    return sentinel(places, sentinel_kwargs=waits, **options).master_for(name)


class EvictingError(SettingsError):
    """The server may evict keys; the message names the command that prevents it."""


def refuse_eviction(client: Client) -> None:
    """Raises EvictingError unless `maxmemory-policy` is noeviction, since eviction would silently lose memory. If
    neither CONFIG nor INFO is permitted, nothing is raised."""
    policy = _policy(client)
    if policy not in ("", "noeviction"):
        raise EvictingError(
            f"Redis has maxmemory-policy {policy}, so it may silently delete parts of memory. Run: "
            "redis-cli CONFIG SET maxmemory-policy noeviction (and set it in redis.conf, or in the parameter "
            "group of a managed Redis)"
        )


def evictions(client: Client) -> tuple[Any, int]:
    """Returns the server's run id and its evicted keys; (None, 0) if INFO is not permitted."""
    with reachable(), suppress(ResponseError):
        told = client.info("everything")
        return told.get("run_id"), int(told.get("evicted_keys", 0))
    return None, 0


def _policy(client: Client) -> str:
    """Returns the policy, or "" if unknown. Managed servers often forbid CONFIG but permit INFO."""
    with reachable():
        with suppress(ResponseError):
            for name, value in client.config_get("maxmemory-policy").items():
                if name in ("maxmemory-policy", b"maxmemory-policy"):
                    return str(value.decode() if isinstance(value, bytes) else value)
        with suppress(ResponseError):
            return str(client.info("memory").get("maxmemory_policy", ""))
    return ""


class Blocks:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys

    def apply(self, partition: str, expected: int | None, new: int, commands: Sequence[Command]) -> Stands:
        """Moves `partition` (topic/number) from `expected` to `new`, or changes nothing."""
        name, guard = partition.encode(), self._keys.guard(partition)
        stand = (b"HGET", self._keys.positions, name)
        moved = [(b"HSET", self._keys.positions, name, b"%d" % new), (b"SET", guard, b"%d" % new)]
        if expected is None:  # what readers remember may be of an earlier filling
            moved.append((b"SET", self._keys.filling, os.urandom(16)))
        with reachable(), _connection(self._client) as connection:
            at = _position(_answers(connection, [(b"WATCH", guard), stand])[-1])
            if at != expected:
                _answers(connection, [(b"UNWATCH",)])
                return Stands(at, ours=False)
            answers = _answers(connection, [(b"MULTI",), *commands, *moved, (b"EXEC",)])
            if answers[-1] is None:  # another process was first, or the server was emptied
                return Stands(_position(_answers(connection, [stand])[-1]), ours=False)
            if failed := [answer for answer in answers[-1] if isinstance(answer, ResponseError)]:
                _answers(connection, [(b"HSET", self._keys.positions, name, _TORN)])
                raise TornStateError(f"{_ANEW}: {failed[0]}")
        said = zip(commands, answers[-1], strict=False)
        METRICS.unsearched.inc(sum(left for command, left in said if command[:2] == ROWS[:2]))
        return Stands(new, ours=True)

    def read_again(self) -> None:
        """Invalidates what readers remember, before writing from the stored positions: a failover may have moved them
        back. An emptied server does this with its first block."""
        with reachable():
            self._client.set(self._keys.filling, os.urandom(16), xx=True)

    def mend(self, positions: Mapping[str, int], commands: Sequence[Command]) -> bool:
        """Applies commands made from records below these positions; returns False if a block came meanwhile."""
        guards, names = [self._keys.guard(name) for name in positions], [name.encode() for name in positions]
        with reachable(), _connection(self._client) as connection:
            asked = [(b"WATCH", *guards), (b"HMGET", self._keys.positions, *names)]
            at = _answers(connection, asked)[-1]
            if [_position(each) for each in at] != list(positions.values()):
                _answers(connection, [(b"UNWATCH",)])
                return False
            answers = _answers(connection, [(b"MULTI",), *commands, (b"EXEC",)])[-1]
        return answers is not None and not any(isinstance(answer, ResponseError) for answer in answers)

    def unguarded(self, partitions: Sequence[str]) -> list[str]:
        """Returns partitions whose position and guard differ, so one of them is damaged."""
        with reachable(), self._client.pipeline(transaction=True) as pipe:
            guards = [self._keys.guard(name) for name in partitions]
            positions, guarded = pipe.hmget(self._keys.positions, partitions).mget(guards).execute()
        return [name for name, at, guard in zip(partitions, positions, guarded, strict=True) if at != guard]

    def begin_fill(self, goals: Mapping[str, tuple[int, int]]) -> None:
        """Notes the offset ranges of partitions that are read from scratch; memory is incomplete until they
        are read."""
        if goals:
            with reachable():
                self._client.execute_command(*begun(self._keys, goals))

    def completeness(self) -> Completeness:
        """Reads the completeness in one round trip."""
        damaged: set[str] = set()
        asked = [*questions(self._keys), (b"SMEMBERS", self._keys.damaged)]
        positions, goals, before = snapshot(self._client, asked, damaged)
        whole = completeness(positions, goals, damaged)
        return whole if whole.complete else completeness(positions, goals, {*damaged, *map(bytes.decode, before or ())})

    def positions(self) -> dict[str, int]:
        """Returns topic/partition → position up to which records are in memory."""
        with reachable():
            found = self._client.hgetall(self._keys.positions)
        positions = {name.decode(): _position(at) for name, at in found.items()}
        return {name: at for name, at in positions.items() if at is not None}


def snapshot(client: Client, commands: Sequence[Command], damaged: set[str] | None = None) -> list[Any]:
    """Answers read commands as of one moment. Raises the first error, unless `damaged` is given: then keys of a wrong
    type count as empty, and their kinds are added to it."""
    with reachable(), _connection(client) as connection:
        read: list[Any] = _answers(connection, [(b"MULTI",), *commands, (b"EXEC",)])[-1]
        for at, answer in enumerate(read):
            if isinstance(answer, ResponseError):
                if damaged is None or not isinstance(_explained(answer), DamagedError):
                    raise answer
                damaged.add(kind_of(commands[at][3 if commands[at][0] == b"EVAL" else 1]))
                read[at] = _EMPTY.get(commands[at][0])
    return read


_EMPTY: Final[Mapping[bytes, Any]] = {
    b"HGETALL": [],
    b"ZRANGE": [],
    b"LRANGE": [],
    b"HMGET": [],
    b"EVAL": [[], []],
    b"GETRANGE": b"",
    b"ZCARD": 0,
}


def kind_of(key: bytes) -> str:
    """Returns the kind of a key; for keys of all tenants their name."""
    inner = key.rpartition(b"}:")[2] if b"}:" in key else key.rpartition(b":")[2]
    return inner.partition(b":")[0].decode(errors="replace")


@contextmanager
def _connection(client: Client) -> Iterator[Any]:
    """Borrows a connection for a transaction; the client's pipeline would cost more than the transaction."""
    pool = client.connection_pool
    connection = pool.get_connection()
    try:
        yield connection
    except BaseException:
        connection.disconnect()  # replies may be outstanding
        raise
    finally:
        pool.release(connection)


def _answers(connection: Any, commands: Sequence[Command]) -> list[Any]:
    """Sends commands and returns their replies. Raises the first error, which tells why a transaction was
    not executed."""
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
    """Encodes commands in RESP. All arguments are bytes, so they are copied once, with what stands between them."""
    arguments = list(chain.from_iterable(commands))
    parts = [b""] * (2 * len(arguments))
    parts[::2] = map(_BEFORE.__getitem__, map(len, arguments))
    parts[1::2] = arguments
    at, end = 0, b""
    for command in commands:
        parts[at] = b"%b*%d%b" % (end, len(command), parts[at])
        at, end = at + 2 * len(command), _END
    return b"".join((*parts, _END))


class _Before(dict[int, bytes]):
    """What stands before an argument of a length."""

    def __missing__(self, length: int) -> bytes:
        before = b"\r\n$%d\r\n" % length
        if length < _USUAL:
            self[length] = before
        return before


_END: Final = b"\r\n"
_USUAL: Final = 4_096
_BEFORE: Final = _Before()


def _position(text: bytes | None) -> int | None:
    if text == _TORN:
        raise TornStateError(_ANEW)
    return int(text) if text else None
