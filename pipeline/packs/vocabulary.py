"""A pack in the words of the protocol's overview, for those who ask for it. Pure.

Enters: a pack. Leaves: the same, its source types named as the overview names them. Nothing fails.
"""

from collections.abc import Mapping
from typing import Final

from pipeline.contracts.pack import ContextPack, OverviewPack, OverviewSource, SourceType

_NAMES: Final[Mapping[SourceType, OverviewSource]] = {
    SourceType.EPISODE: OverviewSource.EVENT,
    SourceType.ENTITY: OverviewSource.GRAPH_NODE,
    SourceType.RELATION: OverviewSource.GRAPH_EDGE,
    SourceType.MEMORY: OverviewSource.COMPUTED,
    SourceType.POLICY: OverviewSource.COMPUTED,
    SourceType.CONFLICT: OverviewSource.COMPUTED,
    SourceType.ARTIFACT: OverviewSource.ARTIFACT,
}


def in_overview(pack: ContextPack) -> OverviewPack:
    fields = pack.model_dump(exclude_none=True)
    for name in ("entries", "dropped_entries"):
        for one in fields.get(name, ()):
            one["source_type"] = _NAMES[one["source_type"]]
    return OverviewPack.model_validate(fields)
