"""Traffic that grows in every dimension: ever new sessions, ids, tools, words, types, keys, tags, gaps, letters.

Enters: a seed. Leaves: values of records, and what to ask. Nothing repeats but the tenants, so whatever keeps one thing
of each grows until it has a bound.
"""

import random
from collections.abc import Iterator
from typing import Any, Final

import orjson

from hmx_pipeline.contracts.keys import session_key
from hmx_pipeline.contracts.limits import ID_BYTES
from hmx_pipeline.contracts.timestamps import format_ms

TENANTS: Final = 8
STEPS: Final = 8
"""Events of a session."""


class Traffic:
    def __init__(self, seed: int) -> None:
        self._dice = random.Random(seed)
        self._number = 0
        self.sent = 0
        """Valid events."""

    def word(self) -> str:
        self._number += 1
        return f"w{self._number:07d}{'x' * self._dice.randrange(40)}"

    def tenant(self) -> str:
        return f"tenant-{self._dice.randrange(TENANTS)}"

    def id(self) -> str:
        """Of up to 512 bytes, seldom of so many."""
        name = self.word()
        return name + "é" * self._dice.randrange((ID_BYTES - len(name)) // 2) if self._dice.random() < 0.1 else name

    def session(self, now_ms: int) -> Iterator[tuple[str, bytes]]:
        """Key and value of each record; some of them are no events."""
        dice, tenant, session, agent = self._dice, self.tenant(), self.id(), self.id()
        tool, gap = self.word(), dice.random() < 0.2
        for step in range(STEPS):
            number = step + (1 if gap and step > 3 else 0)
            event: dict[str, Any] = {
                "hmx_version": "HMX-1.0", "event_id": self.id(), "agent_id": agent, "tenant_id": tenant,
                "session_id": session, "timestamp": format_ms(now_ms + step), "sequence": number, "trace_id": self.id(),
                "tags": [self.word()], "metadata": {self.word(): self.word(), "x-hmx-embedding-model": f"m{number}"},
                **self._content(step, tool),
            }  # fmt: skip
            if step == 1:
                event["embeddings"] = [dice.random() for _ in range(16)]
            yield session_key(tenant, session), orjson.dumps(event)
            self.sent += 1
        yield session_key(tenant, session), self._letter(tenant, session)

    def _content(self, step: int, tool: str) -> dict[str, Any]:
        said = " ".join(self.word() for _ in range(8))
        match step:
            case 0 | 7:
                return {"event_type": "message", "content": {"role": "user", "text": f"deploy {said}"}}
            case 1:
                return {"event_type": "message", "content": {"role": "user", "text": f"Our {self.word()} is {said}."}}
            case 2 | 4:
                arguments = {self.word(): said, "secret" + self.word(): said}
                return {
                    "event_type": "tool_call",
                    "content": {"tool_name": tool, "call_id": f"{tool}-{step}", "arguments": arguments},
                }
            case 3 | 5:
                result = {"text": said, self.word(): self.word()}
                content = {"tool_name": tool, "call_id": f"{tool}-{step - 1}", "success": step == 5, "result": result}
                return {"event_type": "tool_result", "content": content}
            case _:
                return {"event_type": f"x-soak-{self.word()}", "content": {"text": said, self.word(): said}}

    def _letter(self, tenant: str, session: str) -> bytes:
        """What becomes a dead letter, for one reason or another."""
        return self._dice.choice(
            (
                b"{", b"[]", b"\xff", orjson.dumps({"hmx_version": "HMX-1.0", self.word(): 1}),
                orjson.dumps({"hmx_version": "HMX-1.0", "event_id": "i" * 600, "session_id": session}),
            )
        )  # fmt: skip
