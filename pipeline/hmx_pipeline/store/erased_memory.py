"""Erasures in Redis: what a mark of `hmx.erasures.v1` covers is left out of memory, and taken out if it is there.

Enters: marks, and what Redis holds of their tenant. Leaves: commands that remove episodes, their documents, postings
and steps, and contributions. Artifacts and knowledge go by the tombstones of their own topics. Raises
StoreUnavailableError.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Final
from urllib.parse import unquote

import msgspec
import orjson

from hmx_pipeline.compiler.registry import class_of
from hmx_pipeline.contracts.episode import RESERVED, subject_of
from hmx_pipeline.contracts.erasure import ErasureMark, marks_on
from hmx_pipeline.contracts.headers import fingerprint, origin_of
from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.contracts.limits import CLOCK_SKEW_MS
from hmx_pipeline.contracts.retention import EPISODES as EPISODES_CLASS
from hmx_pipeline.contracts.retention import Cuts, policy_of, risen
from hmx_pipeline.contracts.timestamps import format_ms
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.retrieval.postings import ROW, pack_assigned, pack_number, pack_postings, unpack_rows
from hmx_pipeline.retrieval.searchable import Document, document_labels, document_terms, event_time
from hmx_pipeline.retrieval.vectors import Embed, document_vectors, pack_vector
from hmx_pipeline.store.atomic_blocks import Client, reachable
from hmx_pipeline.store.changes import Command
from hmx_pipeline.store.projection import TopicRecord
from hmx_pipeline.store.redis_keys import Keys, TenantKeys
from hmx_pipeline.store.stored_digests import digest_of_events, verified_document, with_checksum
from hmx_pipeline.topology import EPISODES, EVIDENCE

PAGE: Final = 500
_DOCUMENT: Final = msgspec.msgpack.Decoder(Document)
_CUT: Final = b"""
local held, gone, kept = redis.call('GET', KEYS[1]), {}, {}
if not held then return end
for i = 1, #ARGV do gone[ARGV[i]] = true end
for i = 1, #held, 8 do
  local one = string.sub(held, i, i + 7)
  if not gone[one] then kept[#kept + 1] = one end
end
if #kept == 0 then redis.call('DEL', KEYS[1]) else redis.call('SET', KEYS[1], table.concat(kept)) end
"""
"""Removes postings, or document numbers of a label, from a string."""
NUMBER: Final = 8
"""Bytes of a document number before its embedding, and before the rest of its row."""

Json = dict[str, Any]


class Erasures:
    """The marks read so far, by tenant."""

    def __init__(self, marks: Iterable[ErasureMark] = ()) -> None:
        self._marks: defaultdict[str, dict[str, tuple[ErasureMark, frozenset[str]]]] = defaultdict(dict)
        self._cuts: dict[str, Cuts] = {}
        self._cleared: dict[str, Cuts] = {}
        """The cuts that were taken out of memory."""
        for mark in marks:
            self.add(mark)

    def add(self, mark: ErasureMark) -> None:
        if mark.cuts:
            self._cuts[mark.tenant_id] = risen(self._cuts.get(mark.tenant_id, {}), mark.cuts)
        self._marks[mark.tenant_id][mark.key] = mark, frozenset(mark.marks)

    def arrived(self, marks: Iterable[ErasureMark]) -> list[str]:
        """Adds marks; returns the tenants whose memory may hold what they hide. Of a retention each partition has a
        mark, and most say what was taken out already."""
        marks = list(marks)
        for mark in marks:
            self.add(mark)
        return sorted(
            {
                mark.tenant_id
                for mark in marks
                if mark.marks or self._cuts.get(mark.tenant_id, {}) != self._cleared.get(mark.tenant_id, {})
            }
        )

    def cleared(self, tenant_id: str) -> None:
        """Notes that a tenant's memory is without what is hidden so far."""
        self._cleared[tenant_id] = self._cuts.get(tenant_id, {})

    def __bool__(self) -> bool:
        return bool(self._marks)

    def digests(self) -> dict[str, str]:
        """Returns a digest of the marks of each tenant that has any."""
        return {
            tenant: fingerprint(*map(str.encode, (*sorted(marks), *map(str, self._cuts.get(tenant, {}).items()))))
            for tenant, marks in self._marks.items()
        }

    def of(self, tenant_id: str) -> bool:
        """Returns whether something of the tenant was erased."""
        return tenant_id in self._marks

    def retention(self, tenant_id: str) -> list[str]:
        """Returns what the tenant's retention has taken so far, by class, in words."""
        return [f"{name} before {format_ms(at)}" for name, at in sorted(self._cuts.get(tenant_id, {}).items()) if at]

    def forgets(self, tenant_id: str, at_ms: int) -> bool:
        """Returns whether a tenant keeps nothing of this time, whatever it is."""
        return policy_of(self._cuts.get(tenant_id, {}), at_ms) != ""

    def episode_taken_by(self, fields: Json) -> str:
        """Returns which policy of its tenant's retention takes an episode; empty if none does."""
        return episode_taken_by(self._cuts.get(fields["metadata"][RESERVED]["tenant_id"], {}), fields)

    def hides_episode(self, fields: Json) -> bool:
        """Returns whether an episode is erased. Raises KeyError for what is no episode."""
        own = fields["metadata"][RESERVED]
        if own["tenant_id"] not in self._marks:
            return False
        if self.episode_taken_by(fields):
            return True
        place = own["origin"]["partition"], own["origin"]["offset"]
        return self.hides_event(own["tenant_id"], fields["sessionId"], subject_of(fields), place)

    def hides_event(self, tenant_id: str, session_id: str, subject: str, place: tuple[int, int]) -> bool:
        """`place`: its partition and offset. What names no tenant is hidden if anything there was erased."""
        covering = marks_on(tenant_id, session_id, subject)
        known = [self._marks.get(tenant_id, {})] if tenant_id else self._marks.values()
        return any(
            mark.partition == place[0] and place[1] < mark.before and not (tenant_id and names.isdisjoint(covering))
            for marks in known
            for mark, names in marks.values()
        )

    def hides_contribution(self, fields: Mapping[str, Any], place: tuple[int, int] | None = None) -> bool:
        """`place`: partition and offset of the event that made it contribute. At an erasure's own offset only the clock
        did, before what it took. Where the place is not known, what may be of the erased past is hidden: an event
        counts as dated a little after it was appended, at the latest."""
        marks = self._marks.get(fields["tenant_id"])
        if not marks:
            return False
        if contribution_taken_by(self._cuts.get(fields["tenant_id"], {}), fields):
            return True
        covering = marks_on(fields["tenant_id"], fields["session_id"], fields.get("subject", ""))
        return any(
            (
                fields["first_at"] <= mark.at + CLOCK_SKEW_MS
                if place is None
                else place[0] == mark.partition and place[1] <= mark.before
            )
            and not names.isdisjoint(covering)
            for mark, names in marks.values()
        )

    def hides(self, record: TopicRecord) -> bool:
        """Returns whether a record that memory is made from is erased; artifacts and knowledge have tombstones."""
        if record.topic not in (EPISODES, EVIDENCE):
            return False
        try:
            fields = orjson.loads(record.value or b"")
            if record.topic == EPISODES:
                return self.hides_episode(fields)
            return self.hides_contribution(fields, origin_of(record.headers))
        except (ValueError, KeyError, TypeError):
            return False  # it is no memory either


def episode_taken_by(cuts: Cuts, fields: Json) -> str:
    """Returns the policy with these cuts that takes an episode; empty if none does. What tells only later whose a
    session is leaves with what was said before, or a refill would not know that this is private."""
    if not cuts:
        return ""
    claims = fields["metadata"][RESERVED].get("claims", 0)
    kinds = (EPISODES_CLASS,) if claims else (EPISODES_CLASS, fields["eventType"])
    return policy_of(cuts, max(event_time(fields), claims), *kinds)


def contribution_taken_by(cuts: Cuts, fields: Mapping[str, Any]) -> str:
    """Returns the policy with these cuts that takes a contribution; empty if none does."""
    return policy_of(cuts, fields["last_at"], class_of(fields["pattern_type"])) if cuts else ""


def erase_tenant(client: Client, keys: Keys, tenant_id: str, erasures: Erasures, embed: Embed | None = None) -> int:
    """Takes out of Redis what is erased; returns the number of episodes and contributions. Idempotent."""
    tenant = keys.tenant(tenant_id)
    with reachable():
        gone: dict[tuple[str, str], Json] = {}
        stay: set[str] = set()
        commands = list(_episodes(client, tenant, erasures, gone, stay))
        commands += _documents(client, tenant, gone, embed)
        commands += _subjects(client, tenant, {session for session, _ in gone} - stay)
        before = len(commands)
        commands += _contributions(client, tenant, erasures)
        if not commands:
            return 0
        with client.pipeline(transaction=True) as pipe:
            for command in commands:
                pipe.execute_command(*command)
            pipe.set(keys.filling, os.urandom(16), xx=True)  # whatever readers remember is outdated
            pipe.execute()
        _forget_versions(client, tenant)
        return len(gone) + sum(command[0] == b"DEL" for command in commands[before:])


def _episodes(
    client: Client, tenant: TenantKeys, erasures: Erasures, gone: dict[tuple[str, str], Json], stay: set[str]
) -> Iterator[Command]:
    """Adds to `gone` the episodes that go, and to `stay` the sessions of those that stay."""
    digests = tenant.digests("event")
    listed = client.hscan_iter(digests, count=PAGE)
    while page := [name for name, _ in islice(listed, PAGE)]:
        with client.pipeline(transaction=False) as pipe:
            for name in page:
                pipe.lrange(tenant.event(unquote(name.decode())), 0, -1)
            lists = pipe.execute()
        for name, parts in zip(page, lists, strict=True):
            rest: list[bytes] = []
            for session, episode in zip(parts[::2], parts[1::2], strict=False):
                fields = orjson.loads(episode)
                if not erasures.hides_episode(fields):
                    rest += (session, episode)
                    stay.add(fields["sessionId"])
                    continue
                gone[fields["sessionId"], fields["id"]] = fields
                if policy := erasures.episode_taken_by(fields):
                    METRICS.forgotten.labels(policy).inc()
                index = b"%d" % fields["metadata"][RESERVED]["release"]["index"]
                for key in (tenant.session(fields["sessionId"]), tenant.spoken(fields["sessionId"])):
                    yield (b"ZREMRANGEBYSCORE", key, index, index)
            if len(rest) == len(parts):
                continue
            event_id = unquote(name.decode())
            yield (b"DEL", tenant.event(event_id))
            if rest:
                yield (b"RPUSH", tenant.event(event_id), *rest)
                yield (b"HSET", digests, name, b"%d" % digest_of_events(rest))
            else:
                yield (b"HDEL", digests, name)
                yield (b"ZREM", tenant.expiring, event_id.encode())


def _documents(
    client: Client, tenant: TenantKeys, gone: Mapping[tuple[str, str], Json], embed: Embed | None
) -> Iterator[Command]:
    """Empties the documents and their rows, whose places stay, and removes postings and labels."""
    if not gone:
        return
    cut: defaultdict[bytes, list[bytes]] = defaultdict(list)
    directions: defaultdict[bytes, list[bytes]] = defaultdict(list)
    numbers: set[int] = set()
    for field, body in client.hscan_iter(tenant.documents, count=PAGE):
        number = int(field)
        packed = verified_document(number, body)
        if not packed:
            continue
        document = _DOCUMENT.decode(packed)
        found = gone.get((document.session_id, document.event_id))
        if found is None:
            continue
        yield (b"HSET", tenant.documents, field, with_checksum(number, b""))
        numbers.add(number)
        for vector in document_vectors(found, document.text, embed):
            directions[tenant.vectors(vector.space)].append(pack_vector(number, vector.values))
        words = document_terms(document)
        for term in set(words):
            (posting,) = pack_postings(number, [words.count(term)])
            cut[tenant.postings(term)].append(posting)
        for label in document_labels(found):
            cut[tenant.tagged(label)].append(pack_number(number))
    for key, postings in cut.items():
        yield (b"EVAL", _CUT, b"1", key, *postings)
    yield from _rows(client, tenant.rows, numbers)
    for key, rows in directions.items():
        yield from _vectors(client, key, rows)


def _rows(client: Client, key: bytes, numbers: set[int]) -> Iterator[Command]:
    """Blanks rows but for their numbers: they tell session, subject and time."""
    start, size = 0, PAGE * ROW.itemsize
    while page := client.getrange(key, start, start + size - 1):
        for at, number in enumerate(unpack_rows(page)["number"].tolist()):
            if number in numbers:
                blank = number.to_bytes(NUMBER, "little") + bytes(ROW.itemsize - NUMBER)
                yield (b"SETRANGE", key, b"%d" % (start + at * ROW.itemsize), blank)
        start += size


def _subjects(client: Client, tenant: TenantKeys, sessions: set[str]) -> Iterator[Command]:
    """Forgets whose the sessions were."""
    for session in sorted(sessions):
        subject = client.hget(tenant.subjects, encoded(session))
        if subject is not None:
            yield (b"HDEL", tenant.subjects, encoded(session).encode())
            yield (b"LREM", tenant.assigned, b"0", pack_assigned(session, subject.decode()))


def _vectors(client: Client, key: bytes, rows: Sequence[bytes]) -> Iterator[Command]:
    """Blanks embeddings; their places stay, because readers count them."""
    for at, chunk in enumerate(client.lrange(key, 0, -1)):
        kept = chunk
        for row in rows:
            kept = kept.replace(row, row[:NUMBER] + bytes(len(row) - NUMBER))
        if kept != chunk:
            yield (b"LSET", key, b"%d" % at, kept)


def _contributions(client: Client, tenant: TenantKeys, erasures: Erasures) -> Iterator[Command]:
    listed = client.zscan_iter(tenant.samples, count=PAGE)
    while page := [member for member, _ in islice(listed, PAGE)]:
        parts = [member.partition(b":") for member in page]
        keys = [tenant.contribution(unquote(name.decode())) for _, _, name in parts]
        for member, (pattern, _, name), key, value in zip(page, parts, keys, client.mget(keys), strict=True):
            if value is None or not erasures.hides_contribution(orjson.loads(value)):
                continue
            yield (b"DEL", key)
            yield (b"ZREM", tenant.samples, member)
            yield (b"ZREM", tenant.sample(unquote(pattern.decode())), name)
            yield (b"HDEL", tenant.digests("contribution"), name)
            yield (b"HDEL", tenant.precedent_cards, name)


def _forget_versions(client: Client, tenant: TenantKeys) -> None:
    """A tenant whose last episode or contribution is gone is as one that never had any."""
    for topic, kind in ((EPISODES, "event"), (EVIDENCE, "contribution")):
        if client.exists(tenant.digests(kind)):
            continue
        fields = [field for field in client.hkeys(tenant.version) if field.startswith(f"{topic}/".encode())]
        if fields:
            client.hdel(tenant.version, *fields)


def all_records(client: Client, listed: Iterator[Any], key_of: Callable[[str], bytes]) -> Iterator[Json]:
    while page := [unquote(name.decode()) for name, _ in islice(listed, PAGE)]:
        yield from (orjson.loads(value) for value in client.mget(list(map(key_of, page))) if value is not None)


def all_episodes(client: Client, tenant: TenantKeys) -> Iterator[Json]:
    listed = client.hscan_iter(tenant.digests("event"), count=PAGE)
    while page := [unquote(name.decode()) for name, _ in islice(listed, PAGE)]:
        with client.pipeline(transaction=False) as pipe:
            for event_id in page:
                pipe.lrange(tenant.event(event_id), 0, -1)
            for parts in pipe.execute():
                yield from map(orjson.loads, parts[1::2])
