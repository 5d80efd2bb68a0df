"""Redis Streams as a source: a consumer group over one stream, one event an entry.

Enters: a connection, a stream, a group and a consumer's name. Leaves: messages for `sources/feed`, which acknowledges
each once Kafka has it, or refuses it. Raises QueueAwayError and QueueDamagedError. An entry holds its event as JSON in
one field. An entry without that field becomes a JSON object of its fields, so that the pipeline rejects it with a
reason.
"""

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, Final

import orjson
from redis.exceptions import ResponseError

from hmx_pipeline.sources.feed import SOME, QueueAwayError, QueueDamagedError, QueueMessage
from hmx_pipeline.store.atomic_blocks import Client, DamagedError, StoreUnavailableError, reachable

LOG: Final = logging.getLogger("hmx.source")
IDLE_MS: Final = 60_000
"""After this time another consumer's unacknowledged entries are taken over."""
_NEW: Final = b">"
_START: Final = b"0-0"


class RedisStream:
    """Reads as one consumer of a group, which is created at the beginning of the stream."""

    def __init__(
        self, client: Client, stream: str, group: str, consumer: str, field: str = "event", *, delete: bool = False
    ) -> None:
        """Raises StoreUnavailableError if Redis does not answer, or the key is no stream."""
        self._client, self._stream, self._group, self._consumer = client, stream, group, consumer
        self._field, self._delete = field.encode(), delete
        self._after = b"0"
        """Of its own unacknowledged entries, the last one read; `>` when all are read."""
        self._claimed, self._claim = 0.0, _START
        """When all entries of others were last seen, and where looking for them continues."""
        with reachable():
            self._create()

    def take(self, wait_s: float) -> list[QueueMessage]:
        while True:
            with self._answering():
                entries = self._own() or self._abandoned() or self._read(_NEW, int(wait_s * 1000))
            if lost := [name for name, fields in entries if not fields]:
                LOG.warning("%d entries were trimmed from stream %s before they were read", len(lost), self._stream)
                self.acknowledge([QueueMessage("", b"", name) for name in lost])
            if len(lost) < len(entries) or not entries:
                return [QueueMessage(name.decode(), self._event(fields), name) for name, fields in entries if fields]

    def drained(self) -> bool:
        """Redis gives whatever there is; what others hold becomes this one's only after a minute without an answer."""
        return True

    def acknowledge(self, taken: list[QueueMessage]) -> None:
        self._done(taken, delete=self._delete)

    def refuse(self, taken: list[QueueMessage]) -> None:
        """They stay in the stream, and are not pending."""
        self._done(taken, delete=False)

    def _done(self, taken: list[QueueMessage], *, delete: bool) -> None:
        if not taken:
            return
        names = [one.handle for one in taken]
        with self._answering():
            block = self._client.pipeline()
            block.xack(self._stream, self._group, *names)
            if delete:
                block.xdel(self._stream, *names)
            block.execute()

    def close(self) -> None:
        self._client.close()

    def _create(self) -> None:
        try:
            self._client.xgroup_create(self._stream, self._group, id="0", mkstream=True)
        except ResponseError as error:
            if "BUSYGROUP" not in str(error):
                raise

    @contextmanager
    def _answering(self) -> Iterator[None]:
        """After a failure it begins again with what it has not acknowledged, in a group that exists."""
        try:
            with reachable():
                yield
        except DamagedError:
            raise QueueDamagedError(f"the key {self._stream} of this Redis is no stream") from None
        except (StoreUnavailableError, ResponseError) as error:
            if isinstance(error, ResponseError) and "NOGROUP" not in str(error):
                raise
            self._after = b"0"
            with suppress(StoreUnavailableError), reachable():
                self._create()
            raise QueueAwayError(str(error)) from error

    def _own(self) -> list[Any]:
        if self._after == _NEW:
            return []
        entries = self._read(self._after, 0)
        self._after = entries[-1][0] if entries else _NEW
        return entries

    def _abandoned(self) -> list[Any]:
        """Looks through what others have pending, once in IDLE_MS."""
        if time.monotonic() < self._claimed + IDLE_MS / 1000:
            return []
        while True:
            self._claim, taken, *gone = self._client.xautoclaim(
                self._stream, self._group, self._consumer, IDLE_MS, self._claim, count=SOME
            )
            if self._claim == _START:
                self._claimed = time.monotonic()
            if taken or any(gone) or self._claim == _START:
                return [*taken, *((name, None) for names in gone for name in names)]

    def _read(self, after: bytes, wait_ms: int) -> list[Any]:
        options = {"count": SOME, **({"block": wait_ms} if wait_ms else {})}
        found = self._client.xreadgroup(self._group, self._consumer, {self._stream: after}, **options)
        return list(found[0][1]) if found else []

    def _event(self, fields: Mapping[bytes, bytes]) -> bytes:
        event = fields.get(self._field)
        if event is not None:
            return event
        return orjson.dumps(
            {name.decode(errors="replace"): value.decode(errors="replace") for name, value in fields.items()}
        )
