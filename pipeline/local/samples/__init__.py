"""Sample sessions for a first look: three weeks of two imaginary teams and their agents, about 600 events.

Leaves: the records of `sample_events()` in the order in which they are published, and `EXPECTED`, what must become of
them. Nothing here fails, and every call gives the same bytes.
"""

from typing import Final

from pipeline.local.samples import changes, incidents, northwind, releases
from pipeline.local.samples.traffic import Samples, on_their_way

TENANT: Final = releases.TENANT
QUESTION: Final = "The staging deploy fails with image pull errors, what now?"
SECRETS: Final = (releases.REGISTRY_PASSWORD, changes.DATABASE_PASSWORD)
"""Planted in command lines: no topic but that of the events may hold them, nor may Redis."""


def sample_events() -> list[bytes]:
    """Values of the records; some are no events."""
    return list(EXPECTED.records)


def _samples() -> Samples:
    nights = list(incidents.incidents())
    stories = [
        *releases.deployments(),
        *nights,
        *changes.refactorings(),
        *changes.migrations(),
        *releases.rollbacks(),
        *releases.rotations(),
        *northwind.northwind(),
    ]
    return on_their_way(stories, lost=nights[2].events[-2]["event_id"])


EXPECTED: Final = _samples()
