"""Sessions of service desks: users with a wish, agents with tools, and a verdict at the end of each. One desk is one
tenant. What the tasks about procedures, next steps and outcomes ask of."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from hmx_pipeline.advice.action_traces import ActionTrace, courses
from tests.quality.sessions import Session, Sessions, held_out

FILE: Final = "tau"
DESKS: Final = {"retail": "tau-retail", "airline": "tau-airline"}


@dataclass(frozen=True)
class Asked:
    """A held-out session, its course, and whether it did what its task asks."""

    session: Session
    course: ActionTrace
    success: bool

    @property
    def task(self) -> str:
        return str(self.session.label["task_id"])


def splits(sessions: Sessions, desk: str) -> Iterator[tuple[list[ActionTrace], list[Asked]]]:
    """Courses that are known, and the sessions of the other tasks."""
    recorded = sessions.of(FILE)
    tenant = DESKS[desk]
    known = {c.session_id: c for c in courses(c for c in recorded.of_kind("course") if c.tenant_id == tenant)}
    judged = [s for s in recorded.sessions if s.tenant_id == tenant and s.label and s.session_id in known]
    for train, test in held_out(judged, lambda session: session.label["task_id"]):
        yield (
            [known[name] for name in sorted(train)],
            [Asked(session, known[session.session_id], session.label["reward"] >= 1) for session in test],
        )
