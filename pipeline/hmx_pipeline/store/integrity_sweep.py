"""Integrity sweep: searches Redis for lost, cut or altered data, in small steps and endless rounds.

Leaves: records that do not match their digests, and kinds of keys that lack what the records imply; for this each
record is projected again and compared. Raises StoreUnavailableError. Read-only. Embeddings beyond LOOKED_AT bytes are
only checked for existence.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle, islice
from operator import eq
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec

from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.contracts.options import Standing, Status
from hmx_pipeline.retrieval.postings import OFFSET_BITS, POSTING, ROW
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.store.atomic_blocks import Client, kind_of, reachable, snapshot
from hmx_pipeline.store.changes import APPEND, ASSIGN, CHANGES, PUT, ROWS, SESSION_MESSAGES, SESSION_STEPS, Command
from hmx_pipeline.store.damage_log import DOCUMENT, Lost, examined
from hmx_pipeline.store.projection import ProjectionError, TopicRecord, commands_of
from hmx_pipeline.store.redis_keys import KINDS, Keys, TenantKeys
from hmx_pipeline.store.stored_digests import verified_document
from hmx_pipeline.topology import ARTIFACTS, EPISODES, EVIDENCE, KNOWLEDGE

PAGE: Final = 50
SCANNED: Final = 2_000
LOOKED_AT: Final = 1_024
_TOPIC: Final = {"event": EPISODES, "contribution": EVIDENCE, "artifact": ARTIFACTS, "knowledge": KNOWLEDGE}
_OF_EPISODE: Final = frozenset({"documents", "rows", "term", "tag", "vector"})
"""Kinds of keys with document numbers, which an event itself does not contain."""
_TYPES: Final = {kind: name.encode() for kinds in KINDS.values() for kind, name in kinds.items()}
"""Kind of key → Redis type, for keys filled from topics."""
_AT_MOST: Final = {
    "session": SESSION_STEPS,
    "spoken": SESSION_MESSAGES,
    "achanges": CHANGES,
    "kchanges": CHANGES,
    "pchanges": CHANGES,
}
"""Size limits: an entry missing in a full key may have been trimmed."""
_DOCUMENT: Final = msgspec.msgpack.Decoder(Document)


class SweepResult(NamedTuple):
    lost: list[Lost]
    broken: set[str]
    """Kinds of damaged keys."""


class _Fact(NamedTuple):
    """An entry that must exist."""

    key: bytes
    question: Command
    holds: Callable[[Any], bool]
    further: Callable[[Any], bool] | None = None
    """The same check on the whole value, if `question` reads only a part."""


class IntegritySweep:
    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._reached: dict[bytes, int] = {}
        """Long posting list → position near the last match."""
        self._round = self._pieces()

    def step(self) -> SweepResult | None:
        """Runs one step; returns None at the end of a round."""
        piece = next(self._round, None)
        if piece is None:
            self._round = self._pieces()
            return None
        try:
            return piece()
        except (ValueError, TypeError, LookupError, msgspec.MsgspecError):  # bytes that do not fit the layout
            return SweepResult([], {"unreadable"})

    def _pieces(self) -> Iterator[Callable[[], SweepResult]]:
        with reachable():
            tenants = {name.decode() for name in self._client.smembers(self._keys.tenants)}
        listed = [self._keys.tenant(name) for name in sorted(tenants)]
        censuses = cycle([partial(self._settled, tenant, partial(self._census, tenant)) for tenant in listed])
        yield from islice(censuses, len(listed))
        for piece in self._all_of(listed):  # a round may take hours, but the census finds the worst damage in seconds
            yield piece
            yield from islice(censuses, 1)

    def _all_of(self, tenants: Sequence[TenantKeys]) -> Iterator[Callable[[], SweepResult]]:
        for tenant in tenants:
            yield from self._of_sessions(tenant)
            yield from self._of_episodes(tenant)
            for kind in _TOPIC:
                yield from self._of_records(tenant, kind)
        roots = {tenant.root for tenant in tenants}
        cursor: Any = None
        while cursor != 0:
            with reachable():
                cursor, page = self._client.scan(cursor or 0, match=f"{_literal(self._keys.root)}:{{*", count=SCANNED)
            page = [key for key in page if kind_of(key) in _TYPES]
            yield partial(self._typed, page)
            if any(key.rpartition(b"}:")[0].decode() + "}" not in roots for key in page):
                yield partial(self._tenants_listed, page)

    def _typed(self, page: Sequence[bytes]) -> SweepResult:
        """Checks the types of keys."""
        with reachable(), self._client.pipeline(transaction=False) as pipe:
            for key in page:
                pipe.type(key)
            types = pipe.execute()
        return SweepResult([], {kind_of(key) for key, found in zip(page, types, strict=True) if not _fits(key, found)})

    def _settled(self, tenant: TenantKeys, look: Callable[[], SweepResult]) -> SweepResult:
        """Reports damage only if the tenant did not change meanwhile, since reads are not atomic."""
        asked: list[Command] = [(b"GET", self._keys.filling), (b"HGETALL", tenant.version)]
        before = snapshot(self._client, asked, set())
        found = look()
        if found.broken and snapshot(self._client, asked, set()) != before:
            return SweepResult(found.lost, set())
        return found

    def _tenants_listed(self, page: Sequence[bytes]) -> SweepResult:
        """Checks that every tenant with keys is listed."""
        with reachable():
            listed = {self._keys.tenant(name.decode()).root for name in self._client.smembers(self._keys.tenants)}
        there = [key for key in page if key.rpartition(b"}:")[0].decode() + "}" not in listed]
        with reachable():
            return SweepResult([], {"tenants"} if there and self._client.exists(*there) else set())

    def _census(self, tenant: TenantKeys) -> SweepResult:
        """Compares counts that must agree, in one snapshot."""
        broken: set[str] = set()
        changes = {ARTIFACTS: tenant.artifact_changes, KNOWLEDGE: tenant.knowledge_changes}
        (version,) = snapshot(self._client, [(b"HGETALL", tenant.version)], broken)
        at = {name.decode(): int(offset) for name, offset in zip(version[::2], version[1::2], strict=True)}
        topics = {name.rpartition("/")[0] for name in at}
        told = [
            (name, changes[topic](int(n))) for name in at for topic, _, n in [name.rpartition("/")] if topic in changes
        ]
        statuses = [tenant.artifacts(status) for status in Status], [tenant.known(status) for status in Standing]
        asked: list[Command] = [
            (b"HLEN", tenant.documents),
            (b"STRLEN", tenant.rows),
            (b"HLEN", tenant.subjects),
            (b"LLEN", tenant.assigned),
            (b"ZCARD", tenant.samples),
            (b"ZSCORE", tenant.newest, b"at"),
            *((b"HLEN", tenant.digests(kind)) for kind in ("event", "contribution", "artifact", "knowledge")),
            *((b"HLEN", key) for keys in statuses for key in keys),
            *((b"ZRANGE", key, b"-1", b"-1", b"WITHSCORES") for _, key in told),
            *((b"TYPE", f"{tenant.root}:{kind}".encode()) for kind in _TYPES),
        ]
        documents, rows, *rest = snapshot(self._client, asked, broken)
        subjects, assigned, samples, newest, events, contributions, artifacts, known, *rest = rest
        listed = [rest.pop(0) or 0 for _ in statuses[0]], [rest.pop(0) or 0 for _ in statuses[1]]
        held = {EPISODES: events, EVIDENCE: contributions, ARTIFACTS: artifacts, KNOWLEDGE: known}
        agree = {
            "version": all(topic in topics for topic, count in held.items() if count),  # none if all was erased
            "rows": (documents or 0) * ROW.itemsize == (rows or 0),
            "subjects": (subjects or 0) == (assigned or 0),
            "samples": (samples or 0) == (contributions or 0),
            "artifacts": sum(listed[0]) == (artifacts or 0),
            "known": sum(listed[1]) == (known or 0),
            "newest": EPISODES not in topics or newest is not None,
            "edigests": EPISODES not in topics or bool(events),
            "cdigests": EVIDENCE not in topics or bool(contributions),
        }
        broken |= {kind for kind, well in agree.items() if not well}
        types = [(asked.pop()[1], rest.pop()) for _ in _TYPES]
        broken |= {kind_of(key) for key, found in types if not _fits(key, found)}
        for (name, key), last in zip(told, rest, strict=True):
            if not last or int(float(last[1])) != at[name]:
                broken.add(kind_of(key))
        return SweepResult([], broken)

    def _of_sessions(self, tenant: TenantKeys) -> Iterator[Callable[[], SweepResult]]:
        with reachable():
            (size,) = self._client.pipeline().llen(tenant.assigned).execute(raise_on_error=False)
        for start in range(0, size if isinstance(size, int) else 0, SCANNED):
            yield partial(self._settled, tenant, partial(self._sessions, tenant, start))

    def _sessions(self, tenant: TenantKeys, start: int) -> SweepResult:
        """Compares the two places that say whose sessions are."""
        broken: set[str] = set()
        asked = (b"LRANGE", tenant.assigned, b"%d" % start, b"%d" % (start + SCANNED - 1))
        (listed,) = snapshot(self._client, [asked], broken)
        told = dict(packed.partition(b":")[::2] for packed in listed or ())
        (known,) = snapshot(self._client, [(b"HMGET", tenant.subjects, *told)], broken) if told else ([],)
        return SweepResult([], broken if [*told.values()] == known else {*broken, "subjects", "assigned"})

    def _of_episodes(self, tenant: TenantKeys) -> Iterator[Callable[[], SweepResult]]:
        self._reached.clear()
        with reachable():
            (size,) = self._client.pipeline().strlen(tenant.rows).execute(raise_on_error=False)
        for start in range(0, size if isinstance(size, int) else 0, PAGE * ROW.itemsize):
            yield partial(self._settled, tenant, partial(self._episodes, tenant, start))

    def _episodes(self, tenant: TenantKeys, start: int) -> SweepResult:
        """Checks a page of documents, and everything their episodes write."""
        with reachable():
            page = self._client.getrange(tenant.rows, start, start + PAGE * ROW.itemsize - 1)
            rows = [page[at : at + ROW.itemsize] for at in range(0, len(page), ROW.itemsize)]
            numbers = [int.from_bytes(row[:8], "little") for row in rows]
            bodies = self._client.hmget(tenant.documents, [b"%d" % number for number in numbers])
        lost, broken = list[Lost](), set[str]()
        facts: list[_Fact] = []
        packed = [None if body is None else verified_document(n, body) for n, body in zip(numbers, bodies, strict=True)]
        lost += [Lost(tenant, DOCUMENT, str(n)) for n, body in zip(numbers, packed, strict=True) if body is None]
        said = [(n, row, _DOCUMENT.decode(body)) for n, row, body in zip(numbers, rows, packed, strict=True) if body]
        events = [Lost(tenant, "event", document.event_id) for _, _, document in said]
        found = examined(self._client, events)
        for (number, row, document), event, (parts, sound) in zip(said, events, found, strict=True):
            if not sound:
                lost.append(event)
            elif parts.count(session := encoded(document.session_id).encode()) == 1:
                value = parts[parts.index(session) + 1]
                record = TopicRecord(EPISODES, number >> OFFSET_BITS, number & (1 << OFFSET_BITS) - 1, b"", value)
                facts += self._facts([record], row)
        return SweepResult(lost, broken | self._untrue(facts))

    def _of_records(self, tenant: TenantKeys, kind: str) -> Iterator[Callable[[], SweepResult]]:
        # An event's session decides its partition, but only its document is named after the partition.
        partition = 0 if kind == "event" else self._partition_of(tenant, _TOPIC[kind])
        cursor: Any = 0 if partition is None else None
        while cursor != 0:
            with reachable():
                ask = self._client.pipeline().hscan(tenant.digests(kind), cursor or 0, count=PAGE)
                (answer,) = ask.execute(raise_on_error=False)
            if isinstance(answer, Exception):
                return
            cursor, page = answer
            names = [Lost(tenant, kind, unquote(name.decode(errors="replace"))) for name in page]
            for start in range(0, len(names), PAGE):
                some = names[start : start + PAGE]
                yield partial(self._settled, tenant, partial(self._records, tenant, kind, partition or 0, some))

    def _partition_of(self, tenant: TenantKeys, topic: str) -> int | None:
        """Returns the partition of a tenant's records in a topic; None if unknown, which the census reports."""
        with reachable():
            (version,) = self._client.pipeline().hkeys(tenant.version).execute(raise_on_error=False)
        names = [name.decode(errors="replace") for name in version] if isinstance(version, list) else []
        partitions = {name.rpartition("/")[2] for name in names if name.startswith(f"{topic}/")}
        return int(partitions.pop()) if len(partitions) == 1 else None

    def _records(self, tenant: TenantKeys, kind: str, partition: int, names: Sequence[Lost]) -> SweepResult:
        lost: list[Lost] = []
        facts: list[_Fact] = []
        for each, (value, sound) in zip(names, examined(self._client, names), strict=True):
            if not sound:
                lost.append(each)
                continue
            values = value[1::2] if isinstance(value, list) else [value]
            key = f"{tenant.name}/{encoded(each.name)}".encode()
            at = (_TOPIC[kind], partition, 0, key)
            facts += self._facts([TopicRecord(*at, one) for one in values if isinstance(one, bytes)])
        return SweepResult(lost, self._untrue(facts))

    def _facts(self, records: Sequence[TopicRecord], row: bytes | None = None) -> Iterator[_Fact]:
        """Yields what the records write besides themselves; without `row`, only what needs no topic position."""
        for record in records:
            try:
                commands = commands_of(self._keys, [record])
            except ProjectionError:
                continue
            for command in commands:
                yield from self._facts_of(command, row)

    def _untrue(self, facts: Sequence[_Fact]) -> set[str]:
        broken: set[str] = set()
        if not facts:
            return broken
        answers = snapshot(self._client, [fact.question for fact in facts], broken)
        for fact, answer in zip(facts, answers, strict=True):
            kind = kind_of(fact.key)
            if fact.holds(answer) or (kind in _AT_MOST and answer is None and self._is_full(fact.key, kind)):
                continue
            if fact.further is None or not fact.further(*snapshot(self._client, [(b"GET", fact.key)], broken)):
                broken.add(kind)
        return broken

    def _is_full(self, key: bytes, kind: str) -> bool:
        with reachable():
            (count,) = self._client.pipeline().zcard(key).execute(raise_on_error=False)
        return isinstance(count, int) and count >= _AT_MOST[kind]

    def _facts_of(self, command: Command, row: bytes | None) -> Iterator[_Fact]:
        if command[:2] == ASSIGN[:2]:
            yield _Fact(command[3], (b"HEXISTS", command[3], command[5]), bool)
            return
        name, key, *rest = _plain(command)
        appends = command[:2] == APPEND[:2]
        kind = kind_of(command[4] if appends else key)
        if kind == "version" or kind.endswith("digests") or (row is None and kind in _OF_EPISODE):
            return
        if appends:
            for ending, part in zip(command[6::2], command[7::2], strict=True):
                whole = command[4] + ending
                start = self._reached.get(whole, 0)
                question = (b"GETRANGE", whole, b"%d" % start, b"%d" % (start + LOOKED_AT - 1))
                yield _Fact(whole, question, partial(self._has, part, whole, start), partial(self._has, part, whole, 0))
        elif name == b"HSET":
            for field, value in zip(rest[::2], rest[1::2], strict=True):
                yield _Fact(key, (b"HGET", key, field), partial(eq, value))
        elif name == b"SADD":
            yield from (_Fact(key, (b"SISMEMBER", key, member), bool) for member in rest)
        elif name == b"ZADD":
            at_least = rest[0] == b"GT"
            pairs = rest[1:] if at_least else rest
            for score, member in zip(pairs[::2], pairs[1::2], strict=True):
                holds = partial(_scored, float(score), at_least=at_least, any_score=kind.endswith("changes"))
                yield _Fact(key, (b"ZSCORE", key, member), holds)
        elif name == b"APPEND":
            yield _Fact(key, (b"EXISTS", key), lambda there: bool(there) and rest[0] == row)
        elif name == b"RPUSH" and kind == "vector":
            yield _Fact(key, (b"LRANGE", key, b"0", b"%d" % (LOOKED_AT // 8)), partial(_holds, rest[0]))

    def _has(self, part: bytes, key: bytes, start: int, answer: Any) -> bool:
        """Returns whether a posting list contains `part`. Lists and rows have the same order, so the next search
        starts here."""
        if not isinstance(answer, bytes) or len(answer) % POSTING.itemsize:
            return False
        for at in range(0, len(answer), len(part)):
            if answer[at : at + len(part)] == part:
                if at >= LOOKED_AT // 2:
                    self._reached[key] = start + at
                return True
        return False


def _fits(key: bytes, found: bytes) -> bool:
    return found in (_TYPES[kind_of(key)], b"none")


def _plain(command: Command) -> Command:
    """Returns the command inside the script that checks for room."""
    if command[:2] == PUT[:2]:
        return (command[6], command[4], *command[7:])
    return (b"APPEND", command[3], command[6]) if command[:2] == ROWS[:2] else command


def _holds(row: bytes, answer: Any) -> bool:
    pieces = answer if isinstance(answer, list) else []
    return any(row in piece for piece in pieces) or len(pieces) > LOOKED_AT // 8


def _scored(score: float, answer: Any, *, at_least: bool, any_score: bool) -> bool:
    if answer is None:
        return False
    return any_score or (float(answer) >= score if at_least else float(answer) == score)


def _literal(text: str) -> str:
    return "".join(f"\\{each}" if each in "*?[]\\" else each for each in text)
