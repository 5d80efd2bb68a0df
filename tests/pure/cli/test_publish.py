"""`hmx publish` at Ctrl-C: it stops taking lines, so that what was sent is acknowledged and counted."""

import signal
from collections.abc import Iterator

import pytest

from hmx_pipeline.cli import publish


def lines(interrupts: int) -> Iterator[bytes]:
    """Ten lines; after the third, Ctrl-C is pressed so many times."""
    for n in range(10):
        if n == 3:
            for _ in range(interrupts):
                signal.raise_signal(signal.SIGINT)
        yield b"%d" % n


@pytest.mark.parametrize(("interrupts", "taken"), [(0, 10), (1, 3)])
def test_the_lines_end_at_the_first_interrupt(interrupts: int, taken: int) -> None:
    before, stopped = signal.getsignal(signal.SIGINT), list[bool]()
    assert len(list(publish._until_interrupted(lines(interrupts), stopped))) == taken
    assert stopped == [True] * interrupts
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_interrupt_ends_it() -> None:
    with pytest.raises(KeyboardInterrupt):
        list(publish._until_interrupted(lines(2), []))
