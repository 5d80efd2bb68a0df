"""touched contributions: which files a segment's goal led to, for advice on files of new requests.

Input: a segment and its outcome. Output: one contribution: the goal's stems, up to 64 files changed and 96 seen, and
identifiers in them; none without a file or a user's message. A file is changed if an edit or a mutating tool named it
and did not fail, unless it was removed again. A state that lists changed files overrides this. A file is seen if a
command, call or result names it. Paths stay as the events name them. All of a tenant are under one key. No artifact is
compiled from it.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from hmx_pipeline.compiler.evidence_kind import EvidenceKind, Extracted
from hmx_pipeline.contracts.event_types import ACTS, Role
from hmx_pipeline.contracts.evidence import Segment, SegmentOutcome, Step
from hmx_pipeline.segments.action_names import EDIT, mutates, verb_of
from hmx_pipeline.segments.file_paths import file_named, files_in, files_removed, identifiers, located_lines
from hmx_pipeline.segments.intent import plain_stems
from hmx_pipeline.segments.pairing import Action

_MESSAGE, _CALL, _RESULT, _STATE = Role.MESSAGE, Role.CALL, Role.RESULT, Role.STATE  # enum lookups are ten times slower
NAME: Final = "touched"
KEY: Final = "1"
"""Version of the body's form. Another form needs another key."""
CHANGED: Final = 64
SEEN: Final = 96
_MESSAGES: Final = 12
_STEMS: Final = 160
_NAMES: Final = 48
_HELD: Final = 16  # most identifiers of a file
_HELD_ALL: Final = 640
_PATH: Final = 160
_IDENTIFIER: Final = 60


def extract(segment: Segment, outcome: SegmentOutcome, _: Sequence[Action]) -> list[Extracted]:
    read = _Reading()
    for step in segment.steps:
        read.step(step)
    if not read.changed and not read.seen:
        return []
    asked = [s for s in segment.steps if s.role is _MESSAGE and s.actor == "user"][:_MESSAGES]
    if not asked:
        return []
    return [
        Extracted(
            key=KEY,
            source_events=list(dict.fromkeys([*(message.event_id for message in asked), *read.changed.values()])),
            outcome=outcome,
            body=read.body(asked),
        )
    ]


class _Reading:
    """Collects files from a segment's steps, in order."""

    def __init__(self) -> None:
        self.changed: dict[str, str] = {}
        """Changed file → the event that changed it last."""
        self.seen: dict[str, None] = {}
        self.held: dict[str, dict[str, None]] = {}
        """File → identifiers seen in it."""
        self._said = ""
        self._called: dict[str, list[str]] = {}
        """Event id or call id of a call → files that it names."""

    def step(self, step: Step) -> None:
        role = step.role
        if role is _MESSAGE:
            self._said = step.text if step.actor == "assistant" else ""
        elif role is _CALL:
            self._call(step)
        elif role is _RESULT:
            named = self._called.get(step.call_id) or self._called.get(step.parent) or []
            if step.ok is False:
                self._undo(named)
            self._result(step.text, named)
        elif role is _STATE:
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
        """Undo the changes of a call that failed."""
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
        """Assign lines to the file that they name; others to the file that was asked for, if it was only one."""
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
            held.update(dict.fromkeys(identifiers(text, _HELD - len(held))))

    def body(self, asked: Iterable[Step]) -> dict[str, Any]:
        """Return the body. `held`: file → identifiers, changed files first."""
        text = "\n".join(message.text for message in asked)
        room, held = _HELD_ALL, {}
        for path in [*self.changed, *self.seen]:
            names = [name[:_IDENTIFIER] for name in self.held.get(path, ())][:room]
            if names and path not in held:
                held[path] = names
                room -= len(names)
        return {
            "goal": plain_stems(text)[:_STEMS],
            "names": [name[:_IDENTIFIER] for name in identifiers(text, _NAMES)],
            "changed": list(self.changed),
            "seen": [path for path in self.seen if path not in self.changed],
            "held": held,
        }


KIND: Final = EvidenceKind(NAME, extract, None)
