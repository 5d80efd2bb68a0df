"""A source as the terse text of an entry: a line for an episode, a few for an artifact. Pure.

Every token of form costs a token of memory, so there is no mark-up but the mark that intake knows a pack's text by.
How an artifact's content reads, its type says.
"""

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final, TypeVar

from pydantic import BaseModel

from pipeline.compiler import failure_playbook
from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.artifact import Artifact
from pipeline.contracts.instants import utc
from pipeline.contracts.knowledge import Kind, KnowledgeRecord, is_correction
from pipeline.contracts.pack import ENTRY_MARK, DecisionConstraint, WorkflowHints
from pipeline.contracts.plain import as_data
from pipeline.packs.tokens import estimate
from pipeline.retrieval.documents import Document
from pipeline.segments.speakers import speaker_of

MARKER: Final = " [truncated]"
_DAY_MS: Final = 86_400_000
_DATE: Final = len("2026-03-14")
Shown = TypeVar("Shown", bound=BaseModel)


def episode(document: Document) -> str:
    """With its day, and who speaks or what is named unless the text begins with that."""
    text, actor = (" ".join(said.split()) for said in (document.text, document.actor))
    named = speaker_of(text) or f"{text}:".startswith(f"{actor}:")
    said = text if named else f"{actor}: {text}"
    return f"{day(document.at)} {as_data(said)}"


def day(at: int) -> str:
    """Of milliseconds since 1970, as ISO 8601 says it."""
    return _day(at // _DAY_MS)


def artifact(source: Artifact, given: Mapping[str, str] = MappingProxyType({})) -> str:
    """`given`: what the question says of its slots."""
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
    """With the day since when it holds, for what is said of people and things changes; not so how to go about it."""
    since = (source.validity.start if source.validity else None) or source.created_at
    dated = source.kind in (Kind.MEMORY, Kind.CONFLICT) and not is_correction(source)
    said = as_data(source.text)
    return f"{said} (since {since[:_DATE]})" if dated else said


def workflow(title: str, hints: WorkflowHints) -> str:
    """What is still to do."""
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
    """A copy where that changes anything, which it seldom does."""
    same = all(getattr(made, name) == value for name, value in fields.items())
    return made if same else made.model_copy(update=fields)


def marked(text: str) -> str:
    """As an entry says it: nothing of it stands behind a blank line, which is where intake takes it to end."""
    said = "\n".join(line for line in text.splitlines() if line.strip())
    # Before a word a space belongs to it; before a digit it would be a token of its own.
    return f"{ENTRY_MARK}{said}" if said[:1].isdigit() else f"{ENTRY_MARK} {said}"


@lru_cache
def _day(number: int) -> str:
    """Of days since 1970."""
    return utc(number * _DAY_MS).isoformat()[:_DATE]


def cut(text: str, limit: int) -> str | None:
    """The longest beginning that with the marker takes at most `limit` tokens; None where nothing fits (HMX-C §4)."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle] + MARKER) <= limit else (low, middle - 1)
    # A beginning can cost more than a longer one, so the search may end above the limit.
    while low and estimate(text[:low].rstrip() + MARKER) > limit:
        low -= 1
    kept = _whole_actions(text[:low].rstrip())
    return kept + MARKER if kept else None


def _whole_actions(text: str) -> str:
    """Up to the action that is cut, if one is: half a command may do something else."""
    return text[: text.rindex("`")].rstrip() if text.count("`") % 2 else text
