"""Work that is too much for one transaction, and is done in turns: what is left of it, in order."""

from collections.abc import Set as AbstractSet


class Turns:
    """Keys in their order, one at a time. Between the turns nothing else happens, so what is left only shrinks; who
    begins in the middle, on restored state, sorts what is left and goes on alike."""

    def __init__(self) -> None:
        self._rest: list[str] = []

    def next_of(self, left: AbstractSet[str]) -> str:
        """The first key of what is left, which must not be empty. Whoever asks takes it away."""
        if not self._rest:
            self._rest = sorted(left, reverse=True)
        return self._rest.pop()
