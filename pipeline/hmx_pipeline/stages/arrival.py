"""Events on their way through a session's reorder window, and their stored form while they wait.

Enters: an `Accepted` event with its offset, append time (ms) and traceparent. Leaves: a `BufferedEvent` with the time
(ms) until which it may wait, and the same `Arrival` again once it is released.
"""

import msgspec
import orjson

from hmx_pipeline.contracts.envelope import read_envelope
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.stages.session_state import BufferedEvent


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An accepted event with its position in the log."""

    accepted: Accepted
    offset: int
    log_time: int
    trace: str
    """Its traceparent, or ""."""
    proven: bool = True
    """False if the service took it with a key that is not its agent's."""


def held(arrival: Arrival, window_ms: int) -> BufferedEvent:
    accepted = arrival.accepted
    return BufferedEvent(
        deadline=arrival.log_time + window_ms,
        offset=arrival.offset,
        log_time=arrival.log_time,
        instant=accepted.instant,
        digest=accepted.digest,
        event=msgspec.Raw(accepted.value),
        notes=accepted.notes,
        redacted=accepted.redacted,
        trace=arrival.trace,
        proven=arrival.proven,
    )


def released_from(waited: BufferedEvent) -> Arrival:
    value = bytes(waited.event)
    event, fields = read_envelope(value), orjson.loads(value)
    accepted = Accepted(
        event, fields, value, waited.instant, waited.digest, waited.redacted, waited.notes, control=False
    )
    return Arrival(accepted, waited.offset, waited.log_time, waited.trace, waited.proven)
