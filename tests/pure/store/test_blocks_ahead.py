"""What waits while a block is written."""

from functools import partial
from threading import Event

import pytest

from hmx_pipeline.store.blocks_ahead import AHEAD, BlocksAhead


def test_nothing_is_written_after_a_block_that_failed() -> None:
    """Else its records would be left out: the position would move past them."""
    blocks, failing, written = BlocksAhead(), Event(), list[int]()

    def fails() -> None:
        failing.wait()
        raise ConnectionError

    blocks.add(fails)
    for number in range(1, AHEAD):
        blocks.add(partial(written.append, number))
    failing.set()
    with pytest.raises(ConnectionError):
        blocks.wait()
    blocks.drop()
    assert written == []
    blocks.add(partial(written.append, AHEAD))
    blocks.close()
    assert written == [AHEAD]
