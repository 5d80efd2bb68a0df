"""What lies free between pieces that stay goes back to the system."""

import subprocess
import sys
from pathlib import Path

import pytest

PIECES = """
import os
from pathlib import Path
from hmx_pipeline.observe.allocator import give_back
def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
pieces = [b"x" * 1_000 + b"%d" % n for n in range(100_000)]
pieces = pieces[::100]
before = resident()
give_back()
print(before - resident())
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from /proc")
def test_what_is_free_between_pieces_that_stay_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, text=True, check=True, timeout=60)
    assert int(done.stdout) > 50_000_000
