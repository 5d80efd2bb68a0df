"""The errors of a session, what was done next, and the baseline: what came most often after the same error class of the
same action, else of the class, else of any error.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence

from hmx_pipeline.advice.action_traces import ActionTrace
from hmx_pipeline.advice.next_after_error import RecoveryStep, recoveries, steps_of
from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.segments.action_names import verb_of
from tests.quality.sessions import Session


class Past:
    """What came next after which errors in the sessions that are over."""

    def __init__(self) -> None:
        self.after: defaultdict[tuple[str | None, ...], Counter[str]] = defaultdict(Counter)

    def learn(self, course: ActionTrace) -> None:
        for error, then in recoveries(steps_of(course)):
            for kind in _circumstances(error):
                self.after[kind][then] += 1

    def usual(self, steps: Sequence[RecoveryStep]) -> list[str]:
        error = next(done for done in reversed(steps) if done.error is not None)
        seen = next((self.after[kind] for kind in _circumstances(error) if kind in self.after), Counter())
        return sorted(seen, key=lambda verb: (-seen[verb], verb))


def _circumstances(error: RecoveryStep) -> list[tuple[str | None, ...]]:
    return [(error.error, error.verb), (error.error,), ()]


def errors(session: Session) -> Iterator[tuple[Sequence[Step], str]]:
    for at, step in enumerate(session.steps):
        if step.role is Role.ERROR:
            then = next((verb_of(s.role, s.name) for s in session.steps[at + 1 :] if s.role in ACTS), "")
            if then:
                yield session.steps[: at + 1], then
