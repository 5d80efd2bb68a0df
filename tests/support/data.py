"""The open data, where it is: `HMX_DATA`, else a folder beside the checkout."""

import gzip
import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("HMX_DATA", Path(__file__).parents[3] / "shared" / "data"))


def lines(name: str) -> list[bytes]:
    """The lines of `NAME.ndjson.gz`. Skips the test, and says why, where the data is missing."""
    file = FOLDER / f"{name}.ndjson.gz"
    if not file.exists():
        pytest.skip(f"{file} is missing: set HMX_DATA to the folder of the open data")
    with gzip.open(file, "rb") as packed:
        return [line.rstrip(b"\n") for line in packed]
