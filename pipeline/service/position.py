"""The id of a place in a stream: how far each partition of its topics has been passed on, in few characters.

Enters: what tells the topics from others of their names, and the next offset of each partition. Leaves: a text that
says all of it, `Last-Event-ID` and `after`. Pure; what is no such text is None.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Final

from pipeline.kafka.unread import Place

_FORM: Final = re.compile(r"([0-9a-f]{8})\.([0-9]{1,19}(?:-[0-9]{1,19})*)", re.ASCII)


def written(topics: str, positions: Mapping[Place, int]) -> str:
    return f"{topics}.{'-'.join(str(offset) for _, offset in sorted(positions.items()))}"


def read(text: str, topics: str, places: Iterable[Place]) -> dict[Place, int] | None:
    """None where it is of other topics too."""
    match = _FORM.fullmatch(text)
    offsets = match[2].split("-") if match and match[1] == topics else []
    names = sorted(places)
    return dict(zip(names, map(int, offsets), strict=True)) if len(offsets) == len(names) else None
