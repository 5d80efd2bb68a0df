"""For whom a pack is asked. The benchmark names the person at the end of a query; an agent names it in its request.

Run as a module it is the benchmark's command, whose packs are asked so: over HTTP, or with OVER=mcp by the official
client of hmx-mcp, one process for each person. Enters: its folder, and its arguments.
"""

import importlib
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import anyio.from_thread

_MCP: Final = Path(__file__).parents[2] / "integrations" / "mcp" / "src"
_ASKED_BY: Final = re.compile(r"\(asked by ([^()]+)\)$")


def for_whom(body: Mapping[str, Any]) -> dict[str, Any]:
    """The request, with the subject that its query names."""
    asked = _ASKED_BY.search(body["query"])
    return {**body, "subject_id": asked[1]} if asked else dict(body)


class OverMcp:
    """Asks hmx-mcp what the benchmark would ask the service."""

    def __init__(self, held: ExitStack) -> None:
        self._held, self._portal = held, held.enter_context(anyio.from_thread.start_blocking_portal())
        self._server = cache(self._started)

    def send(self, service: Any, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The parts of the service's answer that the benchmark reads."""
        if body is None:
            found = self._called(service, "", "fetch", {"id": unquote(path.rpartition("/")[2])})
            return dict(json.loads(found["text"]))
        asked = for_whom(body)
        pack = self._called(service, asked.pop("subject_id", ""), "memory_pack", asked)
        named = {"text": "content", "id": "source_id", "kind": "source_type"}
        return {"entries": [{theirs: one[ours] for ours, theirs in named.items()} for one in pack["entries"]]}

    def _called(self, service: Any, subject: str, tool: str, given: dict[str, Any]) -> dict[str, Any]:
        client = self._server(service.url, service.tenant, subject)
        result = self._portal.call(client.call_tool, tool, given)
        assert not result.is_error, result.content
        return dict(result.structured_content)

    def _started(self, url: str, tenant: str, subject: str) -> Any:
        import mcp

        whose = {"HMX_SERVICE_URL": url, "HMX_TENANT": tenant, "HMX_SUBJECT": subject}
        environment = {**whose, "PYTHONPATH": str(_MCP)}
        server = mcp.StdioServerParameters(command=sys.executable, args=["-m", "hmx_mcp"], env=environment)
        return self._held.enter_context(self._portal.wrap_async_context_manager(mcp.Client(server)))


def main(folder: str, *arguments: str) -> int:
    sys.path.insert(0, folder)
    run = importlib.import_module("run")
    send = run.Service._send
    run.Service._send = lambda self, path, body=None: send(self, path, None if body is None else for_whom(body))
    sys.argv = [f"{folder}/run.py", *arguments]
    with ExitStack() as held:
        if os.environ.get("OVER") == "mcp":
            asking = OverMcp(held)
            run.Service._send = lambda self, path, body=None: asking.send(self, path, body)
        ended: int = run.main()
    return ended


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
