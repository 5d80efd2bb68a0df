"""Names of record headers, and the headers of everything that the pipeline writes."""

from collections.abc import Iterable, Sequence
from typing import Final

Headers = Sequence[tuple[str, bytes]]

CONTENT_TYPE: Final = "content-type"
ORIGIN_PARTITION: Final = "hmx-origin-partition"
ORIGIN_OFFSET: Final = "hmx-origin-offset"
KIND: Final = "hmx-kind"
CONTROL_KINDS: Final = (b"tick", b"barrier")
"""Values of KIND on the evidence topic that are no contribution."""
AUTHENTICATION: Final = "hmx-authentication"
REROUTED_FROM: Final = "hmx-rerouted-from"
"""On a rerouted event's copy: where it stood first, and our signature."""
ORIGIN_TOPIC: Final = "hmx-origin-topic"
REASON: Final = "hmx-reason"
STEP: Final = "hmx-step"
PATH: Final = "hmx-path"
DETAIL: Final = "hmx-detail"
LOG_TIME: Final = "hmx-log-time"
OMITTED: Final = "hmx-omitted"
"""On a dead letter that stands for a record too large for one: how many bytes were left out."""

JSON: Final = (CONTENT_TYPE, b"application/json")


def origin_headers(partition: int, offset: int) -> list[tuple[str, bytes]]:
    """content-type and the position in the source topic that an output comes from."""
    return [JSON, (ORIGIN_PARTITION, b"%d" % partition), (ORIGIN_OFFSET, b"%d" % offset)]


def header(headers: Iterable[tuple[str, bytes]] | None, name: str) -> bytes | None:
    """The last header of that name: ours are appended after whatever a producer sent."""
    found = None
    for key, value in headers or ():
        if key == name:
            found = value
    return found
