"""Stream position: the offsets of all partitions of a stream as one short text, for `Last-Event-ID` and `after`.

Enters: a fingerprint of the topics, and the next offset of each partition. Pure; an invalid text gives None.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from hmx_pipeline.kafka.consumer_lag import Place

_FORM: Final = re.compile(r"([0-9a-f]{8})\.([0-9]{1,19}(?:-[0-9]{1,19})*)", re.ASCII)


def written(topics: str, positions: Mapping[Place, int]) -> str:
    return f"{topics}.{'-'.join(str(offset) for _, offset in sorted(positions.items()))}"


def read(text: str, topics: str, places: Iterable[Place]) -> dict[Place, int] | None:
    """Decodes a position; None if it is invalid or of other topics."""
    match = _FORM.fullmatch(text)
    offsets = match[2].split("-") if match and match[1] == topics else []
    names = sorted(places)
    return dict(zip(names, map(int, offsets), strict=True)) if len(offsets) == len(names) else None
