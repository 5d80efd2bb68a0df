"""touched: which files a segment's goal led to; advice on what a new request will touch is drawn from it (`advice`).

A file is *changed* where an edit or a tool that changes something named it and did not fail, unless it was removed
again; a state that lists the changed files is believed instead. It is *seen* where a command, a call or a result
names it. Paths stand as the events name them. One contribution a segment, all of a tenant under one key; nothing is
compiled from it. Nothing fails.
"""

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any, Final

from pipeline.compiler.model import Extracted, Kind
from pipeline.contracts.event_types import ACTS, Role
from pipeline.contracts.evidence import Segment, SegmentOutcome, Step
from pipeline.segments.intent import plain_stems
from pipeline.segments.naming import EDIT, mutates, verb_of
from pipeline.segments.pairing import Action
from pipeline.segments.places import file_named, files_in, files_removed, identifiers, located_lines

NAME: Final = "touched"
KEY: Final = "1"
"""The form of the body: contributions of another form would have another key."""
CHANGED: Final = 64
SEEN: Final = 96
_MESSAGES: Final = 12
_STEMS: Final = 160
_NAMES: Final = 48
_HELD: Final = 16  # identifiers of a file
_HELD_ALL: Final = 640
_PATH: Final = 160
_IDENTIFIER: Final = 60


def extract(segment: Segment, outcome: SegmentOutcome, _: Sequence[Action]) -> list[Extracted]:
    read = _Reading()
    for step in segment.steps:
        read.step(step)
    if not read.changed and not read.seen:
        return []
    asked = [s for s in segment.steps if s.role is Role.MESSAGE and s.actor == "user"][:_MESSAGES]
    if not asked:
        return []
    return [
        Extracted(
            key=KEY,
            source_events=list(dict.fromkeys([*(message.event_id for message in asked), *read.changed.values()])),
            outcome=outcome,
            tags=[],
            body=read.body(asked),
        )
    ]


class _Reading:
    """Of a segment's steps, in order."""

    def __init__(self) -> None:
        self.changed: dict[str, str] = {}
        """With the event that changed it last."""
        self.seen: dict[str, None] = {}
        self.held: dict[str, dict[str, None]] = {}
        """Identifiers that were seen in a file."""
        self._said = ""
        self._called: dict[str, list[str]] = {}
        """Files that a call names, by its event and its call id."""

    def step(self, step: Step) -> None:
        role = step.role
        if role is Role.MESSAGE:
            self._said = step.text if step.actor == "assistant" else ""
        elif role is Role.CALL:
            self._call(step)
        elif role is Role.RESULT:
            named = self._called.get(step.call_id) or self._called.get(step.parent) or []
            if step.ok is False:
                self._undo(named)
            self._result(step.text, named)
        elif role is Role.STATE:
            listed = [path for path in map(file_named, step.values) if path]
            if listed:
                self.changed = dict.fromkeys(listed, step.event_id)
        elif role in ACTS:
            self._action(step)

    def _call(self, step: Step) -> None:
        named = [path for path in map(file_named, step.values) if path]
        changes = bool(named) and mutates(verb_of(step.role, step.name))
        for path in named:
            self._see(path)
            if changes:
                self._change(path, step)
        if named:
            self._called[step.event_id] = named
            if step.call_id:
                self._called[step.call_id] = named

    def _undo(self, named: Iterable[str]) -> None:
        """The call did not come to anything."""
        for path in named:
            self.changed.pop(path, None)

    def _action(self, step: Step) -> None:
        if step.name == EDIT:
            if step.ok is not False and step.text:
                self._change(step.text.removeprefix("./"), step)
            return
        for path in files_removed(step.name):
            self.changed.pop(path, None)
        named = files_in(step.name)
        for path in named:
            self._see(path)
        self._result(step.text, named)

    def _result(self, text: str, named: Sequence[str]) -> None:
        """Lines of a search name their file; all others are of the one file that was asked for."""
        one = named[0] if len(named) == 1 else ""
        if "." not in text and not one:
            return
        rest = []
        for path, line in located_lines(text):
            if path:
                self._see(path)
                self._hold(path, line)
            elif one:
                rest.append(line)
        if rest:
            self._hold(one, "\n".join(rest))

    def _change(self, path: str, step: Step) -> None:
        if len(path) <= _PATH and (path in self.changed or len(self.changed) < CHANGED):
            self.changed[path] = step.event_id
            self._hold(path, self._said)

    def _see(self, path: str) -> None:
        if len(path) <= _PATH and len(self.seen) < SEEN:
            self.seen[path] = None

    def _hold(self, path: str, text: str) -> None:
        held = self.held.setdefault(path, {}) if path in self.held or len(self.held) < CHANGED + SEEN else {}
        if text and len(held) < _HELD:
            held.update(dict.fromkeys(islice(identifiers(text), _HELD - len(held))))

    def body(self, asked: Iterable[Step]) -> dict[str, Any]:
        """`held`: identifiers of a file, of the changed ones first."""
        text = "\n".join(message.text for message in asked)
        room, held = _HELD_ALL, {}
        for path in [*self.changed, *self.seen]:
            names = [name[:_IDENTIFIER] for name in self.held.get(path, ())][:room]
            if names and path not in held:
                held[path] = names
                room -= len(names)
        return {
            "goal": plain_stems(text)[:_STEMS],
            "names": [name[:_IDENTIFIER] for name in identifiers(text)[:_NAMES]],
            "changed": list(self.changed),
            "seen": [path for path in self.seen if path not in self.changed],
            "held": held,
        }


KIND: Final = Kind(NAME, extract, None)
