"""Replay comparison of artifacts: the current artifact of every pattern, pipeline against replay (law 5).

Enters: the records of one artifacts partition, of both sides. Leaves: an `ArtifactChange` for each pattern that
differs. Pure. Records that are no artifacts are skipped; law 4 reports them. Ids, versions, links and times are not
compared, since they depend on the order of arrival.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

import orjson
import xxhash

from hmx_pipeline.audit.replay_streams import changed_paths
from hmx_pipeline.contracts.options import Status
from hmx_pipeline.stages.fold import Record

CURRENT: Final = (Status.DRAFT, Status.ACTIVE)
COMPARED: Final = (
    "artifact_type", "title", "summary", "status", "confidence", "observed_count", "success_rate", "content_hash",
    "validity_scope", "tags",
)  # fmt: skip
SOURCES: Final = ("source_events", "source_memory_ids")
PATHS: Final = 8
"""Changed paths shown per artifact."""


class ChangeKind(StrEnum):
    ADDED = "added"
    REMOVED = "removed"
    CHANGED = "changed"


class PatternName(NamedTuple):
    tenant_id: str
    pattern: str


class CurrentArtifact(NamedTuple):
    offset: int
    digest: bytes
    """Digest of the fields in `COMPARED` and `SOURCES`."""


class ArtifactChange(NamedTuple):
    change: ChangeKind
    tenant_id: str
    pattern: str
    before: Mapping[str, Any] | None
    """The artifact in the topic."""
    after: Mapping[str, Any] | None
    """The artifact of the replay."""

    @property
    def newest(self) -> Mapping[str, Any]:
        found = self.after or self.before
        assert found is not None, "one of them is there, or nothing has changed"
        return found

    @property
    def paths(self) -> list[tuple[str, str, str]]:
        """Paths that differ, with the values before and after."""
        if self.before is None or self.after is None:
            return []
        names = [*(name for name in COMPARED if name != "content_hash"), "content", *SOURCES]
        sides = [orjson.dumps({name: side.get(name) for name in names}) for side in (self.before, self.after)]
        return changed_paths(sides[0], sides[1], PATHS)

    def as_json(self) -> dict[str, Any]:
        shown = ("artifact_id", "status", "confidence", "observed_count", "content_hash")
        return {
            "change": self.change,
            "tenant_id": self.tenant_id,
            "pattern": self.pattern,
            "artifact_type": self.newest["artifact_type"],
            "title": self.newest["title"],
            "before": None if self.before is None else {name: self.before.get(name) for name in shown},
            "after": None if self.after is None else {name: self.after.get(name) for name in shown},
            "differences": [{"path": path, "before": old, "after": new} for path, old, new in self.paths],
        }


def pattern_of(artifact: Mapping[str, Any]) -> PatternName:
    return PatternName(artifact["tenant_id"], artifact["metadata"]["pattern"])


def current_artifacts(records: Iterable[Record]) -> dict[PatternName, CurrentArtifact]:
    """Returns each pattern's draft or active artifact, after all records."""
    found: dict[bytes, tuple[PatternName, CurrentArtifact]] = {}
    for record in records:
        key = record.key or b""
        found.pop(key, None)
        try:
            artifact = orjson.loads(record.value or b"null")
            if artifact is not None and artifact["status"] in CURRENT:
                found[key] = pattern_of(artifact), CurrentArtifact(record.offset, _digest(artifact))
        except (ValueError, LookupError, TypeError, AttributeError):
            continue
    return dict(found.values())


def _digest(artifact: Mapping[str, Any]) -> bytes:
    said = [artifact.get(name) for name in COMPARED] + [sorted(artifact[name]) for name in SOURCES]
    return xxhash.xxh3_128_digest(orjson.dumps(said, option=orjson.OPT_SORT_KEYS))


def differing(
    before: Mapping[PatternName, CurrentArtifact], after: Mapping[PatternName, CurrentArtifact]
) -> dict[PatternName, tuple[int | None, int | None]]:
    """Maps each pattern that differs to its artifact's offsets on both sides, sorted by pattern."""
    differ = {}
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None or old.digest != new.digest:
            differ[name] = (old.offset if old else None, new.offset if new else None)
    return differ


def change_of(name: PatternName, before: bytes | None, after: bytes | None) -> ArtifactChange:
    kind = ChangeKind.ADDED if before is None else ChangeKind.REMOVED if after is None else ChangeKind.CHANGED
    old, new = (orjson.loads(side) if side is not None else None for side in (before, after))
    return ArtifactChange(kind, *name, old, new)


def rests_on_more(change: ArtifactChange) -> bool:
    """Returns whether the pipeline's artifact has contributions that the replay did not make."""
    if change.before is None:
        return False
    made = set(change.after["source_memory_ids"]) if change.after is not None else set()
    return not made.issuperset(change.before["source_memory_ids"])
