"""Records that were lost or altered in Redis, read once more from their topics.

Enters: which records, and how far each partition stands in Redis. Leaves: the commands that restore them, idempotent as
all projections are. Fails as reading Kafka does. A topic is read from its start: this is rare, and takes seconds for
a million records.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import orjson

from pipeline.contracts.episode import RESERVED
from pipeline.contracts.keys import encoded, split_key
from pipeline.retrieval.postings import document_number
from pipeline.store.blocks import kind_of
from pipeline.store.changes import PUT, Command
from pipeline.store.digests import digest_of_events
from pipeline.store.keys import Keys
from pipeline.store.noted import DOCUMENT, Lost
from pipeline.store.projection import Record, commands_of
from pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

_TOPIC: Final[Mapping[str, str]] = {
    "artifact": ARTIFACTS,
    "knowledge": KNOWLEDGE,
    "contribution": EVIDENCE,
    "event": EPISODES,
    DOCUMENT: EPISODES,
}


def topics_of(lost: Iterable[Lost]) -> set[str]:
    return {_TOPIC[each.kind] for each in lost}


def restored(keys: Keys, lost: Iterable[Lost], records: Iterable[Record]) -> list[Command]:
    """`records`: everything that stands in the topics of what is lost below Redis' positions, by partition."""
    wanted, found = set(lost), defaultdict[Lost, list[Record]](list)
    for record in records:
        for name in _names(keys, record):
            if name in wanted:
                found[name].append(record)
    return [command for name in wanted for command in _commands(keys, name, found[name])]


def _names(keys: Keys, record: Record) -> Iterator[Lost]:
    """What a record is in memory."""
    try:
        if record.topic in (ARTIFACTS, KNOWLEDGE):
            tenant, name = split_key(record.key.decode())
            yield Lost(keys.tenant(tenant), "artifact" if record.topic == ARTIFACTS else "knowledge", name)
            return
        fields = orjson.loads(record.value or b"")
        if record.topic == EVIDENCE:
            if "contribution_id" in fields:
                yield Lost(keys.tenant(fields["tenant_id"]), "contribution", fields["contribution_id"])
            return
        tenant_keys = keys.tenant(fields["metadata"][RESERVED]["tenant_id"])
        yield Lost(tenant_keys, "event", fields["id"])
        yield Lost(tenant_keys, DOCUMENT, str(document_number(record.partition, record.offset)))
    except (ValueError, KeyError, TypeError):
        return  # what was left out of memory


def _commands(keys: Keys, lost: Lost, records: list[Record]) -> Iterator[Command]:
    field = encoded(lost.name).encode()
    if lost.kind == DOCUMENT:
        made = commands_of(keys, records[-1:]) if records else []
        for each in made:
            if each[:2] == PUT[:2] and each[4] == lost.tenant.documents:
                yield (b"HSET", each[4], *each[7:])
        return
    yield (b"DEL", lost.key)
    if lost.kind == "event":
        parts = [part for record in records for part in (_session(record), record.value or b"")]
        if parts:
            yield (b"RPUSH", lost.key, *parts)
            yield (b"HSET", lost.tenant.digests("event"), field, b"%d" % digest_of_events(parts))
            return
    elif records:
        yield from (each for each in commands_of(keys, records[-1:]) if kind_of(each[1]) != "version")
        return
    yield (b"HDEL", lost.tenant.digests(lost.kind), field)


def _session(record: Record) -> bytes:
    return encoded(orjson.loads(record.value or b"")["sessionId"]).encode()
