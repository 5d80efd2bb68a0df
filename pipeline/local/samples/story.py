"""One session of an agent as it is told: each method is an event, or a call and its result, in HMX-E §4's form.

Enters: who, when, and what happens. Leaves: events as plain JSON values. Ids, timestamps and sequence numbers come from
the telling alone, so that the same story is the same bytes.
"""

from datetime import datetime, timedelta
from typing import Any

from pipeline.contracts.ids import content_id
from pipeline.contracts.instants import format_ms
from pipeline.contracts.versions import HMX_VERSION


class Story:
    def __init__(self, tenant: str, session: str, agent: str, start: datetime, tags: tuple[str, ...] = ()) -> None:
        self.events: list[dict[str, Any]] = []
        self._tenant, self._session, self._agent, self._tags = tenant, session, agent, tags
        self._now = start
        self._last_action = ""

    def event(self, event_type: str, content: dict[str, Any], source: str, parent: str = "", **more: Any) -> str:
        """Any event; its id."""
        sequence = len(self.events)
        self._now += timedelta(
            seconds=2 + (11 * sequence + len(str(content))) % 37, milliseconds=(137 * sequence) % 1000
        )
        at = int(self._now.timestamp() * 1000)
        event_id = content_id(at, self._tenant, self._session, str(sequence))
        event = {
            "hmx_version": HMX_VERSION,
            "event_id": event_id,
            "event_type": event_type,
            "agent_id": self._agent,
            "tenant_id": self._tenant,
            "session_id": self._session,
            "timestamp": format_ms(at),
            "sequence": sequence,
            "content": content,
            "metadata": {},
            "source": source,
            **({"parent_event_id": parent} if parent else {}),
            **({"tags": list(self._tags)} if self._tags else {}),
            **more,
        }
        self.events.append(event)
        return event_id

    def user(self, text: str) -> str:
        return self.event("message", {"role": "user", "text": text, "attachments": []}, "user")

    def agent(self, text: str) -> str:
        return self.event("message", {"role": "assistant", "text": text, "attachments": []}, self._agent)

    def call(self, tool: str, arguments: dict[str, Any], result: Any, *, ok: bool = True) -> str:
        """A tool call and its result."""
        call_id = f"call-{len(self.events):03d}"
        asked = self.event("tool_call", {"tool_name": tool, "arguments": arguments, "call_id": call_id}, self._agent)
        answer = {"tool_name": tool, "call_id": call_id, "result": result, "success": ok, "duration_ms": 400}
        self._last_action = asked
        return self.event("tool_result", answer, f"tool:{tool}", parent=asked)

    def run(self, command: str, output: str = "", *, ok: bool = True) -> str:
        content = {"command": command, "exit_code": 0 if ok else 1, "output": output}
        self._last_action = self.event("command_exec", content, "tool:shell")
        return self._last_action

    def test(self, command: str, output: str, *, ok: bool = True) -> str:
        content = {"command": command, "success": ok, "exit_code": 0 if ok else 1, "output": output}
        self._last_action = self.event("test_run", content, "tool:shell")
        return self._last_action

    def error(self, error_type: str, message: str, *, salience: float = 0.9) -> str:
        """What the last action failed with."""
        content = {"error_type": error_type, "message": message, "stack": "", "recoverable": True}
        return self.event("error", content, "tool:shell", parent=self._last_action, salience=salience)

    def edit(self, path: str, summary: str) -> str:
        self._last_action = self.event("file_edit", {"path": path, "summary": summary, "success": True}, self._agent)
        return self._last_action

    def decide(self, question: str, chosen: str, others: list[str], why: str, confidence: float = 0.7) -> str:
        content = {
            "question": question,
            "chosen_option": chosen,
            "alternatives": others,
            "reasoning": why,
            "confidence": confidence,
        }
        return self.event("decision", content, self._agent, salience=0.8)

    def feedback(self, signal: str, comment: str, target: str = "") -> str:
        """What the user says of the newest event, or of `target`."""
        about = target or str(self.events[-1]["event_id"])
        return self.event("feedback", {"signal": signal, "target_event_id": about, "comment": comment}, "user")

    def observe(self, text: str) -> str:
        return self.event("observation", {"text": text}, "monitor")

    def state(self, reached: str) -> str:
        return self.event("state_change", {"state": reached}, self._agent)
