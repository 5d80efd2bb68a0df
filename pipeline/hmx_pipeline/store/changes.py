"""Memory changes of a block of records, gathered so that each key is written once. Pure.

Enters: changes in record order. Leaves: commands with the same effect as one write per record. Never raises.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from hmx_pipeline.contracts.keys import ENCODED, encoded
from hmx_pipeline.contracts.limits import PATTERN_CONTRIBUTIONS, TENANT_CONTRIBUTIONS
from hmx_pipeline.contracts.options import Standing, Status
from hmx_pipeline.retrieval.postings import ROW, pack_assigned, pack_number, pack_postings
from hmx_pipeline.retrieval.vectors import Embed
from hmx_pipeline.store.redis_keys import Keys, TenantKeys
from hmx_pipeline.store.stored_digests import digest, digest_of_events, with_checksum

Command = tuple[bytes, ...]

SEARCHED: Final = 20_000_000
"""Searchable episodes per tenant, since a Redis string ends at 512 MB. Later ones are found by id and session only,
and are counted."""
_IF_ROOM: Final = b"local call, full = redis.call, redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) "
"""Start of scripts: checks the length of the rows, so that all or none of a block's documents are searchable."""
APPEND: Final = (
    b"EVAL",
    _IF_ROOM + b"if full then return end for i = 2, #ARGV, 2 do call('APPEND', KEYS[2] .. ARGV[i], ARGV[i + 1]) end",
    b"2",
)
"""Appends to several keys of one prefix; single commands would cost the writer twice as much."""
PUT: Final = (b"EVAL", _IF_ROOM + b"if not full then call(ARGV[2], KEYS[2], unpack(ARGV, 3)) end", b"2")
ROWS: Final = (
    b"EVAL",
    _IF_ROOM + b"if not full then call('APPEND', KEYS[1], ARGV[2]) return 0 end "
    b"call('INCRBY', KEYS[2], ARGV[3]) return tonumber(ARGV[3])",
    b"2",
)
"""Appends rows; must come last in a block. Returns the number of documents without room."""
ASSIGN: Final = (
    b"EVAL",
    b"""
for i = 1, #ARGV, 2 do
  local subject = ARGV[i + 1]:match(':(.*)')
  if redis.call('HSETNX', KEYS[1], ARGV[i], subject) == 1 then redis.call('RPUSH', KEYS[2], ARGV[i + 1]) end
end
""",
    b"2",
)
"""Says whose sessions are, unless it is known: sessions (percent-encoded), each with what is appended."""
_OF: Final = TenantKeys("")
_FORGET: Final = b"""
local function forget(root, id)
  redis.call('DEL', root .. '%b' .. id)
  redis.call('HDEL', root .. '%b', id)
  redis.call('HDEL', root .. '%b', id)
end
""" % (_OF.contribution(""), _OF.precedent_cards, _OF.digests("contribution"))
_SAMPLE: Final = _OF.sample("")
_TRIM_PATTERNS: Final = (
    b"EVAL",
    _FORGET
    + b"""
local most, root = tonumber(ARGV[1]), ARGV[2]
for i = 3, #ARGV do
  local sample = root .. '%b' .. ARGV[i]
  if redis.call('ZCARD', sample) > most then
    for _, id in ipairs(redis.call('ZRANGE', sample, most, -1)) do
      forget(root, id)
      redis.call('ZREM', KEYS[1], ARGV[i] .. ':' .. id)
    end
    redis.call('ZREMRANGEBYRANK', sample, most, -1)
  end
end
"""
    % _SAMPLE,
    b"1",
)
"""Forgets the highest ranked contributions of patterns: samples, limit, root, patterns."""
_TRIM_TENANT: Final = (
    b"EVAL",
    _FORGET
    + b"""
for _, name in ipairs(redis.call('ZRANGE', KEYS[1], ARGV[1], -1)) do
  local at = string.find(name, ':', 1, true)
  local pattern, id = string.sub(name, 1, at - 1), string.sub(name, at + 1)
  forget(ARGV[2], id)
  redis.call('ZREM', ARGV[2] .. '%b' .. pattern, id)
end
redis.call('ZREMRANGEBYRANK', KEYS[1], ARGV[1], -1)
"""
    % _SAMPLE,
    b"1",
)
"""Forgets the highest ranked contributions of a tenant: samples, limit, root."""
PATTERN_SAMPLE: Final = 2 * PATTERN_CONTRIBUTIONS
TENANT_SAMPLE: Final = 2 * TENANT_CONTRIBUTIONS
"""Contributions kept here: twice as many as in the stage, because artifacts may still name ones that left the
sample."""
CHANGES: Final = 10_000
"""Changed ids kept for incremental readers; a reader that missed more reads the whole index again."""
SESSION_STEPS: Final = 64
"""Recent steps kept per session."""
SESSION_MESSAGES: Final = 4
"""Recent messages kept per session."""
ARGUMENTS: Final = 1_000
"""Most arguments of one command, so that none blocks the server for long."""


class Listed(NamedTuple):
    """The last state of an artifact or knowledge record in a block; without a value it is deleted."""

    partition: int
    offset: int
    value: bytes | None
    status: str = ""
    type: bytes = b""
    card: bytes | None = None
    """Index entry; None if it is not searchable."""


class _Family(NamedTuple):
    """The keys of one kind of records."""

    record: Callable[[str], bytes]
    by_status: Callable[[str], bytes]
    cards: bytes
    changes: Callable[[int], bytes]
    statuses: Sequence[str]
    digests: bytes


class TenantChanges:
    """Changes of one tenant. Keys are built beforehand, so that an invalid key fails early."""

    def __init__(self, block: "Changes", keys: TenantKeys) -> None:
        self.keys = keys
        self._block = block
        self._versions: dict[tuple[str, int], int] = {}
        self._newest: int | None = None
        self._expiring: dict[bytes, int] = {}
        self._sessions: dict[str, tuple[bytes, bytes, bytes]] = {}
        self._events: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._steps: dict[tuple[bytes, int], dict[int, bytes]] = {}
        """By key and number of steps kept."""
        self._assigned: dict[str, str] = {}
        """Session → the first subject of the block."""
        self._documents: list[bytes] = []
        self._rows = bytearray()
        self._postings: defaultdict[str, bytes] = defaultdict(bytes)
        self._tagged: defaultdict[str, bytes] = defaultdict(bytes)
        self._vectors: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._values: dict[bytes, bytes | None] = {}
        self._samples: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._digests: list[bytes] = []
        """Digests of contributions."""
        self._precedents: dict[str, tuple[int, int, bytes | None]] = {}
        self._artifacts: dict[str, Listed] = {}
        self._knowledge: dict[str, Listed] = {}

    @property
    def changed(self) -> bool:
        return bool(self._versions)

    def version(self, topic: str, partition: int, offset: int) -> None:
        """Notes that the tenant's state is as of this record."""
        self._versions[topic, partition] = offset

    def session(self, session_id: str) -> tuple[bytes, bytes, bytes]:
        """Returns the encoded name of a session and the keys of its steps and messages, built once for a block."""
        if (found := self._sessions.get(session_id)) is None:
            name, of = encoded(session_id).encode(), self.keys
            found = self._sessions[session_id] = name, of.session(session_id), of.spoken(session_id)
        return found

    def event(self, name: bytes, session: bytes, episode: bytes, at: int) -> None:
        self._events[name] += (session, episode)
        self._newest = at if self._newest is None else max(at, self._newest)
        self._block.arguments += 4

    def expires(self, event_id: bytes, at: int) -> None:
        """Notes when an event expires; if several sessions use the id, the latest."""
        self._expiring[event_id] = max(at, self._expiring.get(event_id, at))
        self._block.arguments += 2

    def step(self, key: bytes, index: int, packed: bytes, most: int = SESSION_STEPS) -> None:
        """Adds a step of a session; the highest indexes are kept."""
        self._steps.setdefault((key, most), {})[index] = packed
        self._block.arguments += 2

    def assign(self, session_id: str, subject: str) -> None:
        """Notes whose session it is, unless that is known."""
        self._assigned.setdefault(session_id, subject)
        self._block.arguments += 2

    def document(self, number: int, packed: bytes, row: bytes, terms: Sequence[str], labels: Iterable[str]) -> None:
        self._documents += (b"%d" % number, with_checksum(number, packed))
        self._rows += row
        postings, counts = self._postings, Counter(terms)
        for term, posting in zip(counts, pack_postings(number, counts.values()), strict=True):
            postings[term] += posting
        named = pack_number(number)
        for label in labels:
            self._tagged[label] += named
        self._block.arguments += 2 + 2 * len(terms)

    def vector(self, space: str, row: bytes) -> None:
        self._vectors[space] += row
        self._block.arguments += 3

    def keep(self, key: bytes, value: bytes | None) -> None:
        """Sets or deletes a whole value."""
        self._values[key] = value
        self._block.arguments += 4

    def contribution(self, pattern: str, contribution_id: str, score: int, value: bytes) -> None:
        """Adds a contribution; those with the lowest `score` stay when the sample is full."""
        self.keep(self.keys.contribution(contribution_id), value)
        self._samples[pattern][contribution_id] = score
        self._digests += (encoded(contribution_id).encode(), digest(value))
        self._block.arguments += 12

    def precedent(self, contribution_id: str, partition: int, offset: int, card: bytes | None) -> None:
        """Sets the index entry of a contribution for similar sessions; None removes it."""
        self._precedents[contribution_id] = (partition, offset, card)
        self._block.arguments += 8

    def artifact(self, artifact_id: str, state: Listed) -> None:
        self._list(self._artifacts, artifact_id, state)

    def knowledge(self, record_id: str, state: Listed) -> None:
        self._list(self._knowledge, record_id, state)

    def _list(self, listed: dict[str, Listed], name: str, state: Listed) -> None:
        listed[name] = state
        self._block.arguments += 24

    def commands(self) -> Iterator[Command]:
        keys = self.keys
        artifacts = _Family(
            keys.artifact,
            keys.artifacts,
            keys.artifact_cards,
            keys.artifact_changes,
            list(Status),
            keys.digests("artifact"),
        )
        knowledge = _Family(
            keys.knowledge,
            keys.known,
            keys.knowledge_cards,
            keys.knowledge_changes,
            list(Standing),
            keys.digests("knowledge"),
        )
        yield from _listing(artifacts, self._artifacts)
        yield from _listing(knowledge, self._knowledge)
        for key, value in self._values.items():
            yield (b"DEL", key) if value is None else (b"SET", key, value)
        yield from self._precedent_commands()
        yield from self._sample_commands()
        digests, start = keys.digests("event"), keys.event("")
        for name, same_id in self._events.items():
            yield (b"HINCRBY", digests, name, b"%d" % digest_of_events(same_id))
        for name, same_id in self._events.items():  # a string would end at 512 MB
            yield from _split((b"RPUSH", start + name), same_id)
        for (key, most), steps in self._steps.items():
            kept = sorted(steps)[-most:]
            yield (b"ZADD", key, *(part for index in kept for part in (b"%d" % index, steps[index])))
            yield (b"ZREMRANGEBYRANK", key, b"0", b"%d" % (-most - 1))
        said = [part for s, whose in self._assigned.items() for part in (encoded(s).encode(), pack_assigned(s, whose))]
        yield from _split((*ASSIGN, keys.subjects, keys.assigned), said)
        if self._rows:
            yield from self._document_commands()
        rows = [part for name, at in self._expiring.items() for part in (b"%d" % at, name)]
        yield from _split((b"ZADD", self.keys.expiring, b"GT"), rows)
        if self._newest is not None:
            yield (b"ZADD", self.keys.newest, b"GT", b"%d" % self._newest, b"at")
        for (topic, partition), offset in self._versions.items():
            yield (b"HSET", self.keys.version, f"{topic}/{partition}".encode(), b"%d" % offset)

    def _document_commands(self) -> Iterator[Command]:
        rows, room = self.keys.rows, b"%d" % (SEARCHED * ROW.itemsize - len(self._rows))
        yield from _split((*PUT, rows, self.keys.documents, room, b"HSET"), self._documents)
        for start, parts in ((self.keys.postings(""), self._postings), (self.keys.tagged(""), self._tagged)):
            said = [one for pair in zip(map(ENCODED.__getitem__, parts), parts.values(), strict=True) for one in pair]
            yield from _split((*APPEND, rows, start, room), said)
        for space, vectors in self._vectors.items():  # a string would end at 512 MB
            yield (*PUT, rows, self.keys.vectors(space), room, b"RPUSH", bytes(vectors))
        count = b"%d" % (len(self._rows) // ROW.itemsize)
        yield (*ROWS, rows, self.keys.unsearched, room, bytes(self._rows), count)

    def _precedent_commands(self) -> Iterator[Command]:
        cards: list[bytes] = []
        gone: list[bytes] = []
        moved: defaultdict[int, list[bytes]] = defaultdict(list)
        for name, (partition, offset, card) in self._precedents.items():
            member = encoded(name).encode()
            moved[partition] += (b"%d" % offset, member)
            if card is None:
                gone.append(member)
            else:
                cards += (member, card)
        yield from _cards(self.keys.precedent_cards, gone, cards, self.keys.precedent_changes, moved)

    def _sample_commands(self) -> Iterator[Command]:
        """Writes contributions, then trims the samples, which may drop them again."""
        if not self._samples:
            return
        yield from _split((b"HSET", self.keys.digests("contribution")), self._digests)
        root, names, all_rows = self.keys.root.encode(), [], []
        for pattern, scores in self._samples.items():
            key, name = self.keys.sample(pattern), encoded(pattern).encode()
            rows = [part for id_, score in scores.items() for part in (b"%d" % score, encoded(id_).encode())]
            yield from _split((b"ZADD", key), rows)
            all_rows += [b"%b:%b" % (name, part) if at % 2 else part for at, part in enumerate(rows)]
            names.append(name)
        yield from _split((b"ZADD", self.keys.samples), all_rows)
        yield from _split((*_TRIM_PATTERNS, self.keys.samples, b"%d" % PATTERN_SAMPLE, root), names)
        yield (*_TRIM_TENANT, self.keys.samples, b"%d" % TENANT_SAMPLE, root)


class Hides(Protocol):
    """Tells which records were erased, so that they are left out."""

    def hides_episode(self, fields: dict[str, Any]) -> bool: ...

    def hides_contribution(self, fields: Mapping[str, Any], place: tuple[int, int] | None = None) -> bool: ...


class Changes:
    """Changes of a block, by tenant. `embed` computes episode vectors, if enabled."""

    def __init__(self, keys: Keys, embed: Embed | None = None, hides: Hides | None = None) -> None:
        self.embed = embed
        self.hides = hides
        self.arguments = 0
        """Approximate number of command arguments."""
        self._keys = keys
        self._tenants: dict[str, TenantChanges] = {}

    def of(self, tenant_id: str) -> TenantChanges:
        found = self._tenants.get(tenant_id)
        if found is None:
            found = self._tenants[tenant_id] = TenantChanges(self, self._keys.tenant(tenant_id))
        return found

    def commands(self) -> list[Command]:
        changed = {tenant_id: tenant for tenant_id, tenant in self._tenants.items() if tenant.changed}
        tenants = _split((b"SADD", self._keys.tenants), [tenant_id.encode() for tenant_id in changed])
        return [*tenants, *(command for tenant in changed.values() for command in tenant.commands())]


def _split(head: Command, rest: Sequence[bytes]) -> Iterator[Command]:
    """Splits a command that has too many arguments; pairs stay together."""
    for start in range(0, len(rest), ARGUMENTS):
        yield (*head, *rest[start : start + ARGUMENTS])


def _listing(family: _Family, changed: Mapping[str, Listed]) -> Iterator[Command]:
    if not changed:
        return
    ids = [name.encode() for name in changed]
    listed: dict[str, list[bytes]] = {}
    digests: list[bytes] = []
    cards: list[bytes] = []
    moved: dict[int, list[bytes]] = {}
    for (name, state), member in zip(changed.items(), ids, strict=True):
        key = family.record(name)
        yield (b"DEL", key) if state.value is None else (b"SET", key, state.value)
        if state.value is not None:
            listed.setdefault(state.status, []).extend((member, state.type))
            digests += (encoded(name).encode(), digest(state.value))
        if state.card is not None:
            cards += (member, state.card)
        moved.setdefault(state.partition, []).extend((b"%d" % state.offset, member))
    gone = [member for member, state in zip(ids, changed.values(), strict=True) if state.card is None]
    erased = [encoded(name).encode() for name, state in changed.items() if state.value is None]
    yield from _split((b"HDEL", family.digests), erased)
    yield from _split((b"HSET", family.digests), digests)
    for status in family.statuses:
        yield from _split((b"HDEL", family.by_status(status)), ids)
    for status, rows in listed.items():
        yield from _split((b"HSET", family.by_status(status)), rows)
    yield from _cards(family.cards, gone, cards, family.changes, moved)


def _cards(
    key: bytes,
    gone: Sequence[bytes],
    cards: Sequence[bytes],
    changes: Callable[[int], bytes],
    moved: Mapping[int, Sequence[bytes]],
) -> Iterator[Command]:
    """Updates index entries, and the change lists that incremental readers follow."""
    yield from _split((b"HDEL", key), gone)
    yield from _split((b"HSET", key), cards)
    for partition, rows in moved.items():
        yield from _split((b"ZADD", changes(partition)), rows)
        yield (b"ZREMRANGEBYRANK", changes(partition), b"0", b"%d" % (-CHANGES - 1))
