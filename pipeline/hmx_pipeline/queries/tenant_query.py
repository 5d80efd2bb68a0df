"""Tenant query: what operators have set for a tenant, since when and by whom.

Enters: a tenant. Leaves: a `TenantSetting` for each setting, also for one that nobody has set. The log knows who and
when as long as its retention lasts; what is older is known from the state and from the marks of the retention. Raises
what reading Kafka raises.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from typing import Any, Final

import orjson

from hmx_pipeline.contracts.base import Model
from hmx_pipeline.contracts.evidence import TenantSettings
from hmx_pipeline.contracts.keys import tenant_partition
from hmx_pipeline.contracts.retention import RETENTION, Retention
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.intake.control_records import authentic
from hmx_pipeline.kafka.clients import Cluster, headers_of, read_partition
from hmx_pipeline.kafka.control_producer import TENANT_KEY
from hmx_pipeline.kafka.erasure_marks import erasure_marks
from hmx_pipeline.kafka.preflight import existing_topics
from hmx_pipeline.kafka.range_reader import BOUNDED
from hmx_pipeline.runtime.state_topics import state_records
from hmx_pipeline.settings import Settings
from hmx_pipeline.stages.pattern_keys import settings_key
from hmx_pipeline.topology import EVENTS, PATTERNS

UNSET: Final = {"sharing": "subjects", "trusted_agents": "", RETENTION: ""}
"""What holds where nothing was set."""


class TenantSetting(Model):
    setting: str
    value: str
    set_at: str = ""
    """Empty if nobody has set it, or the log no longer holds it."""
    set_by: str = ""


def tenant_settings(settings: Settings, tenant: str, on_progress: Callable[[str], None]) -> list[TenantSetting]:
    """Returns every setting; what was set last and no worker has read yet counts, too."""
    known = {**UNSET, **_held(settings, tenant, on_progress)}
    found = {name: TenantSetting(setting=name, value=value) for name, value in known.items()}
    on_progress("the log")
    for at_ms, event in _told(settings, tenant):
        by = str(event["metadata"].get("by", ""))
        for name, value in _values(event["content"]).items():
            found[name] = TenantSetting(setting=name, value=value, set_at=format_ms(at_ms), set_by=by)
    return list(found.values())


def _values(content: Mapping[str, Any]) -> dict[str, str]:
    """Returns what an event sets, as `hmx tenant set` takes it."""
    if RETENTION in content:
        given = Retention.model_validate(content[RETENTION])
        return {} if given.days is None else {RETENTION: str(given)}
    held = TenantSettings.model_validate(content)
    agents = {} if held.trusted_agents is None else {"trusted_agents": ",".join(held.trusted_agents)}
    return agents if held.sharing is None else {"sharing": held.sharing, **agents}


def _held(settings: Settings, tenant: str, on_progress: Callable[[str], None]) -> dict[str, str]:
    held, key = None, settings_key(tenant)
    for record in state_records(settings, PATTERNS, tenant, on_progress=on_progress):
        held = record.value if record.key == key else held
    values = _values(orjson.loads(held)) if held else {}
    for mark in erasure_marks(settings.require_kafka(), settings.topic_prefix):
        if mark.tenant_id == tenant and mark.erasure_id == RETENTION:
            values[RETENTION] = mark.policy
    return values


def _told(settings: Settings, tenant: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the append time and the event of each setting of the tenant in the log."""
    topic, control_key = settings.topic_prefix + EVENTS, settings.require_control_key()
    partition = tenant_partition(tenant, existing_topics(settings, EVENTS)[EVENTS])
    with closing(Cluster(settings.require_kafka())) as cluster:
        marks = cluster.watermarks(topic, partition)
        for message in read_partition(cluster.kafka, topic, partition, marks, **BOUNDED):
            value = message.value() or b""
            if message.key() == TENANT_KEY and authentic(control_key, value, headers_of(message)):
                event = orjson.loads(value)
                if event["content"].get("tenant_id") == tenant:
                    yield message.timestamp()[1], event
