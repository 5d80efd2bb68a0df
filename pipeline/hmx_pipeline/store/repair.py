"""Repair: the ranges of the topics to read for records lost or altered in Redis, and the commands that restore them.

Enters: the lost records, then the topic records in these ranges, which store.healing reads. Leaves: idempotent
commands, which store.healing applies. They restore each record, or delete it if its topic no longer holds it. Raises
StoreUnavailableError. For documents, artifacts and knowledge the offset is known, so a short range is enough. For
events and contributions the topic is read from its start, once for up to 50 records, which takes seconds per million
records.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import filterfalse
from typing import Final, NamedTuple

import orjson

from hmx_pipeline.contracts.episode import RESERVED
from hmx_pipeline.contracts.keys import encoded, split_key
from hmx_pipeline.retrieval.postings import OFFSET_BITS, document_number
from hmx_pipeline.store.atomic_blocks import Client, kind_of, reachable
from hmx_pipeline.store.changes import PUT, Command
from hmx_pipeline.store.damage_log import DOCUMENT, Lost
from hmx_pipeline.store.projection import TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import Keys
from hmx_pipeline.store.stored_digests import digest_of_events, with_checksum
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

_TOPIC: Final[Mapping[str, str]] = {
    "artifact": ARTIFACTS,
    "knowledge": KNOWLEDGE,
    "contribution": EVIDENCE,
    "event": EPISODES,
    DOCUMENT: EPISODES,
}

SCANNED: Final = 1_000
Hides = Callable[[TopicRecord], bool]
Spans = Mapping[tuple[str, int], tuple[int, int]]
"""Topic and partition → offset range [from, to) to read."""


def spans(client: Client, lost: Iterable[Lost], ends: Mapping[tuple[str, int], int]) -> Spans:
    """Returns the ranges to read, as noted in memory; the whole partition below `ends` if unknown."""
    found = dict[tuple[str, int], tuple[int, int]]()
    for each in lost:
        own = {place: end for place, end in ends.items() if place[0] == _TOPIC[each.kind]}
        at = {place: offset for place in own if 0 <= (offset := _offset(client, each, place[1])) < own[place]}
        for place, low in (at or dict.fromkeys(own, 0)).items():
            before = found.get(place, (low, 0))
            found[place] = min(low, before[0]), max(low + 1 if at else own[place], before[1])
    return found


def whole(lost: Iterable[Lost], ends: Mapping[tuple[str, int], int]) -> Spans:
    """Returns whole partitions below `ends`."""
    topics = {_TOPIC[each.kind] for each in lost}
    return {place: (0, end) for place, end in ends.items() if place[0] in topics}


def _offset(client: Client, lost: Lost, partition: int) -> int:
    """Returns the offset of a record's last version; -1 if unknown in this partition."""
    if lost.kind == DOCUMENT:
        number = int(lost.name)
        return number & (1 << OFFSET_BITS) - 1 if number >> OFFSET_BITS == partition else -1
    changes = {"artifact": lost.tenant.artifact_changes, "knowledge": lost.tenant.knowledge_changes}.get(lost.kind)
    if changes is None:
        return -1
    with reachable():
        (score,) = client.pipeline().zscore(changes(partition), lost.name).execute(raise_on_error=False)
    return int(score) if isinstance(score, float) else -1


class RestoredRecords(NamedTuple):
    commands: Mapping[Lost, list[Command]]
    places: set[tuple[str, int]]
    """Topics and partitions of the records found."""
    missing: set[Lost]
    """Records that no topic holds any more; their commands delete them."""


def restored(keys: Keys, lost: Iterable[Lost], records: Iterable[TopicRecord], hides: Hides) -> RestoredRecords:
    """Builds the repair commands from `records`, which cover the ranges to read; without those that are erased."""
    wanted, found = set(lost), defaultdict[Lost, list[TopicRecord]](list)
    places = set[tuple[str, int]]()
    for record in filterfalse(hides, records):
        for name in _names(keys, record):
            if name in wanted:
                found[name].append(record)
                places.add((record.topic, record.partition))
    commands = {name: list(_commands(keys, name, found[name])) for name in wanted}
    return RestoredRecords(commands, places, {name for name in wanted if not found[name]})


def unlisted(client: Client, lost: Lost) -> list[Command]:
    """Returns the commands that remove a deleted contribution from its samples."""
    if lost.kind != "contribution":
        return []
    name, samples = encoded(lost.name).encode(), lost.tenant.samples
    with reachable():
        listed = [member for member, _ in client.zscan_iter(samples, match=b"*:" + name, count=SCANNED)]
    listed = [member for member in listed if member.endswith(b":" + name)]  # a name may contain glob characters
    patterns = [lost.tenant.sample("") + member.partition(b":")[0] for member in listed]
    taken = [(b"ZREM", pattern, name) for pattern in patterns]
    return [*taken, *((b"ZREM", samples, member) for member in listed), (b"HDEL", lost.tenant.precedent_cards, name)]


def _names(keys: Keys, record: TopicRecord) -> Iterator[Lost]:
    """Yields the memory records that a topic record makes."""
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
        return  # it was left out of memory


def _commands(keys: Keys, lost: Lost, records: list[TopicRecord]) -> Iterator[Command]:
    field = encoded(lost.name).encode()
    if lost.kind == DOCUMENT:
        if not records:  # its row and postings stay, without effect
            yield (b"HSET", lost.tenant.documents, field, with_checksum(int(lost.name), b""))
            return
        for each in commands_of(keys, records[-1:]):
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
        yield (b"ZREM", lost.tenant.expiring, lost.name.encode())
    elif records:
        yield from (each for each in commands_of(keys, records[-1:]) if kind_of(each[1]) != "version")
        return
    elif lost.kind != "contribution":  # like an erasure, except for its time
        key = f"{lost.tenant.name}/{encoded(lost.name)}".encode()
        erased = commands_of(keys, [TopicRecord(_TOPIC[lost.kind], 0, 0, key, None)])
        yield from (each for each in erased if each[0] == b"HDEL")
    yield (b"HDEL", lost.tenant.digests(lost.kind), field)


def _session(record: TopicRecord) -> bytes:
    return encoded(orjson.loads(record.value or b"")["sessionId"]).encode()
