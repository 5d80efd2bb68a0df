"""Supervisor of a detached stack, started by `hmx up`: `python -m hmx_pipeline.local STATE [--nodes N] …`.

It runs until it is told to stop. If the stack cannot start, the last line on standard error says why.
"""

import argparse
import signal
import sys
from pathlib import Path
from typing import NoReturn

from hmx_pipeline.local.process import StackError
from hmx_pipeline.local.stack import NOT_STARTED, Stack

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="hmx_pipeline.local")
    parser.add_argument("state", type=Path)
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--pipeline", action="store_true")
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--fresh", action="store_true")
    given = vars(parser.parse_args())
    for number in SIGNALS:
        signal.signal(number, _leave)
    try:
        with Stack(given.pop("state"), **given) as stack:
            stack.watch()
    except StackError as error:
        print(error, file=sys.stderr)
        return NOT_STARTED
    return 0


def _leave(_number: int, _frame: object) -> NoReturn:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # already stopping
    raise SystemExit(0)


if __name__ == "__main__":
    sys.exit(main())
