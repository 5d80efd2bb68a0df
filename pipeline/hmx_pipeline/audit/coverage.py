"""Coverage: which kinds of knowledge memory holds about some words, and how to teach it what is missing.

Enters: words, a pack that answers them with reasons, and the incomplete patterns that match. Leaves: one `Coverage` per
kind, in plain sentences. Pure; never raises.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from hmx_pipeline.audit.artifact_reasons import Absence
from hmx_pipeline.compiler import failure_playbook, task_schema
from hmx_pipeline.contracts.options import ENTRY_MARK, Section
from hmx_pipeline.contracts.pack import ContextPack
from hmx_pipeline.packs.entry_lines import ERROR, REMEDY
from hmx_pipeline.retrieval.terms import terms


class _CoverageKind(NamedTuple):
    name: str
    section: Section
    pattern: str
    """Pattern type that it is compiled from; empty for knowledge read from single sentences."""
    learnt: str


_KINDS: Final = (
    _CoverageKind(
        "procedure",
        Section.PROCEDURES,
        task_schema.NAME,
        "Complete the task successfully in five runs over at least two sessions, and state its goal at the start. The "
        "procedure is what these runs have in common.",
    ),
    _CoverageKind(
        "fix",
        Section.PROCEDURES,
        failure_playbook.NAME,
        "Report the error as an event, apply the fix, and run the same action again. What made the action work in two "
        "sessions is learnt as the fix.",
    ),
    _CoverageKind(
        "rule",
        Section.CORE,
        "",
        "Rules are read from users' messages such as “Never deploy on Fridays.” or “Before you push, run the tests.”",
    ),
    _CoverageKind(
        "fact",
        Section.FACTS,
        "",
        "Facts are read from messages such as “Our registry is registry.acme.example.” or “The ledger runs on "
        "Postgres.”",
    ),
)


class Coverage(NamedTuple):
    kind: str
    known: bool
    said: str


def lessons(words: str, pack: ContextPack, absences: Sequence[Absence]) -> list[Coverage]:
    return [_lesson(kind, words, pack, absences) for kind in _KINDS]


def _lesson(kind: _CoverageKind, words: str, pack: ContextPack, absences: Sequence[Absence]) -> Coverage:
    known = _known(kind, words, pack)
    if known:
        return Coverage(kind.name, True, f"A {kind.name} is known: {known}")
    own = [one for one in absences if one.pattern.type == kind.pattern and _about(words, one.title)]
    if stands := next((one for one in own if one.active), None):
        return Coverage(kind.name, True, f"A {kind.name} is known: {stands.title} ({stands.artifact_id})")
    growing = next(iter(own), None)
    if growing is None:
        return Coverage(kind.name, False, f"No {kind.name} about “{words}” is known. {kind.learnt}")
    return Coverage(kind.name, False, f"A {kind.name} is being learnt: {growing.title} ({growing.said}). {kind.learnt}")


def _known(kind: _CoverageKind, words: str, pack: ContextPack) -> str:
    """Returns the first line of the best entry of this kind that is about the words. A procedure with a way out is a
    fix if that is about them."""
    for entry in pack.entries:
        ways = [line for line in entry.content.splitlines() if REMEDY.match(line)]
        is_playbook = any(line.startswith("Recover: ") for line in ways)
        errors = " ".join(error for line in ways for error in ERROR.findall(line))
        fixes = kind.name == "fix" and (is_playbook or _about(words, errors))
        of_kind = entry.section is kind.section and (
            not kind.pattern or fixes or (kind.name != "fix" and not is_playbook)
        )
        if of_kind and _about(words, entry.content):
            return f"{entry.content.removeprefix(ENTRY_MARK).strip().splitlines()[0]} ({entry.source_id})"
    return ""


def _about(words: str, text: str) -> bool:
    """Returns True if a text has at least two of three words."""
    wanted = set(terms(words))
    return 3 * len(wanted & set(terms(text))) >= 2 * len(wanted)
