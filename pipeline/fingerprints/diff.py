"""The differences between two fingerprints, by path."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pipeline.contracts.fingerprint import PARTS, Fingerprint

_HASHED: Final = "content"
"""Artifact field that is left out, because its hash is compared."""


class Difference(NamedTuple):
    """One difference. `before` and `after` are plain JSON values; None if there is no value."""

    part: str
    path: tuple[str, ...]
    before: Any
    after: Any


def differences(before: Fingerprint, after: Fingerprint) -> list[Difference]:
    """Compare two fingerprints; sorted by part and path."""
    told = []
    for part in PARTS:
        old, new = (dict(_leaves(_comparable(part, one))) for one in (before, after))
        told += [
            Difference(part, path, old.get(path), new.get(path))
            for path in sorted(old.keys() | new.keys())
            if old.get(path) != new.get(path)
        ]
    return told


def _comparable(part: str, one: Fingerprint) -> Any:
    """Key list items by what they are about; reduce a whole graph to its size."""
    said = getattr(one, part).model_dump(mode="json", exclude_none=True)
    if part == "artifact_summaries":
        said["artifacts"] = {
            each["pattern"]: {name: value for name, value in each.items() if name not in (_HASHED, "pattern")}
            for each in said["artifacts"]
        }
    if part == "graph_digest":
        said["hubs"] = {f"{hub['type']} {hub['name']}": hub["degree"] for hub in said["hubs"]}
        said["nodes"], said["edges"] = len(said["nodes"]), len(said["edges"])
    return said


def _leaves(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _leaves(inner, (*path, name))
    else:
        yield path, value
