"""Threads of a small broker that look at what it does not use may be late, and no others."""

import threading
from pathlib import Path

import pytest

from hmx_pipeline.local import kafka


@pytest.mark.skipif(not Path("/proc/self/timerslack_ns").exists(), reason="only Linux has timer slack")
def test_only_threads_for_which_nobody_waits_may_be_late() -> None:
    names, done = [*kafka.SLACK_OF, "data-plane-kafk", "ExpirationReape"], threading.Event()
    tasks: dict[str, int] = {}

    def idle(name: str) -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        tasks[name] = threading.get_native_id()
        ready.wait()
        done.wait()

    ready = threading.Barrier(len(names) + 1)
    threads = [threading.Thread(target=idle, args=[name]) for name in names]
    try:
        for thread in threads:
            thread.start()
        ready.wait()
        kafka._wait_loosely(threading.main_thread().native_id or 0)
        slack = {name: Path(f"/proc/{task}/timerslack_ns").read_text().strip() for name, task in tasks.items()}
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert {name for name, said in slack.items() if said == kafka.MORE_SLACK_NS} == kafka.SLACK_OF
    assert len(slack) == len(names)
