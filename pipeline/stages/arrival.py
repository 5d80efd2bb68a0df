"""Events on their way through a session's reorder window, and their stored form while they wait."""

import msgspec
import orjson

from pipeline.contracts.envelope import read_envelope
from pipeline.intake.accepted import Accepted
from pipeline.stages.session_state import Held


class Arrival(msgspec.Struct, frozen=True, gc=False):
    """An accepted event with its position in the log."""

    accepted: Accepted
    offset: int
    log_time: int
    trace: str
    """Its traceparent, or ""."""


def held(arrival: Arrival, window_ms: int) -> Held:
    accepted = arrival.accepted
    return Held(
        deadline=arrival.log_time + window_ms,
        offset=arrival.offset,
        log_time=arrival.log_time,
        instant=accepted.instant,
        digest=accepted.digest,
        event=msgspec.Raw(accepted.value),
        notes=accepted.notes,
        redacted=accepted.redacted,
        trace=arrival.trace,
    )


def released_from(waited: Held) -> Arrival:
    value = bytes(waited.event)
    event, fields = read_envelope(value), orjson.loads(value)
    accepted = Accepted(
        event, fields, value, waited.instant, waited.digest, waited.redacted, waited.notes, control=False
    )
    return Arrival(accepted, waited.offset, waited.log_time, waited.trace)
