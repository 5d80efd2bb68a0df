"""The patterns stage: contributions of `hmx.evidence.v1` in; artifacts and dead letters out.

Per (tenant, pattern) a map of contributions, last writer wins; an artifact is a pure function of the map. A change is
compiled after a pause (more of the same is usually on its way), the longer the larger the map, and whenever a barrier
passes.
"""

from typing import Any

from pydantic import ValidationError

from pipeline.compiler.candidate import candidate
from pipeline.compiler.lifecycle import Said, step
from pipeline.compiler.registry import ARTIFACT_TYPES
from pipeline.contracts.artifact import Artifact
from pipeline.contracts.evidence import Contribution, EvidenceControl, Pattern
from pipeline.contracts.headers import (
    ARTIFACT,
    CONTROL_KINDS,
    KIND,
    fingerprint,
    header,
    output_headers,
    trace_headers,
    traceparent,
)
from pipeline.contracts.keys import join_key, split_key
from pipeline.contracts.limits import ARTIFACT_VERSIONS, BARRIER_KEPT_MS
from pipeline.contracts.rejections import Reason, Rejection
from pipeline.stages.dead_letters import dead_letter
from pipeline.stages.fold import Output, Record, Tx, attempt
from pipeline.stages.pattern_state import (
    BarrierState,
    Maps,
    PatternState,
    barrier_state_key,
    decode_state,
    encode_state,
    map_key,
    pattern_key,
    pattern_of,
    state_deadline,
)
from pipeline.topology import ARTIFACTS, EVIDENCE, EVIDENCE_DLQ


class PatternsFold:
    """One partition of the evidence topic."""

    at_rest = ""

    def __init__(self) -> None:
        self._maps = Maps()

    def decode(self, key: str, value: bytes) -> Any:
        return decode_state(key, value)

    def encode(self, key: str, value: Any) -> bytes:
        return encode_state(value)

    def deadline(self, key: str, value: Any) -> int | None:
        return state_deadline(value)

    def changed(self, key: str, old: Any, new: Any) -> None:
        self._maps.changed(key, old, new)

    def reject(self, tx: Tx, record: Record, rejection: Rejection) -> None:
        tx.emit(dead_letter(EVIDENCE, EVIDENCE_DLQ, record, rejection))
        tx.count(f"rejected.{rejection.reason}")

    def fold(self, tx: Tx, record: Record) -> None:
        match _read(record):
            case Rejection() as rejection:
                self.reject(tx, record, rejection)
            case EvidenceControl() as control:
                self._control(tx, control)
            case Contribution() as contribution:
                self._take(tx, contribution, (traceparent(record.headers) or b"").decode())

    def due(self, tx: Tx, key: str, value: Any) -> None:
        if isinstance(value, BarrierState):
            tx.put(key, None)
            tx.count("barrier_forgotten" if value.passed else "barrier_lost")
        else:
            self._speak(tx, key, value)

    def _take(self, tx: Tx, contribution: Contribution, trace: str) -> None:
        key, pattern = map_key(contribution), pattern_key(contribution)
        tx.count("withdrawn" if contribution.withdrawn else "contributed")
        surplus = self._maps.surplus(key, contribution)
        if surplus is not None:
            tx.count(surplus.bound)
            tx.put(surplus.key, None)
            if surplus.key == key:
                return
            self._speak_later(tx, pattern_of(surplus.key), trace)
        tx.put(key, contribution)
        self._speak_later(tx, pattern, trace)

    def _speak_later(self, tx: Tx, pattern: str, trace: str) -> None:
        state: PatternState = tx.get(pattern) or PatternState()
        if state.speak_at is None:
            speak_at = tx.clock + self._maps.pause_ms(pattern)
            tx.put(pattern, state.model_copy(update={"speak_at": speak_at, "trace": trace}))
        elif trace and trace != state.trace:
            tx.put(pattern, state.model_copy(update={"trace": trace}))

    def _speak(self, tx: Tx, key: str, state: PatternState) -> None:
        """Emits the difference between what the map now says and what the pattern last said."""
        tenant_id, pattern_text = split_key(key.removeprefix("p/"))
        pattern = Pattern(*split_key(pattern_text))
        unchanged: tuple[Said | None, list[Artifact]] = (state.said, [])

        def compiled() -> tuple[Said | None, list[Artifact]]:
            found = candidate(list(self._maps.of(key).values()))
            return step(state.said, found, tenant_id, pattern, tx.clock)

        said, artifacts = attempt(tx, "pattern_not_compiled", unchanged, compiled)
        for artifact in artifacts:
            self._publish(tx, tenant_id, artifact.artifact_id, artifact.to_json(), state.trace)
            tx.count(f"artifact_{artifact.status}")
        older = list(state.older)
        if state.said is not None and said is not None and state.said.artifact.artifact_id != said.artifact.artifact_id:
            older.append(state.said.artifact.artifact_id)
        if said is not None and self._maps.of(key):
            self._erase(tx, tenant_id, older[:-ARTIFACT_VERSIONS], state.trace)
            tx.put(key, PatternState(said=said, older=older[-ARTIFACT_VERSIONS:]))
            return
        tx.put(key, None)
        if said is not None:
            self._erase(tx, tenant_id, [*older, said.artifact.artifact_id], state.trace)
            tx.count("pattern_forgotten")

    def _erase(self, tx: Tx, tenant_id: str, artifact_ids: list[str], trace: str) -> None:
        for artifact_id in artifact_ids:
            self._publish(tx, tenant_id, artifact_id, None, trace)
            tx.count("artifact_erased")

    def _publish(self, tx: Tx, tenant_id: str, artifact_id: str, value: bytes | None, trace: str) -> None:
        key = join_key(tenant_id, artifact_id).encode()
        headers = output_headers(ARTIFACT, EVIDENCE, tx.partition, tx.offset, fingerprint(key, value or b""))
        tx.emit(Output(ARTIFACTS, tx.partition, key, value, [*headers, *trace_headers(trace.encode())]))

    def _control(self, tx: Tx, control: EvidenceControl) -> None:
        tx.count("control")
        if control.kind != "barrier":
            return
        key = barrier_state_key(control.barrier_id)
        state: BarrierState | None = tx.get(key)
        seen = {*(state.seen if state is not None else ()), control.partition}
        passed = len(seen) == control.partitions
        if passed and (state is None or not state.passed):
            for pattern in sorted(self._maps.pending):
                self._speak(tx, pattern, tx.get(pattern))
        tx.put(
            key,
            BarrierState(
                seen=tuple(sorted(seen)),
                partitions=control.partitions,
                passed=passed,
                forget_at=tx.clock + BARRIER_KEPT_MS,
            ),
        )


def _read(record: Record) -> Contribution | EvidenceControl | Rejection:
    if record.value is None:
        return Rejection(Reason.NULL_VALUE)
    try:
        if header(record.headers, KIND) in CONTROL_KINDS:
            return EvidenceControl.model_validate_json(record.value)
        contribution = Contribution.model_validate_json(record.value)
    except ValidationError:
        return Rejection(Reason.WRONG_TYPE)
    if contribution.pattern_type not in ARTIFACT_TYPES:
        return Rejection(Reason.WRONG_TYPE, "$.pattern_type")
    return contribution
