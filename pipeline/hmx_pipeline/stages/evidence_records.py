"""Records of the evidence topic, parsed and validated: contributions, control records, imports and rulings.

Enters: a `Record`. Leaves: its value, or why it is rejected. Raises NewerRecordError for what a newer release wrote.
"""

from pydantic import ValidationError

from hmx_pipeline.compiler.registry import KINDS, is_knowledge
from hmx_pipeline.contracts.artifact import is_type
from hmx_pipeline.contracts.evidence import Contribution, EvidenceControl, read_contribution
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import CONTROL_KINDS, KIND, header
from hmx_pipeline.contracts.keys import split_key
from hmx_pipeline.contracts.rejections import UNREADABLE, NewerRecordError, Reason, Rejection
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.stages.fold import Record, check_release


def read_evidence(record: Record) -> Contribution | EvidenceControl | Import | Ruling | Rejection:
    if record.value is None:
        return Rejection(Reason.NULL_VALUE)
    if record.value is UNREADABLE:
        return Rejection(Reason.UNREADABLE_BATCH)
    kind = header(record.headers, KIND)
    try:
        if kind in CONTROL_KINDS:
            return _read_control(record.value)
        contribution = read_contribution(record.value)
    except ValidationError as error:
        if kind not in (None, b"contribution", *CONTROL_KINDS):
            raise NewerRecordError(f"this release knows no evidence of kind {kind!r}") from error
        check_release(error)
        return Rejection(Reason.WRONG_TYPE)
    if contribution.pattern_type not in KINDS:
        return Rejection(Reason.WRONG_TYPE, "$.pattern_type")
    return contribution


def _read_control(value: bytes) -> EvidenceControl | Import | Ruling | Rejection:
    """Parse a control record. Raises ValidationError."""
    control = EvidenceControl.model_validate_json(value)
    if control.imported is not None:
        return Import.model_validate(control.imported)
    if control.ruled is not None:
        ruling = Ruling.model_validate(control.ruled)
        parts = split_key(ruling.pattern)
        return ruling if len(parts) == 2 and is_knowledge(parts[0]) else Rejection(Reason.WRONG_TYPE, "$.ruled.pattern")
    decidable = control.archived is None or is_type(control.archived.pattern_type)
    return control if decidable else Rejection(Reason.WRONG_TYPE, "$.archived.pattern")
