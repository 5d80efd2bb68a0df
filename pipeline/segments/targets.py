"""What an action is done to: a file, a command, or else the tool itself. In: a tool and its argument values, or a text
that may name some. Out: targets, and the names by which one is found again. Nothing fails.

A name stands at a height: what is named exactly, a file or the test beside it, a directory or a program, a tool.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from pipeline.contracts.event_types import Role
from pipeline.contracts.evidence import Step
from pipeline.segments.naming import EDIT, verb_of, words_of
from pipeline.segments.places import file_named, files_in

_PARTS: Final = 3
"""The last of a path: where a checkout lies differs from one machine to the next."""
_RUN: Final = "run "
_SHELLS: Final = frozenset(("bash", "sh", "zsh", "shell", "powershell", "terminal", "command", "cmd", "exec"))
_TEST_OF: Final = re.compile(r"^tests?[_.-]|[_.-](?:tests?|spec)$|(?<=[a-z])(?:Tests?|Spec)$")
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_FIRST: Final = re.compile(r"\s*([A-Za-z][\w.-]*):?(?:\s+(.*))?", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_LONGEST: Final = 400
"""Characters: of a file the last, of a tool the first, of a command those in which its name stands."""
_NAMED_IN: Final = 128
"""Names of a text at most."""


class Height(IntEnum):
    TOOL = 1
    NEAR = 2
    """The same directory, the same program."""
    FILE = 3
    """The same file elsewhere, or its test."""
    EXACT = 4


Name = tuple[Height, str]


class Target(NamedTuple):
    name: str
    """`cli/session/state.go`, `git commit`, `ExitPlanMode`."""
    tool: str
    """By what it is done; a command run as an event of its own has no other tool than its program."""

    @property
    def names(self) -> Iterator[Name]:
        yield Height.EXACT, self.name
        if file_named(self.name):
            yield from _of_file(self.name)
        elif " " in self.name:
            yield Height.NEAR, self.name.split()[0]
        if self.tool:
            yield Height.TOOL, self.tool


def target_of(tool: str, values: Sequence[str]) -> Target | None:
    """Of a call; None where it names nothing."""
    path, tool = next((path for path in map(file_named, values) if path), ""), tool[:_LONGEST]
    if path:
        return Target(_place(path), tool)
    if values and (not tool or not _SHELLS.isdisjoint(words_of(tool))):
        return Target(_command(values[0]) or tool, tool)
    return Target(tool, tool) if tool else None


def target_of_action(step: Step) -> Target | None:
    """Of what the agent did, by the step that began it."""
    verb = verb_of(step.role, step.name)
    if step.role is Role.CALL or step.role is Role.RESULT:
        return target_of(verb, step.values)
    if step.name == EDIT and step.text:
        return Target(_place(step.text), EDIT)
    name = verb.removeprefix(_RUN)[:_LONGEST]
    return Target(name, name.split()[0]) if name else None


def names_in(text: str) -> tuple[Name, ...]:
    """What a text names, in order: every file; commands in backquotes, behind a tool's name, or of two words; tools by
    what only a tool is called, or in the first place."""
    found: dict[Name, None] = {}
    for name in _names(text):
        found[name] = None
        if len(found) == _NAMED_IN:
            break
    return tuple(found)


def _names(text: str) -> Iterator[Name]:
    first = _FIRST.fullmatch(text)
    commands = [quoted[:_LONGEST] for quoted in _QUOTED.findall(text)]
    if first is not None:
        yield Height.EXACT, first[1][:_LONGEST]
        yield Height.TOOL, first[1][:_LONGEST]
        commands += [part[:_LONGEST] for part in (text, first[2]) if part]
    for command in map(_command, commands):
        if command:
            yield Height.EXACT, command
            yield Height.NEAR, command.split()[0]
    for path in files_in(text):
        place = _place(path)
        yield Height.EXACT, place
        yield from _of_file(place)
    for word, following in pairwise([*_WORD.findall(text), ""]):
        if "_" in word or word[1:] != word[1:].lower():
            yield Height.EXACT, word[:_LONGEST]
            yield Height.TOOL, word[:_LONGEST]
        if following and word.islower():
            yield Height.EXACT, f"{word} {following}"


def _command(line: str) -> str:
    return verb_of(Role.ACTION, line[:_LONGEST]).removeprefix(_RUN)


def _place(path: str) -> str:
    return "/".join(path.removeprefix("./").strip("/").split("/")[-_PARTS:])[-_LONGEST:]


def _of_file(place: str) -> Iterator[Name]:
    directory, _, file = place.rpartition("/")
    stem, dot, suffix = file.rpartition(".")
    yield Height.FILE, f"{_TEST_OF.sub('', stem)}{dot}{suffix}"
    if directory:
        yield Height.NEAR, directory
