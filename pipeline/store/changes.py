"""What a block of records changes in memory, gathered so that each key is written once. No I/O.

Enters: what each record says, in their order. Leaves: commands to the same effect as if each record had been written by
itself: of a thing that changes twice only the last state is written. Nothing fails.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from pipeline.contracts.artifact import Status
from pipeline.retrieval.postings import pack_posting
from pipeline.store.keys import Keys, TenantKeys

Command = tuple[bytes, ...]

_FORGET: Final = (
    b"EVAL",
    b"""
for _, held in ipairs(redis.call('SMEMBERS', KEYS[1])) do redis.call('HDEL', held, ARGV[1]) end
redis.call('DEL', KEYS[1])
""",
    b"1",
)
"""Removes the field from every hash that the set names, and the set."""
SESSION_STEPS: Final = 64
"""Recent steps kept per session."""
ARGUMENTS: Final = 1_000
"""Of one command at most: none holds up the server."""


class ArtifactState(NamedTuple):
    """The last that a block says of an artifact; with no value it is gone."""

    value: bytes | None
    status: str = ""
    type: bytes = b""
    held: Sequence[tuple[bytes, bytes]] = ()
    """Hashes in which it stands, and what stands there."""


class TenantChanges:
    """One tenant's; keys come as bytes, so that what has no key has failed before."""

    def __init__(self, block: "Changes", keys: TenantKeys) -> None:
        self.keys = keys
        self._block = block
        self._versions: dict[bytes, int] = {}
        self._newest: int | None = None
        self._events: dict[tuple[bytes, bytes], bytes] = {}
        self._steps: dict[bytes, dict[int, bytes]] = {}
        self._documents: list[bytes] = []
        self._postings: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._tagged: defaultdict[str, bytearray] = defaultdict(bytearray)
        self._values: dict[bytes, bytes | None] = {}
        self._artifacts: dict[str, ArtifactState] = {}

    @property
    def changed(self) -> bool:
        return bool(self._versions)

    def version(self, partition: bytes, offset: int) -> None:
        """The tenant's state is now as of this record."""
        self._versions[partition] = offset

    def event(self, key: bytes, session: bytes, value: bytes, at: int) -> None:
        self._events[key, session] = value
        self._newest = at if self._newest is None else max(at, self._newest)
        self._block.arguments += 5

    def step(self, key: bytes, index: int, packed: bytes) -> None:
        """One that a session has done; the highest indexes are kept."""
        steps = self._steps.setdefault(key, {})
        steps[index] = packed
        self._block.arguments += 2

    def document(self, number: int, packed: bytes, terms: Sequence[str], tags: Iterable[str]) -> None:
        self._documents += (b"%d" % number, packed)
        length = len(terms)
        once, postings = pack_posting(number, 1, length), self._postings
        for term, n in Counter(terms).items():
            postings[term] += once if n == 1 else pack_posting(number, n, length)
        for tag in tags:
            self._tagged[tag] += pack_posting(number, 1, 1)
        self._block.arguments += 2 + 4 * length

    def keep(self, key: bytes, value: bytes | None) -> None:
        """A whole value under its key, or nothing any more."""
        self._values[key] = value
        self._block.arguments += 4

    def artifact(self, artifact_id: str, state: ArtifactState) -> None:
        self._artifacts[artifact_id] = state
        self._block.arguments += 20 + 6 * len(state.held)

    def commands(self) -> Iterator[Command]:
        yield from self._artifact_commands()
        for key, value in self._values.items():
            yield (b"DEL", key) if value is None else (b"SET", key, value)
        for (key, session), value in self._events.items():
            yield (b"HSET", key, session, value)
        for key, steps in self._steps.items():
            kept = sorted(steps)[-SESSION_STEPS:]
            yield (b"ZADD", key, *(part for index in kept for part in (b"%d" % index, steps[index])))
            yield (b"ZREMRANGEBYRANK", key, b"0", b"%d" % (-SESSION_STEPS - 1))
        yield from _split((b"HSET", self.keys.documents), self._documents)
        for term, postings in self._postings.items():
            yield (b"APPEND", self.keys.postings(term), bytes(postings))
        for tag, postings in self._tagged.items():
            yield (b"APPEND", self.keys.tagged(tag), bytes(postings))
        if self._documents:
            yield (b"HINCRBY", self.keys.count, b"documents", b"%d" % (len(self._documents) // 2))
        if self._newest is not None:
            yield (b"ZADD", self.keys.newest, b"GT", b"%d" % self._newest, b"at")
        for partition, offset in self._versions.items():
            yield (b"HSET", self.keys.version, partition, b"%d" % offset)

    def _artifact_commands(self) -> Iterator[Command]:
        if not self._artifacts:
            return
        keys, ids = self.keys, [artifact_id.encode() for artifact_id in self._artifacts]
        listed: dict[str, list[bytes]] = {}
        held: dict[bytes, list[bytes]] = {}
        for artifact_id in self._artifacts:
            yield (*_FORGET, keys.artifact_terms(artifact_id), artifact_id.encode())
        for status in Status:
            yield from _split((b"HDEL", keys.artifacts(status)), ids)
        for (artifact_id, state), name in zip(self._artifacts.items(), ids, strict=True):
            key = keys.artifact(artifact_id)
            yield (b"DEL", key) if state.value is None else (b"SET", key, state.value)
            if state.value is not None:
                listed.setdefault(state.status, []).extend((name, state.type))
            for place, posting in state.held:
                held.setdefault(place, []).extend((name, posting))
            yield from _split((b"SADD", keys.artifact_terms(artifact_id)), [place for place, _ in state.held])
        for status_name, rows in listed.items():
            yield from _split((b"HSET", keys.artifacts(status_name)), rows)
        for place, rows in held.items():
            yield from _split((b"HSET", place), rows)


class Changes:
    """A block's, by tenant."""

    def __init__(self, keys: Keys) -> None:
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
