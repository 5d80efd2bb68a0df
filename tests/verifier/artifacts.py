"""Artifacts against the maps: what is live says what its pattern's map says, and every chain is one that HMX-A allows.

Of what is no longer live the newest of a pattern stay, older ones are erased. Enters: the patterns that a reference of
the evidence partition has found, and the partition of the artifacts topic. Leaves: faults.
"""

import hashlib
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import rfc8785

from hmx_pipeline.compiler.evidence_kind import ArtifactCandidate
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.ids import content_id
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import ARTIFACT_VERSIONS
from hmx_pipeline.contracts.timestamps import format_ms
from tests.verifier.faults import Kind, Report
from tests.verifier.log import Part, Row
from tests.verifier.patterns import Pattern, Patterns
from tests.verifier.rules import ARTIFACTS

Artifact = dict[str, Any]
LIVE: Final = ("draft", "active")
TRANSITIONS: Final = {
    "draft": ("active", "superseded", "deprecated"),
    "active": ("superseded", "deprecated", "archived"),
}
"""HMX-A §5, and draft → superseded (§7)."""
CHANGES: Final = ("status", "superseded_by", "updated_at", "metadata")
"""All that may ever change under one artifact_id."""
ROLLED_BYTES: Final = 48 * 1024 * 1024
"""From about so much on, a partition of a compacted topic may have a segment that compaction has been through."""


@dataclass
class Version:
    """Every record of one artifact_id, in order."""

    records: list[tuple[Row, Artifact]] = field(default_factory=list)
    erased: bool = False
    erased_by: int = -1
    """Offset of the record that made its pattern erase it."""

    @property
    def last(self) -> Artifact:
        return self.records[-1][1]

    @property
    def place(self) -> tuple[int, int]:
        """Among its pattern's versions."""
        return self.last["metadata"]["chain"], self.last["version"]


def compare_artifacts(report: Report, part: Part, number: int, patterns: Patterns) -> dict[str, Version]:
    """The versions by artifact_id."""
    where = f"{ARTIFACTS}/{number}"
    versions = _versions(report, where, part)
    by_pattern: dict[str, list[Version]] = defaultdict(list)
    for version in versions.values():
        by_pattern[join_key(version.last["tenant_id"], version.last["metadata"]["pattern"])].append(version)
    for name in sorted(by_pattern.keys() - patterns.patterns.keys()):
        patterns.vanished(name, min(v.records[0][0].number("hmx-origin-offset") for v in by_pattern[name]))
    for artifact_id, version in versions.items():
        _check_version(report, f"{where} {artifact_id}", version, patterns)
    for name in sorted(by_pattern.keys() | patterns.patterns.keys()):
        place = f"{where} pattern {name}"
        pattern = patterns.patterns.get(name)
        forgot = pattern.forgot_at if pattern is not None else set()
        stay = [v for v in by_pattern.get(name, []) if not (v.erased and v.erased_by in forgot)]
        known = sorted(stay, key=lambda version: version.place)
        if pattern is None:
            report.add(Kind.UNFOUNDED, place, "no artifact: no evidence speaks of it", f"{len(known)}")
            continue
        if not pattern.forgotten:
            _check_chains(report, place, known)
            _check_erased(report, place, known)
        _check_live(report, place, pattern, [v.last for v in known if v.last["status"] in LIVE and not v.erased])
        report.compared["patterns"] += 1
    report.compared["artifact records"] += len(part.rows)
    return versions


def rebuild_chains(report: Report, part: Part, number: int) -> dict[str, list[list[Artifact]]]:
    """From the topic alone, whatever compaction has left of it: of every pattern its chains, each version as it is now,
    with every hash computed anew."""
    where = f"{ARTIFACTS}/{number}"
    by_pattern: dict[str, list[Version]] = defaultdict(list)
    for artifact_id, version in _versions(report, where, part).items():
        digest = hashlib.sha256(rfc8785.dumps(version.last["content"])).hexdigest()
        report.same(f"{where} {artifact_id} content_hash", digest, version.last["content_hash"])
        by_pattern[join_key(version.last["tenant_id"], version.last["metadata"]["pattern"])].append(version)
    found: dict[str, list[list[Artifact]]] = {}
    for name, versions in sorted(by_pattern.items()):
        known = sorted(versions, key=lambda version: version.place)
        _check_chains(report, f"{where} pattern {name}", known)
        chains: dict[int, list[Artifact]] = defaultdict(list)
        for version in known:
            chains[version.place[0]].append(version.last)
        found[name] = list(chains.values())
    return found


def count_statuses(part: Part) -> tuple[Counter[str], bool]:
    """Records by the counter that they must have raised, and whether compaction may have taken some."""
    counted: Counter[str] = Counter()
    for row in part.rows:
        with suppress(ValueError, KeyError, TypeError):  # named where versions are looked at
            counted[f"artifact_{orjson.loads(row.value)['status'] if row.value is not None else 'erased'}"] += 1
    return counted, compacted(part)


def count_forgotten(part: Part, patterns: Patterns) -> tuple[Counter[str], bool]:
    """Likewise, how often the last artifact of a pattern went for want of evidence."""
    there: dict[str, set[bytes | None]] = defaultdict(set)
    of: dict[bytes | None, str] = {}
    counted: Counter[str] = Counter()
    for row in part.rows:
        if row.value is not None:
            with suppress(ValueError, KeyError, TypeError):
                artifact = orjson.loads(row.value)
                of[row.key] = join_key(artifact["tenant_id"], artifact["metadata"]["pattern"])
                there[of[row.key]].add(row.key)
        elif row.key in of:
            there[of[row.key]].discard(row.key)
            pattern = patterns.patterns.get(of[row.key])
            erased = pattern is not None and row.number("hmx-origin-offset") in pattern.forgot_at
            counted["pattern_forgotten"] += not (there[of[row.key]] or erased)
    return counted, compacted(part)


def compacted(part: Part) -> bool:
    """May compaction have taken some?"""
    return sum(len(row.value or b"") for row in part.rows) > ROLLED_BYTES


def _versions(report: Report, where: str, part: Part) -> dict[str, Version]:
    versions: dict[str, Version] = defaultdict(Version)
    for row in part.rows:
        try:
            tenant_id, artifact_id = split_key((row.key or b"").decode())
            if row.value is None:
                versions[artifact_id].erased = True
                versions[artifact_id].erased_by = row.number("hmx-origin-offset")
                continue
            artifact: Artifact = orjson.loads(row.value)
            named = artifact["artifact_id"], artifact["tenant_id"], artifact["metadata"]["pattern"]
        except (ValueError, KeyError, TypeError):
            report.add(Kind.UNFOUNDED, f"{where} offset {row.offset}", "an artifact", row.value)
            continue
        if named[:2] == (artifact_id, tenant_id):
            if versions[artifact_id].erased:
                versions[artifact_id] = Version()  # it begins anew
            versions[artifact_id].records.append((row, artifact))
        else:
            report.add(Kind.DIFFERING, f"{where} offset {row.offset}", f"the artifact of the key {row.key!r}", named)
    return {artifact_id: version for artifact_id, version in versions.items() if version.records}


def _check_version(report: Report, where: str, version: Version, patterns: Patterns) -> None:
    first = version.records[0][1]
    report.same(f"{where} content_hash", content_hash(first["content"]), first["content_hash"])
    before: Artifact | None = None
    for row, artifact in version.records:
        pattern = patterns.patterns.get(join_key(artifact["tenant_id"], artifact["metadata"]["pattern"]))
        clock = pattern.times.get(row.number("hmx-origin-offset")) if pattern is not None else None
        if pattern is not None and clock is None:
            report.add(Kind.UNFOUNDED, f"{where} offset {row.offset}", "said when its pattern spoke", "at another time")
        elif "updated_at" in artifact and clock is not None:
            report.same(f"{where} updated_at", format_ms(clock), artifact["updated_at"])
        if before is not None:
            _check_change(report, f"{where} offset {row.offset}", before, artifact)
        before = artifact


def _check_change(report: Report, where: str, before: Artifact, after: Artifact) -> None:
    if before == after:
        report.add(Kind.DOUBLED, where, "something new", "the record before once more")
        return
    if after["status"] not in TRANSITIONS.get(before["status"], ()):
        report.add(Kind.DIFFERING, f"{where} status", f"one after {before['status']}", after["status"])
    for name in (before.keys() | after.keys()) - set(CHANGES):
        report.same(f"{where} {name}", before.get(name), after.get(name))


def _check_chains(report: Report, where: str, versions: list[Version]) -> None:
    chains: dict[int, list[Version]] = defaultdict(list)
    for version in versions:
        chains[version.place[0]].append(version)
    # Compaction may have taken the first ones, once they were erased.
    whole = len(versions) <= ARTIFACT_VERSIONS
    first = 1 if whole else min(chains)
    report.same(f"{where} chains", list(range(first, first + len(chains))), sorted(chains))
    for ordinal, chain in sorted(chains.items()):
        partly = not whole and ordinal == first
        _check_chain(report, f"{where} chain {ordinal}", chain, newest=ordinal == max(chains), partly=partly)


def _check_erased(report: Report, where: str, versions: list[Version]) -> None:
    """What is no longer live stays until there are too many of it, the oldest first."""
    stay = versions[-ARTIFACT_VERSIONS - 1 :]
    for version in versions:
        if version.erased == (version in stay):
            wanted, found = ("erased", "not") if not version.erased else ("there", "erased")
            kind = Kind.LOST if version.erased else Kind.DIFFERING
            report.add(kind, f"{where} {version.last['artifact_id']}", wanted, found)


def _check_chain(report: Report, where: str, chain: list[Version], *, newest: bool, partly: bool) -> None:
    numbers = [version.last["version"] for version in chain]
    first = numbers[0] if partly else 1
    report.same(f"{where} versions", list(range(first, first + len(chain))), numbers)
    active = [version.last["artifact_id"] for version in chain if version.last["status"] == "active"]
    if len(active) > 1:
        report.add(Kind.DOUBLED, f"{where} active", "one active artifact", ", ".join(active))
    for place, version in enumerate(chain):
        last = version.last
        name = f"{where} version {last['version']}"
        predecessor = chain[place - 1] if place else None
        successor = chain[place + 1] if place + 1 < len(chain) else None
        if not (partly and place == 0):
            report.same(f"{name} supersedes", predecessor and predecessor.last["artifact_id"], last.get("supersedes"))
        report.same(f"{name} superseded_by", successor and successor.last["artifact_id"], last.get("superseded_by"))
        if (last["status"] == "superseded") != (successor is not None):
            report.add(Kind.DIFFERING, f"{name} status", "superseded where there is a successor only", last["status"])
        elif successor is None and not newest and last["status"] in LIVE:
            report.add(Kind.DIFFERING, f"{name} status", "an end, for there is a later chain", last["status"])
        if successor is not None and version.records[-1][0].offset > successor.records[0][0].offset:
            report.add(Kind.DISORDERED, name, "superseded before its successor is there", "after it")
        report.same(f"{name} artifact_id", _id(last), last["artifact_id"])


def _id(artifact: Artifact) -> str:
    """Made from what it is about; its time, the newest evidence's, stands in the id itself."""
    ms = int(artifact["artifact_id"].replace("-", "")[:12], 16)
    pattern, place = split_key(artifact["metadata"]["pattern"]), (artifact["metadata"]["chain"], artifact["version"])
    return content_id(ms, artifact["tenant_id"], *pattern, *map(str, place))


def _check_live(report: Report, where: str, pattern: Pattern, live: list[Artifact]) -> None:
    """Law 5: a pure function of the map, whatever way led there."""
    said = pattern.says()
    if said is None:
        for artifact in live:
            report.add(Kind.UNFOUNDED, where, "no live artifact: its evidence says nothing", artifact["artifact_id"])
        return
    if len(live) != 1:
        kind = Kind.DOUBLED if live else Kind.LOST
        report.add(kind, where, "one live artifact", ", ".join(a["artifact_id"] for a in live) or "none")
    for artifact in live[:1]:
        for name, expected in _fields(said).items():
            report.same(f"{where} {artifact['artifact_id']} {name}", expected, artifact.get(name))


def _fields(said: ArtifactCandidate) -> dict[str, Any]:
    scope = said.validity_scope
    return {
        "status": str(said.status),
        "title": said.title,
        "summary": said.summary,
        "content_hash": content_hash(said.content),
        "confidence": said.confidence,
        "source_events": said.source_events,
        "source_memory_ids": said.source_memory_ids,
        "tags": said.tags,
        "observed_count": said.observed_count,
        "success_rate": said.success_rate,
        "validity_scope": scope.model_dump(exclude_none=True) if scope is not None else None,
    }
