"""A numpy array that grows at its end in amortised constant time."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray


class GrowableArray:
    """An array with spare capacity, which is doubled (while small) when it is used up."""

    __slots__ = ("_room", "size")

    def __init__(self, dtype: Any, room: int = 16) -> None:
        self._room: NDArray[Any] = np.empty(room, dtype)
        self.size = 0

    @property
    def values(self) -> NDArray[Any]:
        return self._room[: self.size]

    @property
    def nbytes(self) -> int:
        return self._room.nbytes

    def append(self, values: ArrayLike) -> None:
        added = np.asarray(values)
        size = self.size + len(added)
        if size > len(self._room):
            # Large arrays get little spare room, because they mostly stay as they are.
            room = np.empty(max(size + size // 8, min(2 * len(self._room), size + (1 << 16))), self._room.dtype)
            room[: self.size] = self.values
            self._room = room
        self._room[self.size : size] = added
        self.size = size
