"""Rendering of sources as entry texts: one line for an episode, a few for an artifact.

Markup costs tokens that memory could use, so there is none but the mark by which intake recognises a pack's text. Each
artifact type renders its own content.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

from pydantic import BaseModel

from hmx_pipeline.compiler import failure_playbook
from hmx_pipeline.compiler.registry import ARTIFACT_TYPES
from hmx_pipeline.contracts.agent_types import SHELVES
from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.event_rows import Shelf
from hmx_pipeline.contracts.knowledge import KnowledgeRecord, is_correction
from hmx_pipeline.contracts.options import ENTRY_MARK, Kind
from hmx_pipeline.contracts.pack import DecisionConstraint, WorkflowHints
from hmx_pipeline.contracts.safe_text import as_data
from hmx_pipeline.contracts.timestamps import utc
from hmx_pipeline.packs import skills
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.segments.speakers import speaker_of

MARKER: Final = " [truncated]"
_DAY_MS: Final = 86_400_000
_DATE: Final = len("2026-03-14")
Shown = TypeVar("Shown", bound=BaseModel)


def episode(document: Document, part: str | None = None) -> str:
    """Render with the day, and with the actor unless the text begins with a name. `part`: an excerpt of the text, to
    stand for it."""
    text = " ".join(document.text.split()) if part is None else part
    actor = " ".join(document.actor.split())
    named = speaker_of(text) or text == actor or text.startswith(f"{actor}:")
    said = text if named else f"{(part and speaker_of(document.text)) or actor}: {text}"
    return f"{day(document.at)} {as_data(said)}"


def day(at: int) -> str:
    """Format milliseconds since 1970 as an ISO 8601 date."""
    return _day(at // _DAY_MS)


def artifact(source: Artifact, given: Mapping[str, str] = MappingProxyType({})) -> str:
    """Render an artifact. `given`: slot values from the question."""
    kind = ARTIFACT_TYPES.get(source.artifact_type)
    content = source.content
    if given:
        slots = {
            name: {**slot, "value": given[name]} if name in given else slot for name, slot in content["slots"].items()
        }
        content = {**content, "slots": slots}
    # A playbook is called after what failed: a program's name, which is no action to run.
    title = source.title.replace("`", "") if source.artifact_type == failure_playbook.NAME else source.title
    lines = [title, *(kind.lines(content) if kind else ())]
    return "\n".join(map(as_data, lines if len(lines) > 1 else [title, source.summary]))


def knowledge(source: KnowledgeRecord) -> str:
    """Render a record. What is said of people and things may change, so it has the day since when it holds."""
    if source.kind is Kind.ENTITY and SHELVES.get(source.body.get("entity_type", "")) is Shelf.PROCEDURE:
        return "\n".join(map(as_data, skills.lines(source)))
    since = (source.validity.start if source.validity else None) or source.created_at
    dated = source.kind in (Kind.MEMORY, Kind.CONFLICT) and not is_correction(source)
    said = as_data(source.text)
    return f"{said} (since {since[:_DATE]})" if dated else said


def workflow(title: str, hints: WorkflowHints) -> str:
    """Render the steps that remain."""
    first = hints.current_step or 1
    steps = [f"{first + i}. {step.description}" for i, step in enumerate(hints.suggested_next_steps)]
    return as_data(f"Next in {title} (step {first} of {hints.total_steps}): {'; '.join(steps)}")


def hints(made: WorkflowHints | None) -> WorkflowHints | None:
    if made is None:
        return None
    steps = [_with(each, description=as_data(each.description)) for each in made.suggested_next_steps]
    return _with(made, suggested_next_steps=steps, blockers=[as_data(each) for each in made.blockers])


def constraint(made: DecisionConstraint) -> DecisionConstraint:
    return _with(made, condition=as_data(made.condition), constraint=as_data(made.constraint))


def _with(made: Shown, **fields: object) -> Shown:
    """Return a copy only if a field changes, which is rare."""
    same = all(getattr(made, name) == value for name, value in fields.items())
    return made if same else made.model_copy(update=fields)


def marked(text: str) -> str:
    """Add the entry mark and drop blank lines: intake takes a blank line for the entry's end."""
    plain = text.isprintable() and not text.isspace()  # what is printable has no line breaks
    said = text if plain else "\n".join(line for line in text.splitlines() if line.strip())
    # A space before a word is part of its token; before a digit it would be a token of its own.
    return f"{ENTRY_MARK}{said}" if said[:1].isdigit() else f"{ENTRY_MARK} {said}"


@lru_cache
def _day(number: int) -> str:
    """Format days since 1970 as a date."""
    return utc(number * _DAY_MS).isoformat()[:_DATE]


def cut(text: str, limit: int) -> str | None:
    """Return the longest beginning that takes at most `limit` tokens with the marker; None if nothing fits
    (HMX-C §4)."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle] + MARKER) <= limit else (low, middle - 1)
    # A beginning can cost more tokens than a longer one, so the search may end above the limit.
    while low and estimate(text[:low].rstrip() + MARKER) > limit:
        low -= 1
    kept = _whole_actions(text[:low].rstrip())
    return kept + MARKER if kept else None


def begun(text: str, limit: int) -> str:
    """Return the beginning of a line, cut to `limit` words; a cut text says so."""
    said = text.split()
    return text if len(said) <= limit else _whole_actions(" ".join(said[:limit])) + MARKER


def _whole_actions(text: str) -> str:
    """Drop a command or block that was cut in the middle: half a command may do something else."""
    return text[: text.rindex("`")].removesuffix("``").rstrip() if text.count("`") % 2 else text
