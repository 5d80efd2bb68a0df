"""A source as the terse text of an entry: a line for an episode, a few for an artifact. Pure.

Every token of form costs a token of memory, so there is no mark-up. Other types of artifact show title and summary.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from pipeline.contracts.artifact import Artifact
from pipeline.contracts.instants import format_ms
from pipeline.contracts.pack import WorkflowHints
from pipeline.packs.tokens import estimate
from pipeline.retrieval.documents import Document

MARKER: Final = " [truncated]"


def episode(document: Document) -> str:
    return f"{format_ms(document.at)[:10]} {document.actor}: {' '.join(document.text.split())}"


def artifact(source: Artifact) -> str:
    body = _BODIES.get(source.artifact_type)
    lines = [source.title, *(body(source.content) if body else ())]
    return "\n".join(lines if len(lines) > 1 else [source.title, source.summary])


def workflow(title: str, hints: WorkflowHints) -> str:
    """What is still to do."""
    first = hints.current_step or 1
    steps = [f"{first + i}. {step.description}" for i, step in enumerate(hints.suggested_next_steps)]
    return f"Next in {title} (step {first} of {hints.total_steps}): {'; '.join(steps)}"


def cut(text: str, limit: int) -> str | None:
    """The longest beginning that with the marker takes at most `limit` tokens; None where nothing fits (HMX-C §4)."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle] + MARKER) <= limit else (low, middle - 1)
    # A beginning can cost more than a longer one, so the search may end above the limit.
    while low and estimate(text[:low].rstrip() + MARKER) > limit:
        low -= 1
    kept = text[:low].rstrip()
    return kept + MARKER if kept else None


def _task_schema(content: Mapping[str, Any]) -> Iterator[str]:
    yield from _listed("Before", content.get("preconditions", ()))
    for step in content.get("steps", ()):
        tools = [tool for tool in step.get("tools_used", ()) if tool not in step["description"]]
        optional = "(optional) " if step.get("optional") else ""
        yield f"{step['order']}. {optional}{step['description']}" + (f" ({', '.join(tools)})" if tools else "")
    yield from _listed("Done when", content.get("postconditions", ()))


def _failure_playbook(content: Mapping[str, Any]) -> Iterator[str]:
    yield from _listed("Fails as", [content["failure_pattern"]] if content.get("failure_pattern") else ())
    yield from _listed("When", content.get("trigger_conditions", ()))
    yield from _listed("Recover", content.get("recovery_steps", ()))
    yield from _listed("Prevent", content.get("prevention_strategies", ()))


def _listed(name: str, texts: Sequence[str]) -> Iterator[str]:
    if texts:
        yield f"{name}: {'; '.join(texts)}"


_BODIES: Final[Mapping[str, Callable[[Mapping[str, Any]], Iterator[str]]]] = {
    "task_schema": _task_schema,
    "failure_playbook": _failure_playbook,
}
