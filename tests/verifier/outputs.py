"""Episodes, dead letters, evidence and rerouted copies against what the references say must be there.

Enters: what a reference made of a partition, and the partitions of the output topics. Leaves: faults.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.evidence import Archive, EvidenceControl, TenantSettings
from hmx_pipeline.contracts.keys import join_key, tenant_partition
from hmx_pipeline.contracts.limits import RECORD_BYTES
from hmx_pipeline.intake.control_records import is_rerouted_copy, rerouted_from
from tests.verifier.faults import Item, Kind, Report, align, difference
from tests.verifier.log import Part, Row
from tests.verifier.rules import EPISODES, EVENTS, EVIDENCE, Rules
from tests.verifier.sessions import Barrier, Decision, Gift, Letter, Made, Setting

JSON: Final = b"application/json"


class Says(NamedTuple):
    """An output as far as it is compared; of headers those that the pipeline promises."""

    key: bytes | None
    value: bytes | None
    headers: tuple[Any, ...]


def compare_episodes(report: Report, number: int, made: Made, part: Part) -> None:
    expected = [
        Item((number, e.origin), Says(e.key.encode(), e.value, (JSON,)), f"of {number}:{e.origin}")
        for e in made.episodes
    ]
    found = [_item_of(row, Says(row.key, row.value, (row.header("content-type"),))) for row in part.rows]
    align(report, f"{EPISODES}/{number}", expected, found, _differ)
    report.compared["episodes"] += len(found)


def _item_of(row: Row, says: Says) -> Item:
    """By the origin that it names."""
    place = row.number("hmx-origin-partition"), row.number("hmx-origin-offset")
    return Item(place, says, f"offset {row.offset} of {place[0]}:{place[1]}")


def _differ(expected: Says, found: Says) -> tuple[str, str] | None:
    if expected == found:
        return None
    if expected.value is not None and found.value is not None and expected.value != found.value:
        return difference(expected.value, found.value)
    return (
        f"key {expected.key!r}, headers {expected.headers}, {_size(expected)}",
        f"key {found.key!r}, headers {found.headers}, {_size(found)}",
    )


def _size(says: Says) -> str:
    return "no value" if says.value is None else f"a value of {len(says.value)} bytes"


def compare_letters(
    report: Report, source: str, topic: str, number: int, letters: Sequence[Letter], part: Part
) -> None:
    """Key, value and headers as they came, then why and where from."""
    expected = [
        Item((number, letter.row.offset), _letter(source, number, letter), f"of {number}:{letter.row.offset}")
        for letter in letters
    ]
    theirs = {letter.row.offset: len(_kept(letter.row)) for letter in letters}
    found = []
    for row in part.rows:
        origin = row.number("hmx-origin-offset")
        promised = (*row.headers[: theirs.get(origin, 0)], *sorted((n, row.header(n)) for n in _OURS if row.header(n)))
        found.append(_item_of(row, Says(row.key, row.value, promised)))
    align(report, f"{topic}/{number}", expected, found, _differ)
    report.compared["dead letters"] += len(found)


_OURS: Final = (
    "hmx-reason", "hmx-step", "hmx-path", "hmx-origin-topic", "hmx-origin-partition", "hmx-origin-offset",
    "hmx-log-time", "hmx-omitted",
)  # fmt: skip


def _kept(row: Row) -> list[tuple[str, bytes | None]]:
    return [] if _bytes(row) > RECORD_BYTES else row.headers


def _bytes(row: Row) -> int:
    return len(row.key or b"") + len(row.value or b"") + sum(len(n.encode()) + len(v or b"") for n, v in row.headers)


def _letter(source: str, number: int, letter: Letter) -> Says:
    row, rejection = letter
    ours = {
        "hmx-reason": str(rejection.reason).encode(),
        "hmx-step": str(rejection.reason.step).encode(),
        "hmx-path": rejection.path.encode(),
        "hmx-origin-topic": source.encode(),
        "hmx-origin-partition": b"%d" % number,
        "hmx-origin-offset": b"%d" % row.offset,
        "hmx-log-time": b"%d" % row.at,
    }
    size = _bytes(row)
    if size > RECORD_BYTES:
        return Says(None, None, tuple(sorted({**ours, "hmx-omitted": b"%d" % size}.items())))
    # A producer's own header of one of these names is read as ours where we write none.
    sent = {name: row.header(name) for name in _OURS if name not in ours and row.header(name)}
    return Says(row.key, row.value, (*row.headers, *sorted({**sent, **ours}.items())))


By = dict[tuple[int, int], list[Row]]


def by_origin(report: Report, parts: Sequence[Part], partitions: int) -> By:
    """Evidence by its partition and the partition of the events topic that it comes from; ticks name none."""
    rows: By = defaultdict(list)
    for target, part in enumerate(parts):
        for row in part.rows:
            number = row.number("hmx-origin-partition")
            if row.header("hmx-kind") == b"tick":
                continue
            if 0 <= number < partitions:
                rows[target, number].append(row)
            else:
                report.add(Kind.UNFOUNDED, f"{EVIDENCE}/{target} offset {row.offset}", "an origin", row.key)
    return rows


def compare_evidence(report: Report, number: int, made: Made, rows: By, targets: int, partitions: int) -> None:
    """What came of partition `number` of the events topic, in each partition of the evidence topic, in order."""
    expected: dict[int, list[Item]] = defaultdict(list)
    for said in made.evidence:
        if isinstance(said, Barrier):
            for target in range(targets):
                expected[target].append(_barrier(said, number, partitions))
        elif isinstance(said, Decision):
            expected[tenant_partition(said.archived["tenant_id"], targets)].append(_decision(said, number))
        elif isinstance(said, Gift):
            expected[tenant_partition(str(said.imported.get("tenant_id", "")), targets)].append(_gift(said, number))
        elif isinstance(said, Setting):
            expected[tenant_partition(said.settings["tenant_id"], targets)].append(_setting(said, number))
        else:
            item = _item(said.origin, number, said.key.encode(), said.value, b"contribution")
            expected[tenant_partition(said.tenant_id, targets)].append(item)
    for target in range(targets):
        found = [
            _item(row.number("hmx-origin-offset"), number, row.key, row.value, row.header("hmx-kind"), row)
            for row in rows[target, number]
        ]
        align(report, f"{EVIDENCE}/{target}", expected[target], found, _differ)
        report.compared["evidence"] += len(found)


def _barrier(said: Barrier, number: int, partitions: int) -> Item:
    value = EvidenceControl(
        kind="barrier", barrier_id=said.barrier_id, partition=number, partitions=partitions
    ).to_json()
    return _item(said.origin, number, join_key("barrier", said.barrier_id, str(number)).encode(), value, b"barrier")


def _decision(said: Decision, number: int) -> Item:
    archived = Archive(**said.archived)
    value = EvidenceControl(kind="archive", partition=number, archived=archived).to_json()
    key = join_key(archived.tenant_id, archived.pattern).encode()
    return _item(said.origin, number, key, value, b"archive")


def _gift(said: Gift, number: int) -> Item:
    value = EvidenceControl(kind="import", partition=number, imported=said.imported).to_json()
    key = join_key(str(said.imported.get("tenant_id", "")), str(said.imported.get("pattern", ""))).encode()
    return _item(said.origin, number, key, value, b"import")


def _setting(said: Setting, number: int) -> Item:
    settings = TenantSettings(**said.settings)
    value = EvidenceControl(kind="tenant", partition=number, settings=settings).to_json()
    return _item(said.origin, number, join_key(settings.tenant_id, "").encode(), value, b"tenant")


def _item(
    origin: int, number: int, key: bytes | None, value: bytes | None, kind: bytes | None, row: Row | None = None
) -> Item:
    name = f"{(key or b'').decode(errors='replace')} of {number}:{origin}"
    if row is not None:
        return Item((origin, key), Says(key, value, (row.header("content-type"), kind)), f"offset {row.offset}, {name}")
    return Item((origin, key), Says(key, value, (JSON, kind)), name)


def compare_copies(report: Report, mades: Sequence[Made], parts: Sequence[Part], rules: Rules) -> None:
    """What stood astray stands once more, the same to the byte, where it belongs; after a crash perhaps twice."""
    originals = {(number, row.offset): row for number, part in enumerate(parts) for row in part.rows}
    wanted = {(number, offset): home for number, made in enumerate(mades) for offset, home in made.copies.items()}
    seen = set()
    for number, part in enumerate(parts):
        for row in part.rows:
            headers: Any = row.headers
            place = rerouted_from(headers)
            if place is None or not is_rerouted_copy(rules.control_key, row.value or b"", headers):
                continue
            where, origin = (
                f"{EVENTS}/{number} offset {row.offset}, a copy of {place[0]}:{place[1]}",
                originals.get(place),
            )
            if origin is None or wanted.get(place) != number:
                report.add(Kind.UNFOUNDED, where, "an original that belongs here", "none")
            elif origin.value != row.value or row.headers[: len(origin.headers)] != origin.headers:
                report.add(Kind.DIFFERING, where, origin.value, row.value)
            seen.add(place)
    for place in sorted(wanted.keys() - seen):
        report.add(Kind.LOST, f"{EVENTS}/{wanted[place]} copy of {place[0]}:{place[1]}", "one", "none")
    report.compared["copies"] += len(wanted)
