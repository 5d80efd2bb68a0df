"""Steps and segments to mine, written by hand: what a test says about them is all there is."""

from collections.abc import Iterable
from itertools import count

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment, Step

START = 1_750_000_000_000


class Script:
    """One session's steps, a second apart. Ids are `{session}-{n}`."""

    def __init__(
        self, session: str, tenant: str = "acme", start: int = START, tags: tuple[str, ...] = (), subject: str = ""
    ) -> None:
        self.session, self.tenant, self.start, self.tags, self.subject = session, tenant, start, tags, subject
        self.steps: list[Step] = []
        self._calls = count()

    def add(self, role: Role, after_ms: int = 1_000, **fields: object) -> str:
        at = (self.steps[-1].at if self.steps else self.start) + after_ms
        index = len(self.steps)
        event_id = f"{self.session}-{index}"
        said = {"tags": self.tags, "subject": self.subject, **fields}
        self.steps.append(Step(event_id=event_id, at=at, role=role, index=index, **said))  # type: ignore[arg-type]
        return event_id

    def user(self, text: str) -> str:
        return self.add(Role.MESSAGE, actor="user", text=text)

    def agent(self, text: str) -> str:
        return self.add(Role.MESSAGE, actor="assistant", text=text)

    def tool(
        self,
        name: str,
        ok: bool = True,
        values: tuple[str, ...] = (),
        error: str = "",
        kind: str = "",
        found: tuple[str, ...] = (),
        listed: tuple[str, ...] = (),
        arguments: tuple[tuple[str, str], ...] = (),
    ) -> str:
        """A call and its result, and an error event where `error` says something."""
        call_id = f"call-{next(self._calls)}"
        call = self.add(Role.CALL, name=name, values=values, call_id=call_id, arguments=arguments)
        said = {"text": error, "found": found, "listed": listed}
        result = self.add(Role.RESULT, name=name, ok=ok, call_id=call_id, parent=call, **said)
        if error:
            self.add(Role.ERROR, name=kind, text=error, parent=result, correlation=call)
        return call

    def tools(self, names: Iterable[str]) -> None:
        for name in names:
            self.tool(name)

    def command(self, line: str, ok: bool = True, error: str = "", kind: str = "") -> str:
        """A command line that was run, and an error event where `error` says something."""
        ran = self.add(Role.ACTION, name=line, values=(line,), ok=ok)
        if error:
            self.add(Role.ERROR, name=kind, text=error, parent=ran)
        return ran

    def decide(self, question: str, option: str, offered: tuple[str, ...] = (), **fields: object) -> str:
        return self.add(Role.DECISION, name=question, text=option, values=offered, **fields)

    def feedback(self, signal: str, comment: str = "", **fields: object) -> str:
        return self.add(Role.FEEDBACK, name=signal, text=comment, **fields)

    def segment(self) -> Segment:
        return Segment(
            tenant_id=self.tenant,
            session_id=self.session,
            agent_id="agent",
            segment_id=self.steps[0].event_id,
            steps=tuple(self.steps),
        )
