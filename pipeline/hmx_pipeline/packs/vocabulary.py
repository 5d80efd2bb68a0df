"""A pack with the source type names of the HMX overview, for clients that ask for it."""

from collections.abc import Mapping
from typing import Final

from hmx_pipeline.contracts.options import SourceType
from hmx_pipeline.contracts.pack import ContextPack, OverviewPack, OverviewSource

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
