"""Knowledge records against the maps: what a pattern's map says stands there to the byte, and nothing else does.

Records are a function of the map, ids too (law 5); what is no longer said was withdrawn when its pattern spoke, and of
that the newest of a pattern stay. Enters: the patterns that a reference of the evidence partition has found, and the
partition of the knowledge topic. Leaves: faults.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from hmx_pipeline.compiler.registry import is_knowledge
from hmx_pipeline.contracts.keys import join_key, split_key
from hmx_pipeline.contracts.limits import WITHDRAWN_RECORDS
from tests.verifier.faults import Kind, Report, difference
from tests.verifier.log import Part, Row
from tests.verifier.patterns import ENDLESS, Pattern, Patterns
from tests.verifier.rules import KNOWLEDGE
from tests.verifier.sealed import sealed_name, sealed_rulings

Table = dict[str, Any]
WITHDRAWN: Final = "withdrawn"


@dataclass
class Entry:
    """Every record of one record_id, in order."""

    rows: list[tuple[Row, Table]] = field(default_factory=list)
    erased: bool = False

    @property
    def last(self) -> Table:
        return self.rows[-1][1]

    @property
    def value(self) -> bytes:
        return self.rows[-1][0].value or b""


def compare_knowledge(
    report: Report, part: Part, number: int, patterns: Patterns, state: Table, sealed: Table
) -> Counter[str]:
    """`state`, `sealed`: the records `p/…` and `d/…` of the table. Leaves what the stage must have counted."""
    where = f"{KNOWLEDGE}/{number}"
    counts: Counter[str] = Counter()
    by_pattern: dict[str, dict[str, Entry]] = defaultdict(dict)
    for record_id, entry in _entries(report, where, part, counts, patterns).items():
        name = join_key(entry.last["tenant_id"], entry.last["pattern"])
        by_pattern[name][record_id] = entry
    known = {name for name, pattern in patterns.patterns.items() if is_knowledge(split_key(pattern.text)[0])}
    for name in sorted(known | by_pattern.keys()):
        entries = by_pattern.get(name, {})
        pattern = patterns.patterns.get(name) or patterns.vanished(name, _first(entries))
        if pattern is None:
            report.add(Kind.UNFOUNDED, f"{where} pattern {name}", "nothing: no evidence speaks of it", len(entries))
            continue
        said = patterns.said(pattern)
        _compare(report, f"{where} pattern {name}", pattern, said, entries)
        _compare_state(report, f"{where} pattern {name}", said, entries, state.get(name, {}))
        _compare_rulings(report, f"{where} pattern {name} rulings", pattern, patterns, state.get(name, {}), sealed)
        report.compared["patterns of knowledge"] += 1
    decided = {sealed_name(name) for name, pattern in patterns.patterns.items() if pattern.is_decided(ENDLESS)}
    for name in sorted(sealed.keys() - decided):
        report.add(Kind.UNFOUNDED, f"{where} sealed {name}", "nothing: no decision is left", sealed[name])
    report.compared["knowledge records"] += len(part.rows)
    return counts


def _first(entries: dict[str, Entry]) -> int:
    """Offset of the record that made it speak first."""
    return min(entry.rows[0][0].number("hmx-origin-offset") for entry in entries.values())


def _entries(report: Report, where: str, part: Part, counts: Counter[str], patterns: Patterns) -> dict[str, Entry]:
    entries: dict[str, Entry] = defaultdict(Entry)
    for row in part.rows:
        place = f"{where} offset {row.offset}"
        try:
            tenant_id, record_id = split_key((row.key or b"").decode())
            entry = entries[record_id]
            if row.value is None:
                counts["knowledge_erased"] += 1
                entry.erased = True
                continue
            record = orjson.loads(row.value)
            counts[f"knowledge_{record['status']}"] += 1
            named = record["record_id"], record["tenant_id"], record["pattern"]
            if named[:2] != (record_id, tenant_id):
                report.add(Kind.DIFFERING, place, f"the record of the key {row.key!r}", named)
            is_same = entry.rows and not entry.erased and entry.value == row.value
            if is_same and not _was_unsaid(patterns, record, row):
                report.add(Kind.DOUBLED, place, "something new", "the record before once more")
            entry.rows.append((row, record))
            entry.erased = False
        except (ValueError, KeyError, TypeError):
            report.add(Kind.UNFOUNDED, place, "a knowledge record", row.value)
    return {record_id: entry for record_id, entry in entries.items() if entry.rows}


def _was_unsaid(patterns: Patterns, record: Table, row: Row) -> bool:
    """What an operator has retracted was not said for a while: that changes nothing of it on the topic."""
    pattern = patterns.patterns.get(join_key(record["tenant_id"], record["pattern"]))
    if pattern is None or record["status"] != WITHDRAWN:
        return False
    return record["record_id"] not in patterns.said(pattern, row.number("hmx-origin-offset"))


def _compare(report: Report, where: str, pattern: Pattern, said: dict[str, bytes], entries: dict[str, Entry]) -> None:
    for record_id in sorted(said.keys() | entries.keys()):
        entry, expected = entries.get(record_id), said.get(record_id)
        # What an operator has retracted is said as withdrawn; what nothing says any more is withdrawn by the stage.
        left = entry is not None and not entry.erased
        standing = left and entry is not None and (expected is not None or entry.last["status"] != WITHDRAWN)
        for row, _ in entry.rows if entry is not None else ():
            if row.number("hmx-origin-offset") not in pattern.times:
                report.add(Kind.UNFOUNDED, f"{where} {record_id}", "said when its pattern spoke", "at another time")
        if expected is None:
            if standing and entry is not None:
                report.add(Kind.UNFOUNDED, f"{where} {record_id}", "nothing, or withdrawn", entry.last["status"])
        elif entry is None or not standing:
            report.add(Kind.LOST, f"{where} {record_id}", expected, entry and entry.last["status"])
        elif entry.value != expected:
            report.add(Kind.DIFFERING, f"{where} {record_id}", *difference(expected, entry.value))


def _compare_state(report: Report, where: str, said: dict[str, bytes], entries: dict[str, Entry], state: Table) -> None:
    there = {record_id: entry for record_id, entry in entries.items() if not entry.erased}
    withdrawn = sorted(i for i, entry in there.items() if entry.last["status"] == WITHDRAWN and i not in said)
    standing = [there[i].last for i in sorted(there.keys() - set(withdrawn))]
    report.same(f"{where} state records", standing, state.get("records", []))
    report.same(f"{where} state withdrawn", withdrawn, sorted(state.get("withdrawn", [])))
    if len(withdrawn) > WITHDRAWN_RECORDS:
        report.add(Kind.DIFFERING, where, f"at most {WITHDRAWN_RECORDS} withdrawn", len(withdrawn))


def _compare_rulings(
    report: Report, where: str, pattern: Pattern, patterns: Patterns, state: Table, sealed: Table
) -> None:
    """Where nothing else is left they are sealed; what is too old of them is so until they are opened."""
    expected = [orjson.loads(ruling.to_json()) for ruling in pattern.ruled(ENDLESS)]
    name, found = join_key(pattern.tenant_id, pattern.text), state.get("rulings", [])
    closed = [one for one in sealed_rulings(name, sealed) if not patterns.too_old(pattern.tenant_id, one["at"])]
    report.same(where, expected, found or closed)
    holds = pattern.kept or any(one.get("stated") for one in found)
    if found and not holds and not any(state.get(name) for name in ("records", "withdrawn", "speak_at")):
        report.add(Kind.UNFOUNDED, where, "sealed: nothing else is left", found)
