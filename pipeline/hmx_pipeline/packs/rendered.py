"""Rendered entries: text, token count and near duplicate mark of a source, cached with the source.

Nothing here depends on the query, so each source is rendered once.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TypeVar

import msgspec

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.packs import render
from hmx_pipeline.packs.near_duplicates import Mark, folded, mark
from hmx_pipeline.packs.tokens import estimate
from hmx_pipeline.retrieval.score import Made
from hmx_pipeline.retrieval.searchable import Document

Source = TypeVar("Source")


class RenderedEntry(msgspec.Struct, gc=False):
    text: str
    """The entry's text, with the entry mark."""
    tokens: int
    plain: str
    """The text without actor and date."""
    seen: tuple[str, Mark] | None = None

    def told(self, fold: bool) -> tuple[str, Mark]:
        """Return the plain text, numbers, ids and dates masked if `fold`, and its near duplicate mark."""
        if self.seen is None:
            said = folded(self.plain) if fold else self.plain
            self.seen = said, mark(said)
        return self.seen


def shown(text: str, said: str) -> RenderedEntry:
    entry = render.marked(text)
    return RenderedEntry(entry, estimate(entry), said)


def again(text: str, times: int, last: int) -> str:
    """Render an entry that stands for several equal ones, with the time of the last."""
    return f"{text} ({times:,} times, last {render.day(last)})"


def episode(source: Document) -> RenderedEntry:
    return shown(render.episode(source), source.text)


def artifact(source: Artifact, given: Mapping[str, str] = MappingProxyType({})) -> RenderedEntry:
    text = render.artifact(source, given)
    return shown(text, text)


def knowledge(source: KnowledgeRecord) -> RenderedEntry:
    return shown(render.knowledge(source), source.text)


def kept(made: Made, show: Callable[[Source], RenderedEntry], source: Source) -> RenderedEntry:
    """Return the cached rendering, or render. `made` belongs to the source (`Found.made`), `show` to its kind."""
    known: RenderedEntry | None = made.shown
    if known is None:
        known = made.shown = show(source)
    return known
