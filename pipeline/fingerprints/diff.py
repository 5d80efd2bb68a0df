"""What tells two fingerprints apart, named by path. Pure; nothing fails."""

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pipeline.contracts.fingerprint import PARTS, Fingerprint

_HASHED: Final = "content"
"""Of an artifact; its hash is compared."""


class Difference(NamedTuple):
    """`before` and `after` are plain JSON values; None: it is not there."""

    part: str
    path: tuple[str, ...]
    before: Any
    after: Any


def differences(before: Fingerprint, after: Fingerprint) -> list[Difference]:
    """By part and path."""
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
    """Lists by what their items are about; a whole graph by how large it is."""
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
