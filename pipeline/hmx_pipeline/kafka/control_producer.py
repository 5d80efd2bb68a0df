"""Control records: appends the pipeline's own records to the events log, signed with the control key.

Enters: values with their partitions. Leaves: an error message for records that Kafka did not acknowledge, empty if all
are in the log. Raises SettingsError without a control key.
"""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError

from hmx_pipeline.contracts.erasure import Erasure
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import AUTHENTICATION
from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.intake.control_records import erase, importing, ruling, setting, signature
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import delivering, produce
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.publisher import named
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

DELIVERY_MS: Final = 15_000
"""Minimum timeout, because a sent record may still arrive and the result should be known."""


class NotInLogError(Exception):
    """The log lacks a decision, or has it in some partitions only; the message says why."""


def into_log(lacking: str) -> None:
    """Takes an append's error message. Raises NotInLogError unless everything is in the log."""
    if lacking:
        raise NotInLogError(lacking)


def append_imports(settings: Settings, given: Sequence[Import]) -> str:
    """Appends imports to the tenant's events partition. Raises as kafka.preflight does."""
    partitions, now_ms = existing_topics(settings, EVENTS)[EVENTS], int(time.time() * 1000)
    places = [(tenant_partition(one.tenant_id, partitions), one) for one in given]
    return append_control(settings, "import", [(place, importing(one, place, now_ms)) for place, one in places])


def append_ruling(settings: Settings, ruled: Ruling) -> str:
    """Appends an operator's ruling to the tenant's events partition. Raises as kafka.preflight does."""
    partition = tenant_partition(ruled.tenant_id, existing_topics(settings, EVENTS)[EVENTS])
    return append_control(settings, "ruling", [(partition, ruling(ruled, partition))])


def append_erasure(settings: Settings, erasure: Erasure) -> str:
    """Appends an erasure to every events partition. Raises as kafka.preflight does."""
    places = range(existing_topics(settings, EVENTS)[EVENTS])
    return append_control(settings, "erase", [(place, erase(erasure, place)) for place in places])


def append_settings(settings: Settings, given: TenantSettings) -> str:
    """Appends a tenant's settings to its events partition. Raises as kafka.preflight does."""
    partition = tenant_partition(given.tenant_id, existing_topics(settings, EVENTS)[EVENTS])
    return append_control(settings, "tenant", [(partition, setting(given, partition, int(time.time() * 1000)))])


def append_control(settings: Settings, kind: str, values: Sequence[tuple[int, bytes]]) -> str:
    """Appends control records; `kind` is their key and appears in the error message."""
    key, topic = settings.require_control_key(), settings.topic_prefix + EVENTS
    failures: list[KafkaError] = []
    soon = {"linger.ms": 0, "delivery.timeout.ms": DELIVERY_MS}
    with delivering(settings.require_kafka(), failures.append, **soon) as producer:
        for partition, value in values:
            headers = [*named(value)[1], (AUTHENTICATION, signature(key, value))]
            produce(producer, topic, value, kind.encode(), headers, partition)
    if not failures:
        return ""
    why = denied(failures[0]) or failures[0].str()
    return f"{len(failures)} of {len(values)} {kind} records could not be appended to {topic} ({why})"
