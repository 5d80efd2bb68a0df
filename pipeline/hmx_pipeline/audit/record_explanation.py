"""Record explanation: one events record, its outcome, the cause and its outputs (`hmx verify --offset`).

Enters: the record, its partition's report, the stage's state, and the `Witness` that saw the outputs. Leaves: an
`Explanation`. Pure; never raises. The outcome itself comes from audit.partition_conservation.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson

from hmx_pipeline.audit.partition_conservation import PartitionState
from hmx_pipeline.audit.partition_report import PartitionReport, Place, Violation
from hmx_pipeline.contracts import headers as names
from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.headers import header, origin_of
from hmx_pipeline.contracts.keys import partition_of, session_key
from hmx_pipeline.contracts.outcomes import Outcome
from hmx_pipeline.contracts.rejections import PREFACE, mending
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.accepted import Accepted
from hmx_pipeline.intake.control_records import rerouted_from
from hmx_pipeline.intake.decode import decode
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.topology import EPISODES, EVENTS, EVENTS_DLQ

PENDING: Final = "pending"
MISSING: Final = "missing"
UNVERIFIED: Final = "unverified"
ABSENT: Final = "absent"
"""Outcomes of an explanation besides `Outcome`: not read yet; no outcome; deleted by retention; no such record."""
_SHOWN: Final = ("tenant_id", "session_id", "event_id", "event_type", "sequence", "timestamp")


class RecordEffects(NamedTuple):
    """An output that names the record as its origin."""

    topic: str
    partition: int
    offset: int
    kind: str


@dataclass
class Explanation:
    partition: int
    offset: int
    outcome: str
    said: str
    """The outcome in one sentence."""
    event: dict[str, Any] | None = None
    """Ids, type, sequence and timestamp of a valid event."""
    because: dict[str, Any] = field(default_factory=dict)
    """The facts that decided the outcome."""
    outputs: list[RecordEffects] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)

    @property
    def in_order(self) -> bool:
        return not self.violations and self.outcome not in (MISSING, ABSENT)

    def as_json(self) -> dict[str, Any]:
        outputs = [led._asdict() for led in self.outputs]
        return {**vars(self), "outputs": outputs, "violations": [violation._asdict() for violation in self.violations]}


class Witness:
    """Watches outputs: keeps those of the record, and the last event of its session released before it."""

    def __init__(self, place: Place, record: Record | None) -> None:
        self._place = place
        self.record = record
        found = decode(record.value) if record is not None else None
        self.accepted = found if isinstance(found, Accepted) else None
        event = self.accepted.event if self.accepted is not None else None
        self._session = session_key(event.tenant_id, event.session_id).encode() if event is not None else None
        self._sequence = event.sequence if event is not None else 0
        self.led: list[RecordEffects] = []
        self.release: dict[str, Any] = {}
        self.letter: dict[str, str] = {}
        self.before: dict[str, Any] | None = None
        """The last event released before this one that sorts after it."""

    def see(self, topic: str, rows: Iterable[Record]) -> None:
        for row in rows:
            if origin_of(row.headers) == self._place:
                self._keep(topic, row)
            elif topic == EPISODES and row.key == self._session and not self.release:
                self._compare(row)

    def astray(self, partitions: int) -> bool:
        """Returns whether the event is in another partition than its session's."""
        return self._session is not None and partition_of(self._session.decode(), partitions) != self._place[0]

    def _keep(self, topic: str, row: Record) -> None:
        kind = (header(row.headers, names.KIND) or b"").decode(errors="replace")
        self.led.append(RecordEffects(topic, row.partition, row.offset, kind))
        if topic == EPISODES:
            self.release = dict(_own(row).get("release", {}))
        elif topic == EVENTS_DLQ:
            asked = {"reason": names.REASON, "step": names.STEP, "path": names.PATH, "detail": names.DETAIL}
            found = {name: header(row.headers, of) or b"" for name, of in asked.items()}
            self.letter = {name: value.decode(errors="replace") for name, value in found.items()}

    def _compare(self, row: Record) -> None:
        own, origin = _own(row), origin_of(row.headers)
        late = own.get("release", {}).get("late", False)
        if origin is not None and not late and own.get("sequence", -1) >= self._sequence:
            self.before = {**_at(origin), "sequence": own["sequence"]}


def explain(place: Place, standing: PartitionState, report: PartitionReport, witness: Witness) -> Explanation:
    partition, offset = place
    outcome, said, because = _decided(offset, standing, report, witness)
    accepted = witness.accepted
    event = {name: accepted.fields.get(name) for name in _SHOWN} if accepted is not None else None
    first = rerouted_from(witness.record.headers) if witness.record is not None else None
    if first is not None:
        because["copy_of"] = _at(first)
    ours = {(EVENTS, *place), *(led[:3] for led in witness.led)}
    violations = [violation for violation in report.violations if violation[1:4] in ours]
    return Explanation(partition, offset, outcome, said, event, because, witness.led, violations)


def _decided(
    offset: int, standing: PartitionState, report: PartitionReport, witness: Witness
) -> tuple[str, str, dict[str, Any]]:
    """Returns outcome, sentence and causes."""
    if any(from_ <= offset < to for from_, to in standing.lost):
        return Outcome.LOST_TO_RETENTION, Outcome.LOST_TO_RETENTION.meaning, {}
    if witness.record is None:
        return _gone(offset, report, witness)
    if offset >= standing.position:
        return PENDING, f"not read yet: the sessions stage will read offset {standing.position} next", {}
    if not report.found:
        return _without(offset, report)
    found = report.found[0]
    match found.outcome:
        case Outcome.RELEASED:
            return Outcome.RELEASED, f"released in order, {_index(witness)} of its session", witness.release
        case Outcome.RELEASED_LATE:
            return Outcome.RELEASED_LATE, _late(witness), {**witness.release, "released_before": witness.before}
        case Outcome.DUPLICATE:
            assert found.by is not None, "its original"
            return Outcome.DUPLICATE, f"the same event as {_named(found.by)}", {"original": _at(found.by)}
        case Outcome.REJECTED:
            return Outcome.REJECTED, *_rejected(witness.letter)
        case Outcome.REROUTED:
            assert found.by is not None, "its copy"
            said = f"rerouted: its session belongs to partition {found.by[0]}. To see its outcome, explain the copy"
            return Outcome.REROUTED, f"{said}, {_named(found.by)}", {"copy": _at(found.by)}
        case Outcome.CONTROL:
            return Outcome.CONTROL, *_control(witness)
        case _:
            until, now = format_ms(standing.waiting[offset]), format_ms(standing.clock)
            said = f"waits for an earlier event, at most until log time {until}; log time is {now}"
            return Outcome.WAITING, said, {"until": until, "log_time": now}


def _gone(offset: int, report: PartitionReport, witness: Witness) -> tuple[str, str, dict[str, Any]]:
    if offset >= report.low:
        return ABSENT, "the record does not exist", {}
    if witness.release:
        late = witness.release.get("late", False)
        outcome = Outcome.RELEASED_LATE if late else Outcome.RELEASED
        return outcome, "released; retention has deleted the record since", witness.release
    if witness.letter:
        said, because = _rejected(witness.letter)
        return Outcome.REJECTED, f"{said}; retention has deleted the record since", because
    return UNVERIFIED, f"retention has deleted it: the partition begins at offset {report.low}", {}


def _without(offset: int, report: PartitionReport) -> tuple[str, str, dict[str, Any]]:
    for violation in report.violations:
        if violation.topic == EVENTS and violation[2:4] == (report.partition, offset):
            return MISSING, violation.detail, {}
    return UNVERIFIED, "no output found; retention may have deleted the output, or the original of a duplicate", {}


def _index(witness: Witness) -> str:
    return f"event {witness.release.get('index', 0) + 1:,}"


def _late(witness: Witness) -> str:
    if witness.before is None:
        return "released late: a later event of its session was released before it"
    sequence, place = witness.before["sequence"], (witness.before["partition"], witness.before["offset"])
    return f"released late: {_named(place)} with the later sequence {sequence:,} was released before it"


def _rejected(letter: dict[str, str]) -> tuple[str, dict[str, Any]]:
    said = letter["detail"].removeprefix(PREFACE)
    return f"rejected: {letter['reason']} at {letter['path']}: {said}", {**letter, "advice": mending(letter["reason"])}


def _control(witness: Witness) -> tuple[str, dict[str, Any]]:
    assert witness.accepted is not None, "control records are valid events"
    event = witness.accepted.fields
    because = {"type": event["event_type"], **event["content"]}
    return f"a control record of the pipeline: {', '.join(str(value) for value in because.values())}", because


def _own(row: Record) -> dict[str, Any]:
    """Returns the metadata that the pipeline wrote into an episode; empty if there is none."""
    try:
        own = orjson.loads(row.value or b"")["metadata"][RESERVED]
        return own if isinstance(own, dict) else {}
    except (ValueError, LookupError, TypeError):
        return {}


def _at(place: Place) -> dict[str, int]:
    return {"partition": place[0], "offset": place[1]}


def _named(place: Place) -> str:
    return f"{place[0]}:{place[1]}"
