"""A pack in the words of the protocol's overview, for those who ask for it. Pure.

Enters: a pack as JSON values. Leaves: the same, its source types named as the overview names them. Nothing fails.
"""

from collections.abc import Mapping
from typing import Any, Final

from pipeline.contracts.pack import SourceType

_OVERVIEW: Final[Mapping[str, str]] = {
    SourceType.EPISODE: "event",
    SourceType.ENTITY: "graph_node",
    SourceType.RELATION: "graph_edge",
    SourceType.MEMORY: "computed",
    SourceType.POLICY: "computed",
    SourceType.CONFLICT: "computed",
    SourceType.ARTIFACT: "artifact",
}


def in_overview(pack: Mapping[str, Any]) -> dict[str, Any]:
    named = {
        name: [{**one, "source_type": _OVERVIEW[one["source_type"]]} for one in pack[name]]
        for name in ("entries", "dropped_entries")
        if name in pack
    }
    return {**pack, **named}
