"""NATS JetStream as a source: a durable pull consumer, one event a message. Needs the extra `nats`.

Enters: an address, a subject and a consumer's name. Leaves: messages for `sources/feed`, which acknowledges each once
Kafka has it, or refuses it. Raises QueueAwayError. The event is the message's data; its subject and headers are not
read.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final

import nats
from nats.js.api import AckPolicy, ConsumerConfig

from hmx_pipeline.sources.feed import SOME, QueueAwayError, QueueMessage

ANSWER_S: Final = 10.0
SHORT_S: Final = 0.02
"""The shortest wait for messages that are there."""
ACK_WAIT_S: Final = 10.0
"""After this time a message that was not acknowledged comes again."""


class JetStream:
    """One process of a durable consumer, which is created at the beginning of the stream."""

    def __init__(self, url: str, subject: str, durable: str) -> None:
        """Raises QueueAwayError if NATS does not answer, or no stream has this subject."""
        self._runner = asyncio.Runner()
        self._pull: Any = None
        self._client: Any = None
        try:
            self._run(self._open(url, subject, durable))
        except QueueAwayError:
            self.close()
            raise

    def take(self, wait_s: float) -> list[QueueMessage]:
        taken: list[QueueMessage] = self._run(self._fetch(max(wait_s, SHORT_S)))
        return taken

    def drained(self) -> bool:
        """A busy server may give nothing in time although there is something."""
        info = self._run(self._pull.consumer_info())
        return not info.num_pending and not info.num_ack_pending

    def acknowledge(self, taken: list[QueueMessage]) -> None:
        self._run(self._answer([one.handle.ack for one in taken]))

    def refuse(self, taken: list[QueueMessage]) -> None:
        self._run(self._answer([one.handle.term for one in taken]))

    def close(self) -> None:
        if self._client is not None:
            self._run(self._client.close())
        self._runner.close()

    def _run(self, doing: Coroutine[Any, Any, Any]) -> Any:
        try:
            return self._runner.run(doing)
        except (nats.errors.Error, OSError, TimeoutError) as error:
            raise QueueAwayError(str(error) or type(error).__name__) from error

    async def _open(self, url: str, subject: str, durable: str) -> None:
        async def unsaid(_: Exception) -> None:
            """What matters reaches `_run` too."""

        connecting = nats.connect(url, max_reconnect_attempts=-1, error_cb=unsaid, name="hmx source")
        self._client = await asyncio.wait_for(connecting, ANSWER_S)
        asked = ConsumerConfig(ack_policy=AckPolicy.EXPLICIT, ack_wait=ACK_WAIT_S)
        self._pull = await self._client.jetstream(timeout=ANSWER_S).pull_subscribe(subject, durable, config=asked)
        if (await self._pull.consumer_info()).num_ack_pending:
            await asyncio.sleep(1.2 * ACK_WAIT_S)  # so what a crash left comes before anything newer

    async def _fetch(self, wait_s: float) -> list[QueueMessage]:
        try:
            found = await self._pull.fetch(SOME, wait_s)
        except nats.errors.TimeoutError:
            return []
        return [QueueMessage(f"{one.subject} {one.metadata.sequence.stream}", one.data, one) for one in found]

    async def _answer(self, answers: list[Callable[[], Awaitable[None]]]) -> None:
        for answer in answers:
            await answer()
        await self._client.flush()
