"""Episodes, dead letters, evidence and rerouted copies against what the references say must be there.

Enters: what a reference made of a partition, and the partitions of the output topics. Leaves: faults.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.erasure import ErasureMark
from hmx_pipeline.contracts.evidence import Archive, EvidenceControl, TenantSettings
from hmx_pipeline.contracts.keys import join_key, tenant_partition
from hmx_pipeline.contracts.limits import RECORD_BYTES
from hmx_pipeline.contracts.rejections import Reason
from hmx_pipeline.intake.control_records import is_rerouted_copy, rerouted_from
from tests.verifier.erasures import Erased
from tests.verifier.faults import Item, Kind, Report, align, difference
from tests.verifier.log import Part, Row
from tests.verifier.rules import EPISODES, ERASURES, EVENTS, EVIDENCE, Rules
from tests.verifier.sessions import Barrier, Letter, Made, Passed

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
    theirs = {letter.row.offset: len(_kept(letter)) for letter in letters}
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


def _kept(letter: Letter) -> list[tuple[str, bytes | None]]:
    """Of what is erased nothing is kept, nor of what is too large."""
    row, rejection = letter
    return [] if rejection.reason is Reason.ERASED or _bytes(row) > RECORD_BYTES else row.headers


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
    size = 0 if rejection.reason is Reason.ERASED else _bytes(row)
    if rejection.reason is Reason.ERASED or size > RECORD_BYTES:
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
            own = [tenant_partition(said.tenant_id, targets)] if said.tenant_id else range(targets)
            for target in own:
                expected[target].append(_barrier(said, number, partitions))
        elif isinstance(said, Passed):
            expected[tenant_partition(said.tenant_id, targets)].append(_passed(said, number, partitions))
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
    asked, whose = said.partitions or partitions, said.tenant_id
    value = EvidenceControl(
        kind="barrier", barrier_id=said.barrier_id, partition=number, partitions=asked, tenant_id=whose
    ).to_json()
    return _item(said.origin, number, join_key("barrier", said.barrier_id, str(number)).encode(), value, b"barrier")


_FIELDS: Final = {"archive": "archived", "import": "imported", "ruling": "ruled", "tenant": "settings"}
"""Kind of control record → the field that holds what was decided."""


def _passed(said: Passed, number: int, partitions: int) -> Item:
    if said.kind == "erasure":
        mark = ErasureMark.model_validate(said.content.told())
        value = EvidenceControl(kind=said.kind, partition=number, partitions=partitions, erased=mark).to_json()
        return _item(said.origin, number, _mark_key(said.content), value, b"erasure")
    content: Any = said.content
    if said.kind == "archive":
        content = Archive(**{name: str(content.get(name, "")) for name in Archive.model_fields})
    elif said.kind == "tenant":
        content = TenantSettings(**content)
    value = EvidenceControl(kind=said.kind, partition=number, **{_FIELDS[said.kind]: content}).to_json()
    return _item(said.origin, number, join_key(said.tenant_id, said.pattern).encode(), value, said.kind.encode())


def _mark_key(erased: Erased) -> bytes:
    return join_key(erased.tenant_id, erased.erasure_id, str(erased.partition)).encode()


def compare_erasures(report: Report, number: int, made: Made, part: Part) -> None:
    """What readers are told to forget: a mark for each erasure that has passed, and for each day of a retention."""
    expected = []
    for origin, erased in made.erased:
        value = ErasureMark.model_validate(erased.told()).to_json()
        expected.append(Item((number, origin), Says(_mark_key(erased), value, (JSON,)), f"of {origin}"))
    found = [_item_of(row, Says(row.key, row.value, (row.header("content-type"),))) for row in part.rows]
    align(report, f"{ERASURES}/{number}", expected, found, _differ)
    report.compared["marks of erasures"] += len(found)


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
