"""A worker as it is, but for four things: it runs the stages named, begins when a file appears, takes notes, and tells
the kernel the names of its threads.

Arguments: that file, the file for the notes, the names of stages. Notes are JSON arrays, one a line: first when it
began and the CPU seconds so far, then one per batch committed (tests.bench.kit.Batch).
"""

import json
import os
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import STAGES
from hmx_pipeline.worker import app
from hmx_pipeline.worker.main import run_worker
from hmx_pipeline.worker.partition import OwnedPartition
from hmx_pipeline.worker.runner import Runner


def main(word: Path, notes: Path, *stages: str) -> None:
    app.STAGES = tuple(stage for stage in STAGES if stage.name in stages)  # type: ignore[misc]
    file = os.open(notes, os.O_CREAT | os.O_WRONLY | os.O_APPEND)

    def note(*values: Any) -> None:
        os.write(file, json.dumps([*values, time.monotonic(), time.process_time()]).encode() + b"\n")

    _wait_for(word, note)
    _note_batches(note)
    run_worker(Settings.load())


def _wait_for(word: Path, note: Any) -> None:
    """Until then no partition is hungry: everything is restored and in its place, and nothing is read."""
    hungry = Runner.hungry

    def not_yet(self: Runner, limit: int) -> Any:
        if not word.exists():
            return set()
        for thread in threading.enumerate():
            _name(thread.native_id, "event loop" if thread is threading.main_thread() else "consumer")
        note()
        Runner.hungry = hungry  # type: ignore[method-assign]
        return hungry(self, limit)

    Runner.hungry = not_yet  # type: ignore[method-assign]


def _note_batches(note: Any) -> None:
    process = OwnedPartition.process

    def noted(self: OwnedPartition, batch: Any) -> Any:
        _name(threading.get_native_id(), "folds")
        counts = process(self, batch)
        note(self.stage.name, len(batch.records))
        return counts

    OwnedPartition.process = noted  # type: ignore[method-assign]


def _name(thread: int | None, name: str) -> None:
    """Where the system has no such place it stays unnamed."""
    with suppress(OSError):
        Path(f"/proc/self/task/{thread}/comm").write_text(name)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])
