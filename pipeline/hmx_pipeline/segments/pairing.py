"""Pairing of tool calls with their results and errors, into the actions of a segment.

Input: a segment's steps in released order. Output: its actions in order of their first step, each with its result,
failure and events. Ids win over position. A result goes to the call with its call_id, else to the call that parent or
correlation id names, else to the oldest open call of the same tool, those with its correlation id first. An error goes
to the action that parent or correlation id names, else to the last action. If there is none, it becomes an action of
its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Segment, Step
from hmx_pipeline.segments.action_names import EDIT, verb_of
from hmx_pipeline.segments.masking import telling_line, unlabelled, what_failed

_MESSAGE, _CALL, _RESULT, _ERROR = Role.MESSAGE, Role.CALL, Role.RESULT, Role.ERROR  # enum lookups are ten times slower
_CARRIES_RESULT: Final = (Role.ACTION, Role.TEST)


@dataclass(frozen=True, slots=True)
class Failure:
    """What an error says: its class as the event names it, and the most informative line; both may be empty."""

    type: str
    message: str


@dataclass(slots=True)
class Action:
    """One action of the agent. `verb` is empty if an error names no action."""

    position: int
    """Index of its first step in the segment."""
    verb: str
    role: Role
    values: tuple[str, ...] = ()
    ok: bool | None = None
    failure: Failure | None = None
    events: list[str] = field(default_factory=list)
    before: str = ""
    """The agent's words just before; may be empty."""
    asked: bool = False
    """True if the user was asked and answered since the previous action."""
    found: tuple[str, ...] = ()
    """Facts in the result, as `key=value`."""
    listed: tuple[str, ...] = ()
    """Ids that the result lists."""


def actions(segment: Segment) -> list[Action]:
    """Return the actions, in order of their first step."""
    return _Pairing(segment.steps).run()


class _Pairing:
    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps
        self.done: list[Action] = []
        self.by_event: dict[str, Action] = {}
        self.by_call: dict[str, Action] = {}
        self.waiting: list[Action] = []
        self.messages: set[str] = set()
        self.said = ""
        self.asking = self.asked = False

    def run(self) -> list[Action]:
        for position, step in enumerate(self.steps):
            if step.role is _MESSAGE:
                self._message(step)
            elif step.role is _CALL or step.role in _CARRIES_RESULT:
                self._begin(position, step)
            elif step.role is _RESULT:
                self._result(position, step)
            elif step.role is _ERROR:
                self._error(position, step)
        return self.done

    def _message(self, step: Step) -> None:
        self.messages.add(step.event_id)
        if step.actor == "user":
            self.asked = self.asked or self.asking
            self.asking = False
        elif step.actor == "assistant":
            self.said, self.asking = step.text, "?" in step.text

    def _begin(self, position: int, step: Step) -> None:
        action = self._add(position, step, verb_of(step.role, step.name))
        if step.role is _CALL:
            self.waiting.append(action)
            if step.call_id:
                self.by_call.setdefault(step.call_id, action)
        else:
            self._settle(action, step)

    def _add(self, position: int, step: Step, verb: str) -> Action:
        action = Action(position, verb, step.role, step.values, before=self.said, asked=self.asked)
        self.said, self.asked = "", False
        self.done.append(action)
        self._join(action, step)
        return action

    def _join(self, action: Action, step: Step) -> None:
        action.events.append(step.event_id)
        self.by_event[step.event_id] = action

    def _settle(self, action: Action, step: Step) -> None:
        action.ok, action.found, action.listed = step.ok, step.found, step.listed
        if step.ok is False and action.failure is None:
            action.failure = self._failure(action, "", step.text if step.role is _RESULT else "")

    def _result(self, position: int, step: Step) -> None:
        action = self._called(step)
        if action is None:
            action = self._add(position, step, verb_of(step.role, step.name))
        else:
            self.waiting = [open_ for open_ in self.waiting if open_ is not action]
            self._join(action, step)
        self._settle(action, step)

    def _called(self, step: Step) -> Action | None:
        named = self.by_call.get(step.call_id) or self._named(step)
        if named is not None and any(named is open_ for open_ in self.waiting):
            return named
        verb = verb_of(step.role, step.name)
        alike = [open_ for open_ in self.waiting if open_.verb == verb or not verb]
        shared = (open_ for open_ in alike if self.steps[open_.position].correlation == step.correlation)
        return (next(shared, None) if step.correlation else None) or next(iter(alike), None)

    def _named(self, step: Step) -> Action | None:
        return self.by_event.get(step.parent) or self.by_event.get(step.correlation)

    def _error(self, position: int, step: Step) -> None:
        action = self._named(step)
        if action is None and step.parent not in self.messages and self.done:
            action = self.done[-1]
        if action is None:  # a message failed, or no action came before
            action = self._add(position, step, "")
        else:
            self._join(action, step)
        action.ok = False
        action.failure = self._failure(action, step.name.strip(), step.text)

    def _failure(self, action: Action, kind: str, error: str) -> Failure:
        """Build the failure. Output that only repeats the command says nothing, so it is ignored."""
        first = self.steps[action.position]
        output = first.text if first.role in _CARRIES_RESULT and first.text != first.name and first.name != EDIT else ""
        said = what_failed(error, output) or ("" if kind else telling_line(error))
        return Failure(kind, unlabelled(said, kind))
