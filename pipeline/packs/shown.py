"""What a pack shows of a source, made once and kept with it: nothing of it depends on what is asked. Pure.

Enters: a source, and what was made of it before. Leaves: the text of its entry with its tokens, and what decides
whether another one says the same. Nothing fails.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from pipeline.contracts.artifact import Artifact
from pipeline.contracts.knowledge import KnowledgeRecord
from pipeline.packs import render
from pipeline.packs.sameness import Mark, folded, mark
from pipeline.packs.tokens import estimate
from pipeline.retrieval.documents import Document
from pipeline.retrieval.score import Made

Source = TypeVar("Source")


class Shown(msgspec.Struct, frozen=True, gc=False):
    text: str
    """As the entry says it, marked."""
    tokens: int
    said: str
    """Without who and when; of an episode without numbers, ids and dates too."""
    mark: Mark


def shown(text: str, said: str) -> Shown:
    entry = render.marked(text)
    return Shown(entry, estimate(entry), said, mark(said))


def again(text: str, times: int, last: int) -> str:
    """An entry that stands for several of the same, the last of them at that time."""
    return f"{text} ({times:,} times, last {render.day(last)})"


def episode(source: Document) -> Shown:
    return shown(render.episode(source), folded(source.text))


def artifact(source: Artifact, given: Mapping[str, str] = MappingProxyType({})) -> Shown:
    text = render.artifact(source, given)
    return shown(text, text)


def knowledge(source: KnowledgeRecord) -> Shown:
    return shown(render.knowledge(source), source.text)


def kept(made: Made, show: Callable[[Source], Shown], source: Source) -> Shown:
    """`made` belongs to the source (`Found.made`), `show` to its kind."""
    known: Shown | None = made.shown
    if known is None:
        known = made.shown = show(source)
    return known
