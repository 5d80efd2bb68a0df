"""The buffer into which a worker decompresses batches."""

import os

from hmx_pipeline.worker import decompression


def test_a_fork_does_not_write_into_the_batches_of_its_siblings() -> None:
    decompression._scratch[:5] = b"mine."
    child = os.fork()
    if not child:
        decompression._scratch[:5] = b"other"
        os._exit(0)
    os.waitpid(child, 0)
    assert decompression._scratch[:5] == b"mine."
