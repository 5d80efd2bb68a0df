"""Read your writes: an append returns a token; a pack requested with it waits until memory holds the events.

Enters: the appended events in order; later the token, as `after`. Leaves: the token as text, or a wait that ends once
memory holds the token's events. A token names two events per session: the highest in session order, and the last
appended, because a producer's sequence may restart. Raises ProblemError for an invalid token, or if memory does not
hold the events in time.
"""

import asyncio
import base64
import time
from collections.abc import Iterable
from typing import Final, NamedTuple

import msgspec

from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind
from hmx_pipeline.store.fetch import Store

NAMED: Final = 256
"""Most events in a token. If more sessions were written, it names only the last. `hmx wait` waits for all."""
WAIT_S: Final = 10.0
LOOK_S: Final = (0.01, 0.25)

_DECODER: Final = msgspec.json.Decoder(list[tuple[str, str]])


class Appended(NamedTuple):
    """An appended event, ordered as in its session."""

    session: str
    sequence: int
    instant: int
    event: str


def token(appended: Iterable[Appended]) -> str:
    """Builds the token of events, given in append order."""
    last: dict[str, tuple[Appended, Appended]] = {}
    for one in appended:
        highest, _ = last.pop(one.session, (one, one))
        last[one.session] = max(highest, one), one
    named = [(one.session, one.event) for both in last.values() for one in dict.fromkeys(both)]
    return base64.urlsafe_b64encode(msgspec.json.encode(named[-NAMED:])).decode().rstrip("=")


async def await_memory(turns: FairTurns, store: Store, tenant: str, after: object) -> None:
    waits_for = _read(after)
    deadline, pause = time.monotonic() + WAIT_S, LOOK_S[0]
    while lacking := await turns.run(tenant, store.lacking, tenant, waits_for):
        if time.monotonic() + pause > deadline:
            session, event = lacking[0]
            detail = f"{len(lacking)} events are not in memory after {WAIT_S:g} s, first {event} of {session}"
            raise ProblemError(ProblemKind.NOT_YET, detail, RETRY)
        await asyncio.sleep(pause)
        pause = min(2 * pause, LOOK_S[1])


def _read(after: object) -> list[tuple[str, str]]:
    text = after if isinstance(after, str) else ""
    try:
        return _DECODER.decode(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))[:NAMED]
    except (ValueError, msgspec.DecodeError):
        raise ProblemError(
            ProblemKind.INVALID_REQUEST, "send the `after` of an earlier append", path="$.after"
        ) from None
