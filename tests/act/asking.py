"""For whom a pack is asked. The benchmark names the person at the end of a query; an agent names it in its request.

Run as a module it is the benchmark's command, whose packs are asked so. Enters: its folder, and its arguments.
"""

import importlib
import re
import sys
from collections.abc import Mapping
from typing import Any, Final

_ASKED_BY: Final = re.compile(r"\(asked by ([^()]+)\)$")


def for_whom(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request, with the subject that its query names."""
    asked = _ASKED_BY.search(body["query"])
    return {**body, "subject_id": asked[1]} if asked else dict(body)


def main(folder: str, *arguments: str) -> int:
    sys.path.insert(0, folder)
    run = importlib.import_module("run")
    send = run.Service._send
    run.Service._send = lambda self, path, body=None: send(self, path, None if body is None else for_whom(body))
    sys.argv = [f"{folder}/run.py", *arguments]
    ended: int = run.main()
    return ended


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
