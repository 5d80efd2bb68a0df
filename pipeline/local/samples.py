"""Sample sessions for a first look: three weeks of two imaginary teams and their agents, about 600 events.

Enters: `samples.ndjson` beside this module, one record a line in the order in which they are published. Some overtake
others, some come twice, one never, and some are no events. Leaves: the records, and `EXPECTED`, what must become of
them. `python -m pipeline.local.samples > sessions.ndjson` writes them. Nothing fails.
"""

import sys
from importlib.resources import files
from typing import Final, NamedTuple

from pipeline.contracts.outcomes import Outcome
from pipeline.contracts.rejections import Reason

TENANT: Final = "acme"
QUESTION: Final = "The staging deploy fails with image pull errors, what now?"
SECRETS: Final = ("violet-Harbour-4471", "Quartz-lantern-882")
"""Planted in command lines: no topic but that of the events may hold them, nor may Redis."""


class Samples(NamedTuple):
    records: list[bytes]
    sessions: int
    outcomes: dict[Outcome, int]
    """How many records end each way; the pipeline's own control records come on top."""
    rejections: dict[Reason, int]


def sample_events() -> list[bytes]:
    """Values of the records; some are no events."""
    return list(EXPECTED.records)


_REJECTED: Final = (
    Reason.NOT_UTF8, Reason.NOT_JSON, Reason.NOT_AN_OBJECT, Reason.DUPLICATE_KEY, Reason.MISSING_FIELD,
    Reason.WRONG_TYPE, Reason.UNKNOWN_FIELD, Reason.UNSUPPORTED_VERSION, Reason.BAD_TIMESTAMP, Reason.BAD_SEQUENCE,
    Reason.BAD_SALIENCE, Reason.EVENT_ID_REUSED, Reason.RESERVED,
)  # fmt: skip
"""One record for each of the mistakes that producers make most."""

EXPECTED: Final = Samples(
    (files(__package__) / "samples.ndjson").read_bytes().splitlines(),
    45,
    {
        Outcome.RELEASED: 618,
        Outcome.RELEASED_LATE: 1,
        Outcome.DUPLICATE: 19,
        Outcome.REJECTED: len(_REJECTED),
    },
    dict.fromkeys(_REJECTED, 1),
)

if __name__ == "__main__":
    sys.stdout.buffer.write(b"".join(value + b"\n" for value in sample_events()))
