"""Sample sessions: three weeks of two imaginary teams and their agents, about 600 events.

`samples.ndjson` holds one record per line in publishing order: some out of order, some duplicated, one gap, and some
invalid. `python -m hmx_pipeline.local.samples > sessions.ndjson` writes them. Leaves: the records as bytes, and in
`EXPECTED` their outcomes.
"""

import sys
from importlib.resources import files
from typing import Final, NamedTuple

from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import Reason

TENANT: Final = "acme"
QUESTION: Final = "The staging deploy fails with image pull errors, what now?"
SECRETS: Final = ("violet-Harbour-4471", "Quartz-lantern-882")
"""Secrets in command lines; only the events topic may hold them, neither other topics nor Redis."""


class Samples(NamedTuple):
    records: list[bytes]
    sessions: int
    outcomes: dict[Outcome, int]
    """Outcome → number of records, without the pipeline's own control records."""
    rejections: dict[Reason, int]


def sample_events() -> list[bytes]:
    """Returns the record values; some are invalid."""
    return list(EXPECTED.records)


_REJECTED: Final = (
    Reason.NOT_UTF8, Reason.NOT_JSON, Reason.NOT_AN_OBJECT, Reason.DUPLICATE_KEY, Reason.MISSING_FIELD,
    Reason.WRONG_TYPE, Reason.UNKNOWN_FIELD, Reason.UNSUPPORTED_VERSION, Reason.BAD_TIMESTAMP, Reason.BAD_SEQUENCE,
    Reason.BAD_SALIENCE, Reason.EVENT_ID_REUSED, Reason.RESERVED,
)  # fmt: skip
"""One record for each common mistake of producers."""

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
