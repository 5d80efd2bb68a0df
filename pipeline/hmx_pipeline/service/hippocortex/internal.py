"""Field names of the clients' types CompiledArtifact and ContextPack (HMX-A §11, HMX-C §9).

Enters: fields of an artifact or pack. Leaves: those known to the clients, renamed. Never raises. For content and
entries see service.hippocortex.synthesize.
"""

from collections.abc import Mapping
from typing import Any, Final

_SAME: Final = ("title", "summary", "confidence", "status", "tags", "metadata")
COMPILED_ARTIFACT: Final[Mapping[str, str]] = {
    "artifact_id": "id",
    "artifact_type": "type",
    "source_events": "evidenceRefs",
    "source_memory_ids": "sourceMemoryIds",
    "superseded_by": "supersededBy",
    **{name: name for name in _SAME},
}
CONTEXT_PACK: Final[Mapping[str, str]] = {
    "pack_id": "id",
    "query_context": "queryContext",
    "token_budget": "tokenBudget",
    "created_at": "createdAt",
    "metadata": "metadata",
}


def in_clients_types(fields: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {theirs: fields[ours] for ours, theirs in names.items() if fields.get(ours) is not None}
