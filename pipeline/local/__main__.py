"""The detached supervisor that `hmx up` starts: `python -m pipeline.local STATE [--nodes N] [--pipeline] [--fresh]`.

Detaches first. Leaves on standard output, until the stack is ready: one JSON object a line, {"pid": …}, {"progress":
…}, then {"ready": true} or {"error": …}.
"""

import argparse
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from pipeline.local.process import StackError
from pipeline.local.stack import Stack


def main() -> int:
    parser = argparse.ArgumentParser(prog="pipeline.local")
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
    """Be nobody's child and in no terminal's reach: whoever started us may go on without ever waiting for us."""
    if os.fork():
        os._exit(0)
    os.setsid()


def _leave(_number: int, _frame: object) -> NoReturn:
    for again in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(again, signal.SIG_IGN)  # stopping is under way
    raise SystemExit(0)


def _say(**what: object) -> None:
    with suppress(BrokenPipeError):  # whoever waited for us may have gone
        print(json.dumps(what), flush=True)


def _hush() -> None:
    """Nobody reads our standard output from here on."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
