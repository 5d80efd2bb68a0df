"""What a block of records changes in memory, gathered so that each key is written once. No I/O.

Enters: what each record says, in their order. Leaves: commands to the same effect as if each record had been written by
itself: of a thing that changes twice only the last state is written. Nothing fails.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from pipeline.contracts.artifact import Status
from pipeline.contracts.keys import encoded
from pipeline.contracts.knowledge import Standing
from pipeline.contracts.limits import PATTERN_CONTRIBUTIONS, TENANT_CONTRIBUTIONS
from pipeline.retrieval.postings import ROW, pack_number, pack_postings
from pipeline.retrieval.vectors import Embed
from pipeline.store.digests import checked, digest, digest_of_events
from pipeline.store.keys import Keys, TenantKeys

Command = tuple[bytes, ...]

SEARCHED: Final = 20_000_000
"""Episodes of a tenant that can be searched. A string of Redis ends at 512 MB, and so do the rows soon after; what
comes then is found by its id and in its session, and is counted."""
_IF_ROOM: Final = b"local call, full = redis.call, redis.call('STRLEN', KEYS[1]) > tonumber(ARGV[1]) "
"""The key of the rows, and how long it may be before. A block's documents are searched all or none."""
APPEND: Final = (
    b"EVAL",
    _IF_ROOM + b"if full then return end for i = 2, #ARGV, 2 do call('APPEND', KEYS[2] .. ARGV[i], ARGV[i + 1]) end",
    b"2",
)
"""What the keys begin with, then what they end with and what is appended. A command each would cost whoever writes
twice as much, and the server a little less."""
PUT: Final = (b"EVAL", _IF_ROOM + b"if not full then call(ARGV[2], KEYS[2], unpack(ARGV, 3)) end", b"2")
ROWS: Final = (
    b"EVAL",
    _IF_ROOM + b"if not full then call('APPEND', KEYS[1], ARGV[2]) return 0 end "
    b"call('INCRBY', KEYS[2], ARGV[3]) return tonumber(ARGV[3])",
    b"2",
)
"""The last of a block's, for the others go by it. Answers how many documents there was no room for."""
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
"""Forgets the contributions of patterns whose ranks are the highest: samples, how many stay, root, patterns."""
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
"""The same of a tenant: its samples, how many stay, root."""
PATTERN_SAMPLE: Final = 2 * PATTERN_CONTRIBUTIONS
TENANT_SAMPLE: Final = 2 * TENANT_CONTRIBUTIONS
"""Contributions that stay here, by the same ranks: twice as many as the stage keeps, for an artifact may name for a
while what has lost its place there since."""
CHANGES: Final = 10_000
"""Ids that changed last are told to whoever has read before; who has missed more reads all cards again."""
SESSION_STEPS: Final = 64
"""Recent steps kept per session."""
SESSION_MESSAGES: Final = 4
"""Likewise, of what was said."""
ARGUMENTS: Final = 1_000
"""Of one command at most: none holds up the server."""


class Listed(NamedTuple):
    """The last that a block says of an artifact or a knowledge record; with no value it is gone."""

    partition: int
    offset: int
    value: bytes | None
    status: str = ""
    type: bytes = b""
    card: bytes | None = None
    """None where it is not searched."""


class _Family(NamedTuple):
    """Where such things are kept: by their id, by status, and what is searched of them."""

    record: Callable[[str], bytes]
    by_status: Callable[[str], bytes]
    cards: bytes
    changes: Callable[[int], bytes]
    statuses: Sequence[str]
    digests: bytes


class TenantChanges:
    """One tenant's; keys come as bytes, so that what has no key has failed before."""

    def __init__(self, block: "Changes", keys: TenantKeys) -> None:
        self.keys = keys
        self._block = block
        self._versions: dict[tuple[str, int], int] = {}
        self._newest: int | None = None
        self._expiring: dict[bytes, int] = {}
        self._events: defaultdict[bytes, list[bytes]] = defaultdict(list)
        self._steps: dict[tuple[bytes, int], dict[int, bytes]] = {}
        """By key and how many stay there."""
        self._documents: list[bytes] = []
        self._rows = bytearray()
        self._postings: dict[str, bytes] = {}
        self._tagged: dict[str, bytes] = {}
        self._vectors: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._values: dict[bytes, bytes | None] = {}
        self._samples: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self._digests: list[bytes] = []
        """Of contributions."""
        self._precedents: dict[str, tuple[int, int, bytes | None]] = {}
        self._artifacts: dict[str, Listed] = {}
        self._knowledge: dict[str, Listed] = {}

    @property
    def changed(self) -> bool:
        return bool(self._versions)

    def version(self, topic: str, partition: int, offset: int) -> None:
        """The tenant's state is now as of this record."""
        self._versions[topic, partition] = offset

    def event(self, key: bytes, session_id: str, episode: bytes, at: int) -> None:
        self._events[key] += (encoded(session_id).encode(), episode)
        self._newest = at if self._newest is None else max(at, self._newest)
        self._block.arguments += 4

    def expires(self, event_id: bytes, at: int) -> None:
        """Of an id that several sessions use the last."""
        self._expiring[event_id] = max(at, self._expiring.get(event_id, at))
        self._block.arguments += 2

    def step(self, key: bytes, index: int, packed: bytes, most: int = SESSION_STEPS) -> None:
        """One of a session; the highest indexes are kept."""
        steps = self._steps.setdefault((key, most), {})
        steps[index] = packed
        self._block.arguments += 2

    def document(self, number: int, packed: bytes, row: bytes, terms: Sequence[str], labels: Iterable[str]) -> None:
        self._documents += (b"%d" % number, checked(number, packed))
        self._rows += row
        postings, counts = self._postings, Counter(terms)
        held = postings.get
        for term, posting in zip(counts, pack_postings(number, counts.values()), strict=True):
            postings[term] = held(term, b"") + posting
        named = pack_number(number)
        for label in labels:
            self._tagged[label] = self._tagged.get(label, b"") + named
        self._block.arguments += 2 + 2 * len(terms)

    def vector(self, space: str, row: bytes) -> None:
        self._vectors[space] += row
        self._block.arguments += 3

    def keep(self, key: bytes, value: bytes | None) -> None:
        """A whole value under its key, or nothing any more."""
        self._values[key] = value
        self._block.arguments += 4

    def contribution(self, pattern: str, contribution_id: str, score: int, value: bytes) -> None:
        """`score` says who stays at a bound, the lowest first."""
        self.keep(self.keys.contribution(contribution_id), value)
        self._samples[pattern][contribution_id] = score
        self._digests += (encoded(contribution_id).encode(), digest(value))
        self._block.arguments += 12

    def precedent(self, contribution_id: str, partition: int, offset: int, card: bytes | None) -> None:
        """What is searched of a contribution that tells what was done; None where it does not say so any more."""
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
        start = len(keys.event(""))
        for key, same_id in self._events.items():
            yield (b"HINCRBY", keys.digests("event"), key[start:], b"%d" % digest_of_events(same_id))
        for key, same_id in self._events.items():  # a string would have an end, at 512 MB; a hash costs more
            yield from _split((b"RPUSH", key), same_id)
        for (key, most), steps in self._steps.items():
            kept = sorted(steps)[-most:]
            yield (b"ZADD", key, *(part for index in kept for part in (b"%d" % index, steps[index])))
            yield (b"ZREMRANGEBYRANK", key, b"0", b"%d" % (-most - 1))
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
            said = [one for name, part in parts.items() for one in (encoded(name).encode(), part)]
            yield from _split((*APPEND, rows, start, room), said)
        for space, vectors in self._vectors.items():  # a list: a string would have an end
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
        """A contribution is written, and then perhaps has no place."""
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


class Changes:
    """A block's, by tenant. `embed` makes episodes' vectors, where that is asked for."""

    def __init__(self, keys: Keys, embed: Embed | None = None) -> None:
        self.embed = embed
        self.arguments = 0
        """About how many the commands will have."""
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
    """One command, or several where it would have too many arguments; pairs stay together."""
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
    """What is searched now, and what a reader who has read it before must look at again."""
    yield from _split((b"HDEL", key), gone)
    yield from _split((b"HSET", key), cards)
    for partition, rows in moved.items():
        yield from _split((b"ZADD", changes(partition)), rows)
        yield (b"ZREMRANGEBYRANK", changes(partition), b"0", b"%d" % (-CHANGES - 1))
