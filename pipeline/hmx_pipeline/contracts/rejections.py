"""Rejection reasons: code, processing step, and advice for the producer."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hmx_pipeline.contracts.limits import ID_BYTES, MB, UNPACKED_BYTES, WORK_STEPS


class IntakeStep(StrEnum):
    DECODE = "decode"
    VALIDATE = "validate"
    ROUTE = "route"
    ORDER = "order"
    FOLD = "fold"


class Reason(StrEnum):
    """A stable code with its `step` and `advice`."""

    step: IntakeStep
    advice: str

    def __new__(cls, code: str, step: IntakeStep, advice: str) -> "Reason":
        member = str.__new__(cls, code)
        member._value_ = code
        member.step = step
        member.advice = advice
        return member

    NULL_VALUE = "null_value", IntakeStep.DECODE, "send the event as the record's value"
    TOO_LARGE = "too_large", IntakeStep.DECODE, "an event has at most 1 MB (HMX-E §11)"
    UNREADABLE_BATCH = (
        "unreadable_batch",
        IntakeStep.DECODE,
        f"a compressed record batch has at most {UNPACKED_BYTES // MB} MB once it is unpacked",
    )
    NOT_UTF8 = "not_utf8", IntakeStep.DECODE, "encode the JSON text as UTF-8"
    NOT_JSON = "not_json", IntakeStep.DECODE, "send one JSON object per record"
    NOT_A_NUMBER = "not_a_number", IntakeStep.DECODE, "JSON has no NaN and no Infinity"
    LONE_SURROGATE = "lone_surrogate", IntakeStep.DECODE, "escape a character beyond U+FFFF as a pair of surrogates"
    BYTE_ORDER_MARK = "byte_order_mark", IntakeStep.DECODE, "send the JSON text without a byte order mark"
    NUMBER_OUT_OF_RANGE = "number_out_of_range", IntakeStep.DECODE, "integers fit in 64 bits, other numbers in a double"
    DUPLICATE_KEY = "duplicate_key", IntakeStep.DECODE, "name each member of an object once"
    NOT_AN_OBJECT = "not_an_object", IntakeStep.DECODE, "send one JSON object per record"
    TOO_DEEP = "too_deep", IntakeStep.DECODE, "nest less deeply"
    MISSING_FIELD = "missing_field", IntakeStep.VALIDATE, "send all ten required fields (HMX-E §2.1)"
    WRONG_TYPE = "wrong_type", IntakeStep.VALIDATE, "give the field the type of HMX-E §5"
    EMPTY_FIELD = "empty_field", IntakeStep.VALIDATE, "ids and types are non-empty strings (HMX-E §5)"
    ID_TOO_LONG = (
        "id_too_long",
        IntakeStep.VALIDATE,
        f"an id and a type have at most {ID_BYTES} bytes of UTF-8; shorten it",
    )
    UNKNOWN_FIELD = (
        "unknown_field",
        IntakeStep.VALIDATE,
        "move it into metadata: HMX-1.0 has no other top-level fields (HMX-E §5)",
    )
    BAD_VERSION = "bad_version", IntakeStep.VALIDATE, "hmx_version has the form HMX-1.0 (HMX-E §6.1)"
    UNSUPPORTED_VERSION = "unsupported_version", IntakeStep.VALIDATE, "supported: HMX-1.x"
    BAD_TIMESTAMP = "bad_timestamp", IntakeStep.VALIDATE, "RFC 3339 with a time zone (HMX-E §6.3)"
    BAD_SEQUENCE = "bad_sequence", IntakeStep.VALIDATE, "a non-negative integer below 2^64 (HMX-E §6.4)"
    BAD_SALIENCE = "bad_salience", IntakeStep.VALIDATE, "a number from 0 to 1 (HMX-E §6.5)"
    BAD_EMBEDDINGS = "bad_embeddings", IntakeStep.VALIDATE, "1 to 4,096 finite numbers (HMX-E §6.6, §11)"
    BAD_TAGS = "bad_tags", IntakeStep.VALIDATE, "at most 64 strings (HMX-E §6.9, §11)"
    BAD_TTL = "bad_ttl", IntakeStep.VALIDATE, "a non-negative integer (HMX-E §6.10)"
    CONTENT_TOO_LARGE = "content_too_large", IntakeStep.VALIDATE, "content has at most 512 KB (HMX-E §11)"
    METADATA_TOO_LARGE = "metadata_too_large", IntakeStep.VALIDATE, "metadata has at most 64 KB (HMX-E §11)"
    TOO_COSTLY = (
        "too_costly",
        IntakeStep.VALIDATE,
        f"looking for its secrets takes more than {WORK_STEPS:,} steps: send fewer values and secrets in one event",
    )
    RESERVED = "reserved", IntakeStep.VALIDATE, "tenant _hmx and types x-hmx-* are the pipeline's own"
    WRONG_PARTITION = "wrong_partition", IntakeStep.ROUTE, "key the record `tenant/session`, percent-encoded, murmur2"
    FORGED_ORIGIN = (
        "forged_origin",
        IntakeStep.ROUTE,
        "leave out headers that begin with hmx-: they are the pipeline's own",
    )
    EVENT_ID_REUSED = (
        "event_id_reused",
        IntakeStep.ORDER,
        "an event_id names one event; this one came with other content",
    )
    ERASED = (
        "erased",
        IntakeStep.ORDER,
        "an operator has erased what was said until then; the dead letter has no bytes",
    )
    POISON = "poison", IntakeStep.FOLD, "a defect of the pipeline: report it with the dead letter's headers"
    OUTPUT_REFUSED = (
        "output_refused",
        IntakeStep.FOLD,
        "what comes of it is larger than Kafka takes: compare the topics with `hmx topics plan`, then send it again",
    )
    DEADLY = (
        "deadly",
        IntakeStep.FOLD,
        "each worker that folded it alone died: report it with the dead letter's headers",
    )


_MENDING: Final = {
    Reason.UNSUPPORTED_VERSION: "set hmx_version to HMX-1.0, or run a release that knows this version",
    Reason.RESERVED: "choose another tenant_id and event_type",
    Reason.EVENT_ID_REUSED: "give it a new event_id",
}


def mending(code: str) -> str:
    """Returns what to do about a rejection; empty for a reason that is not known. Of some reasons the advice, which is
    part of a dead letter's bytes, only says what is wrong."""
    reason = next((reason for reason in Reason if reason == code), None)
    return "" if reason is None else _MENDING.get(reason, reason.advice)


UNREADABLE: Final = bytes(bytearray(b"unreadable"))
"""Replaces the value of a record in a batch that cannot be decompressed. It is compared by identity, so no producer can
send it."""

PREFACE: Final = "Value error, "
"""What the validator puts before a sentence of ours. Dead letters keep it; people are shown the sentence."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a record was rejected: reason, JSON path of the cause (`$` for the whole), and a sentence without values."""

    reason: Reason
    path: str = "$"
    detail: str = ""

    @property
    def said(self) -> str:
        return self.detail.removeprefix(PREFACE) or self.reason.advice


class NewerRecordError(Exception):
    """A newer release has written a record of the pipeline's own: an older one neither obeys nor rejects it."""
