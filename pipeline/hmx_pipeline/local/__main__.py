"""Detached supervisor of `hmx up`: `python -m hmx_pipeline.local STATE [--nodes N] [--pipeline] [--fresh]`.

Detaches, then writes one JSON object per line to standard output until the stack is ready: {"pid": …}, {"progress": …},
and finally {"ready": true} or {"error": …}.
"""

import argparse
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from hmx_pipeline.local.process import StackError
from hmx_pipeline.local.stack import Stack


def main() -> int:
    parser = argparse.ArgumentParser(prog="hmx_pipeline.local")
    parser.add_argument("state", type=Path)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    given = parser.parse_args()
    _detach()
    _say(pid=os.getpid())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _leave)
    stack = Stack(
        given.state,
        nodes=given.nodes,
        pipeline=given.pipeline,
        fresh=given.fresh,
        progress=lambda line: _say(progress=line),
    )
    try:
        with stack:
            _say(ready=True)
            _hush()
            stack.watch()
    except StackError as error:
        _say(error=str(error))
        return 1
    return 0


def _detach() -> None:
    """Leaves the parent and its terminal, so that the parent need not wait for this process."""
    if os.fork():
        os._exit(0)
    os.setsid()


def _leave(_number: int, _frame: object) -> NoReturn:
    for again in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(again, signal.SIG_IGN)  # already stopping
    raise SystemExit(0)


def _say(**what: object) -> None:
    with suppress(BrokenPipeError):  # the parent may have ended
        print(json.dumps(what), flush=True)


def _hush() -> None:
    """Redirects standard output to nowhere; the parent has stopped reading it."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
