"""What is wrong with the archive, which pyarrow reads without anything of the pipeline.

Enters: the site at rest, its topics, and what was erased. Leaves: a line for each record that stands there twice,
otherwise than in its topic, not at all, or although it is erased. It is written every few seconds, so what is wrong may
still be mended.
"""

import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.harness.operators import Erasing
from tests.harness.site import Site
from tests.verifier.log import Snapshot
from tests.verifier.rules import EPISODES, EVIDENCE

PATIENCE_S: Final = 60.0
SHOWN: Final = 20


def archive_faults(site: Site, snapshot: Snapshot, erased: list[Erasing]) -> list[str]:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        found = list(_faults(Path(site.settings.archive), snapshot, erased))
        if not found or time.monotonic() > deadline:
            return found[:SHOWN]
        time.sleep(1.0)


def _faults(folder: Path, snapshot: Snapshot, erased: list[Erasing]) -> Iterator[str]:
    from pyarrow import parquet

    words, tenants = [one.word.encode() for one in erased], {one.tenant for one in erased}
    for topic in (EPISODES, EVIDENCE):
        rows = {(n, row.offset): row for n, part in enumerate(snapshot.topics[topic]) for row in part.rows}
        held: Counter[tuple[int, int]] = Counter()
        for file in (folder / topic).glob("tenant=*/day=*/*.parquet"):
            number = int(file.stem.split("-")[-2])
            for each in parquet.read_table(file).to_pylist():
                place, value = (number, each["offset"]), each["value"].encode()
                held[place] += 1
                if place in rows and (rows[place].key, rows[place].value) != (each["key"].encode(), value):
                    yield f"archived {topic}/{place} differs from its topic"
                yield from (f"{word.decode()} in archived {topic}/{place}" for word in words if word in value.lower())
        yield from (f"archived {topic}/{place} {n} times" for place, n in held.items() if n > 1)
        for place, row in rows.items():
            mine = (row.key or b"").partition(b"/")[0].decode()
            if place not in held and row.header("hmx-kind") is None and mine not in tenants:
                yield f"{topic}/{place} is not archived"
