"""Control records: appends the pipeline's own records to the events log, signed with the control key.

Enters: values with their partitions. Raises SettingsError without a control key, KafkaRefusedError for records that
Kafka did not acknowledge, and what kafka.preflight raises.
"""

import time
from collections.abc import Sequence
from typing import Final

from confluent_kafka import KafkaError

from hmx_pipeline.contracts.erasure import Erasure
from hmx_pipeline.contracts.evidence import Archive, TenantSettings
from hmx_pipeline.contracts.fingerprint import Import
from hmx_pipeline.contracts.headers import AUTHENTICATION
from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.retention import Retention
from hmx_pipeline.contracts.ruling import Ruling
from hmx_pipeline.intake.control_records import archive, erase, importing, retaining, ruling, setting, signature
from hmx_pipeline.kafka.client_login import denied
from hmx_pipeline.kafka.clients import delivering, produce
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.publisher import named
from hmx_pipeline.kafka.topic_files import KafkaRefusedError
from hmx_pipeline.settings import Settings
from hmx_pipeline.topology import EVENTS

TENANT_KEY: Final = b"tenant"
"""The key under which a tenant's settings stand in the log."""
DELIVERY_MS: Final = 15_000
"""Timeout of a delivery. A shorter one would leave it open whether a sent record arrives."""


def append_archive(settings: Settings, decided: Archive) -> None:
    """Appends the decision to archive an artifact to the tenant's events partition."""
    partition = _partition_of(settings, decided.tenant_id)
    append_control(settings, "archive", [(partition, archive(decided, partition, _now_ms()))])


def append_imports(settings: Settings, given: Sequence[Import]) -> None:
    partitions, now_ms = existing_topics(settings, EVENTS)[EVENTS], _now_ms()
    places = [(tenant_partition(one.tenant_id, partitions), one) for one in given]
    append_control(settings, "import", [(place, importing(one, place, now_ms)) for place, one in places])


def append_ruling(settings: Settings, ruled: Ruling) -> None:
    """Appends an operator's ruling to the tenant's events partition."""
    partition = _partition_of(settings, ruled.tenant_id)
    append_control(settings, "ruling", [(partition, ruling(ruled, partition))])


def append_settings(settings: Settings, given: TenantSettings, by: str = "") -> None:
    partition = _partition_of(settings, given.tenant_id)
    append_control(settings, TENANT_KEY.decode(), [(partition, setting(given, partition, _now_ms(), by))])


def append_retention(settings: Settings, given: Retention, by: str = "") -> None:
    """Appends a tenant's retention to every events partition."""
    places, now_ms = range(existing_topics(settings, EVENTS)[EVENTS]), _now_ms()
    values = [(place, retaining(given, place, now_ms, by)) for place in places]
    append_control(settings, TENANT_KEY.decode(), values)


def append_erasure(settings: Settings, erasure: Erasure) -> None:
    """Appends an erasure to every events partition."""
    places = range(existing_topics(settings, EVENTS)[EVENTS])
    append_control(settings, "erase", [(place, erase(erasure, place)) for place in places])


def append_control(settings: Settings, kind: str, values: Sequence[tuple[int, bytes]]) -> None:
    """Appends control records; `kind` is their key and appears in the error message."""
    key, topic = settings.require_control_key(), settings.topic_prefix + EVENTS
    failures: list[KafkaError] = []
    soon = {"linger.ms": 0, "delivery.timeout.ms": DELIVERY_MS}
    with delivering(settings.require_kafka(), failures.append, **soon) as producer:
        for partition, value in values:
            headers = [*named(value)[1], (AUTHENTICATION, signature(key, value))]
            produce(producer, topic, value, kind.encode(), headers, partition)
    if failures:
        why = denied(failures[0]) or failures[0].str()
        raise KafkaRefusedError(
            f"{len(failures)} of {len(values)} {kind} records could not be appended to {topic} ({why})"
        )


def _partition_of(settings: Settings, tenant: str) -> int:
    return tenant_partition(tenant, existing_topics(settings, EVENTS)[EVENTS])


def _now_ms() -> int:
    return int(time.time() * 1000)
