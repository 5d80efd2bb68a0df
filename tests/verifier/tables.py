"""The stream tables against the references: what the state topics say, read by key.

Spelled here by the documented layout of the two topics. Enters: the last record of each key of a partition, and what
the reference of that partition found. Leaves: faults.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any, Final

import orjson

from hmx_pipeline.contracts.keys import join_key
from tests.verifier.artifacts import Version, compacted, count_forgotten, count_statuses
from tests.verifier.faults import Kind, Report
from tests.verifier.log import Part, Row
from tests.verifier.patterns import Patterns
from tests.verifier.rules import PATTERN_STATE, SESSION_STATE, Rules
from tests.verifier.sessions import Made

POSITION: Final = "!"
Table = dict[str, Any]
Counts = dict[str, int]


def table(part: Part) -> Table:
    """Key → parsed value."""
    return {(row.key or b"").decode(): orjson.loads(row.value or b"null") for row in part.rows}


def of_kind(found: Table, kind: str) -> Table:
    prefix = f"{kind}/"
    return {key.removeprefix(prefix): value for key, value in found.items() if key.startswith(prefix)}


def compare_position(
    report: Report, where: str, found: Table, topic_id: str, clock: int, counts: dict[str, int], rows: Iterable[Row]
) -> None:
    """The record `!`: position, clock, topic and totals."""
    position = found.get(POSITION)
    last = max((row.offset for row in rows), default=-1)
    if position is None:
        if last >= 0:
            report.add(Kind.BEHIND, f"{where} !", f"a position beyond {last}", None)
        return
    if position["position"] <= last:
        report.add(Kind.BEHIND, f"{where} ! position", f"beyond {last}", position["position"])
    report.same(f"{where} ! clock", clock, position["clock"])
    report.same(f"{where} ! topic_id", topic_id, position["topic_id"])
    for name in sorted(counts.keys() | position["counts"].keys()):
        report.same(f"{where} ! count {name}", counts.get(name, 0), position["counts"].get(name, 0))


def compare_sessions(report: Report, number: int, found: Table, made: Made, rules: Rules) -> None:
    """Cursors, what waits behind gaps, and barriers behind that."""
    where = f"{SESSION_STATE}/{number}"
    expected: Table = {}
    held: Table = {}
    for name, session in made.sessions.items():
        last = session.last
        expected[name] = {"next": 0 if last is None else last[0] + 1, "index": session.index, "run": session.run}
        for event in session.waiting + session.early:
            key = f"{name}/{event.sequence:020d}/{join_key(event.event_id)}"
            held[key] = {"offset": event.row.offset, "deadline": event.row.at + rules.window_ms}
    cursors = {
        name: dict(zip(("next", "index", "run"), state.get("cursor", (0, 0, 0)), strict=False))
        for name, state in of_kind(found, "s").items()
    }
    waiting = {
        key: {"offset": value["offset"], "deadline": value["deadline"]} for key, value in of_kind(found, "w").items()
    }
    barriers = {name: value["deadline"] for name, value in of_kind(found, "z").items()}
    for kind, ours, theirs in (("s", expected, cursors), ("w", held, waiting), ("z", made.barriers, barriers)):
        for key in sorted(ours.keys() | theirs.keys()):
            report.same(f"{where} {kind}/{key}", ours.get(key), theirs.get(key))
    report.compared["sessions"] += len(expected)


def compare_patterns(
    report: Report, number: int, found: Table, patterns: Patterns, versions: dict[str, Version]
) -> None:
    """Maps, what each pattern said last, and the barriers that are remembered."""
    where = f"{PATTERN_STATE}/{number}"
    maps: Table = {}
    for pattern in patterns.patterns.values():
        maps.update(pattern.last())
    entries = of_kind(found, "m")
    for key in sorted(maps.keys() | entries.keys()):
        expected = orjson.loads(maps[key]) if key in maps else None
        report.same(f"{where} m/{key}", expected, entries.get(key))
    _compare_said(report, where, of_kind(found, "p"), patterns, versions)
    passages = {
        join_key(name): {
            "seen": sorted(p.seen),
            "partitions": p.partitions,
            "passed": p.passed,
            "forget_at": p.forget_at,
            **({"tenant_id": p.tenant_id} if p.tenant_id else {}),
        }
        for name, p in patterns.passages.items()
    }
    barriers = of_kind(found, "b")
    for key in sorted(passages.keys() | barriers.keys()):
        report.same(f"{where} b/{key}", passages.get(key), barriers.get(key))


def _compare_said(report: Report, where: str, found: Table, patterns: Patterns, versions: dict[str, Version]) -> None:
    known: dict[str, list[Version]] = defaultdict(list)
    for version in versions.values():
        if not version.erased:
            known[join_key(version.last["tenant_id"], version.last["metadata"]["pattern"])].append(version)
    for name in sorted(known.keys() | found.keys() | patterns.patterns.keys()):
        state = found.get(name, {})
        artifacts = [version.last for version in sorted(known.get(name, []), key=lambda version: version.place)]
        report.same(
            f"{where} p/{name} said", artifacts[-1] if artifacts else None, (state.get("said") or {}).get("artifact")
        )
        older = [artifact["artifact_id"] for artifact in artifacts[:-1]]
        report.same(f"{where} p/{name} older", older, state.get("older", []))
        pattern = patterns.patterns.get(name)
        asked = None if pattern is not None and pattern.forgets_only and name not in found else pattern
        report.same(f"{where} p/{name} speak_at", asked and asked.speak_at, state.get("speak_at"))


def compare_artifact_counts(report: Report, number: int, found: Table, part: Part, patterns: Patterns) -> Counts:
    """The counters of what was said, as the table has them, which must be what the topic holds."""
    said = _compare_counts(report, number, found, "artifact_", *count_statuses(part))
    return said | _compare_counts(report, number, found, "pattern_forgotten", *count_forgotten(part, patterns))


def compare_knowledge_counts(report: Report, number: int, found: Table, counted: Counter[str], part: Part) -> Counts:
    """Likewise."""
    return _compare_counts(report, number, found, "knowledge_", counted, compacted(part))


def _compare_counts(
    report: Report, number: int, found: Table, prefix: str, counted: Counter[str], compacted: bool
) -> Counts:
    counts = found.get(POSITION, {}).get("counts", {})
    said = {name: n for name, n in counts.items() if name.startswith(prefix)}
    for name in sorted(said.keys() | counted.keys()):
        if counted[name] != said.get(name, 0) and not (compacted and counted[name] < said.get(name, 0)):
            where = f"{PATTERN_STATE}/{number} ! count {name}"
            report.add(Kind.DIFFERING, where, f"{counted[name]}, as on the topic", said.get(name, 0))
    return said
