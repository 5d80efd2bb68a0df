"""The target of an action (a file, a command, or the tool), and the names by which texts refer to it.

Input: a tool and its argument values, a step, or a text. Output: its `Target` (of a path, the last three parts); or the
names in the text, each with its level. A name has a level: the exact target, the same file or its test, its directory
or program, its tool.
"""

import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from itertools import pairwise
from typing import Final, NamedTuple

from hmx_pipeline.contracts.event_types import Role
from hmx_pipeline.contracts.evidence import Step
from hmx_pipeline.segments.action_names import EDIT, verb_of, words_of
from hmx_pipeline.segments.commands import simple_commands
from hmx_pipeline.segments.file_paths import file_named, files_in

_PARTS: Final = 3
"""Path parts that are kept, because checkouts lie in different directories on each machine."""
_RUN: Final = "run "
_SHELLS: Final = frozenset(("bash", "sh", "zsh", "shell", "powershell", "terminal", "command", "cmd", "exec"))
_TEST_OF: Final = re.compile(r"^tests?[_.-]|[_.-](?:tests?|spec)$|(?<=[a-z])(?:Tests?|Spec)$")
_QUOTED: Final = re.compile(r"`([^`\n]+)`")
_FIRST: Final = re.compile(r"\s*([A-Za-z][\w.-]*):?(?:\s+(.*))?", re.DOTALL)
_WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_LONGEST: Final = 400
"""Characters kept: the last of a path, the first of a tool, and those of a command in which its name stands."""
_NAMED_IN: Final = 128
"""Most names per text."""


class Height(IntEnum):
    TOOL = 1
    NEAR = 2
    """The same directory or program."""
    FILE = 3
    """The same file elsewhere, or its test."""
    EXACT = 4


Name = tuple[Height, str]


class Target(NamedTuple):
    name: str
    """Such as `cli/session/state.go`, `git commit`, `ExitPlanMode`."""
    tool: str
    """The tool that was used. For a command that is an event of its own, its program."""

    @property
    def names(self) -> Iterator[Name]:
        yield Height.EXACT, self.name
        if file_named(self.name):
            yield from _of_file(self.name)
        elif " " in self.name:
            yield Height.NEAR, self.name.split()[0]
        if self.tool:
            yield Height.TOOL, self.tool


class CallTargets(NamedTuple):
    """What a tool call does."""

    targets: tuple[Target, ...]
    """Its file, or each command of its line."""
    failed: bool = False
    """True once it has been made and has failed."""


def target_of(tool: str, values: Sequence[str]) -> Target | None:
    """Return the target of a call; None if it names nothing."""
    path, tool = next((path for path in map(file_named, values) if path), ""), tool[:_LONGEST]
    if path:
        return Target(_place(path), tool)
    if values and (not tool or not _SHELLS.isdisjoint(words_of(tool))):
        return Target(_command(values[0]) or tool, tool)
    return Target(tool, tool) if tool else None


def targets_of(tool: str, values: Sequence[str]) -> tuple[Target, ...]:
    """Return the target of a call, and of each further command of its line."""
    first = target_of(tool, values)
    if first is None or first.name == first.tool or file_named(first.name):
        return () if first is None else (first,)
    lines = (" ".join((one.program, *one.words))[:_LONGEST] for one in simple_commands(values[0]))
    further = (_command(line) for line in lines if line != values[0][:_LONGEST])  # most lines are one command
    return tuple(Target(name, tool) for name in dict.fromkeys((first.name, *further)) if name)


def target_of_action(step: Step) -> Target | None:
    """Return the target of an action, from its first step."""
    verb = verb_of(step.role, step.name)
    if step.role is Role.CALL or step.role is Role.RESULT:
        return target_of(verb, step.values)
    if step.name == EDIT and step.text:
        return Target(_place(step.text), EDIT)
    name = verb.removeprefix(_RUN)[:_LONGEST]
    return Target(name, name.split()[0]) if name else None


def names_in(text: str) -> tuple[Name, ...]:
    """Return the names in a text, in order: files; commands in backquotes, after a tool's name, or of two words; tools
    by their spelling, or as the first word."""
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
