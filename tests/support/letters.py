"""Dead letters that no worker had to reject."""

from hmx_pipeline.contracts.headers import Headers
from hmx_pipeline.contracts.rejections import Reason, Rejection
from hmx_pipeline.kafka.clients import plain_producer
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.dead_letters import dead_letter
from hmx_pipeline.stages.fold import Record
from hmx_pipeline.topology import EVENTS, EVENTS_DLQ


def rejected(settings: Settings, value: bytes, reason: Reason, headers: Headers = ()) -> str:
    """Appends the dead letter of such a record, as the worker writes it; returns its partition/offset."""
    made = dead_letter(EVENTS, EVENTS_DLQ, Record(0, 0, 1, b"k", value, headers), Rejection(reason))
    places: list[str] = []
    producer = plain_producer(settings.require_kafka())
    producer.produce(
        settings.topic_prefix + EVENTS_DLQ, made.value, made.key, made.partition, headers=list(made.headers),
        on_delivery=lambda _, told: places.append(f"{told.partition()}/{told.offset()}"),
    )  # fmt: skip
    producer.flush()
    return places[0]
