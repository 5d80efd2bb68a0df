"""Source cache: decodes the documents and records that a search has found, and keeps those used last.

Enters: document numbers, and record keys with the digests that the index has. Leaves: `CachedSource`s; None if Redis
was refilled or a record changed meanwhile, so that the search begins again. Documents are cached by number and filling,
records by digest, so an entry never becomes stale. Raises StoreUnavailableError.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from hashlib import blake2b
from typing import Any, Final

import msgspec
import orjson

from hmx_pipeline.contracts.artifact import Artifact
from hmx_pipeline.contracts.canonical import content_hash
from hmx_pipeline.contracts.evidence import Contribution
from hmx_pipeline.contracts.knowledge import KnowledgeRecord
from hmx_pipeline.contracts.limits import MB
from hmx_pipeline.retrieval.memory_index import Hit
from hmx_pipeline.retrieval.score import Made
from hmx_pipeline.retrieval.searchable import Document
from hmx_pipeline.store.atomic_blocks import Client, snapshot
from hmx_pipeline.store.redis_keys import Keys, TenantKeys
from hmx_pipeline.store.stored_digests import verified_document
from hmx_pipeline.store.tenant_index import Recent

SOURCES_BYTES: Final = 256 * MB
"""Bytes of cached models, including what packs derive from them; decoding is the largest cost of a pack."""
_DOCUMENT_BYTES: Final = (1_500, 4)
_RECORD_BYTES: Final = (5_000, 10)
"""Approximate base size, and factor per byte."""
_DOCUMENT: Final = msgspec.msgpack.Decoder(Document)

Model = tuple[Any, bool]
"""The decoded record, or None, and whether its content matches its hash (HMX-A §8)."""


class CachedSource(msgspec.Struct, frozen=True, gc=False):
    model: Any
    sound: bool
    made: Made = msgspec.field(default_factory=Made)


class Wanted(msgspec.Struct, frozen=True, gc=False):
    """A record to read: what its key is made by, and its decoder. Most are kept, so few need their key."""

    hit: Hit
    spelt: Callable[[str], bytes]
    read: Callable[[bytes], Model]

    @property
    def key(self) -> bytes:
        return self.spelt(self.hit.name)

    def is_in(self, value: object) -> bool:
        """Returns whether the value is the record found in the index."""
        return isinstance(value, bytes) and blake2b(value, digest_size=len(self.hit.digest)).digest() == self.hit.digest


Place = tuple[bytes | None, str, int]
"""Cache key of a document: filling, tenant, number."""


class SourceCache:
    """Thread-safe."""

    def __init__(self, client: Client, keys: Keys) -> None:
        self._client = client
        self._keys = keys
        self._kept: Recent[CachedSource] = Recent(SOURCES_BYTES // keys.servers)

    def read(
        self,
        tenant: TenantKeys,
        filling: bytes | None,
        said: Sequence[int],
        records: Sequence[Wanted],
        failed: list[bytes] | None = None,
    ) -> tuple[list[CachedSource | None], Mapping[bytes, CachedSource]] | None:
        """Returns documents in order and records by digest. Returns None if Redis was refilled or a record changed;
        if `failed` is given, changed records are marked unsound and added to it instead."""
        places: list[Place] = [(filling, tenant.root, number) for number in said]
        digests = [each.hit.digest for each in records]
        known = self._kept.known([*places, *digests])
        documents = known[: len(places)]
        found: dict[Any, Any] = dict(zip(digests, known[len(places) :], strict=True))
        unread = [at for at, source in enumerate(documents) if source is None]
        lacking = [each for each in records if found[each.hit.digest] is None]
        if unread or lacking:
            now, read, altered = self._read(tenant, [places[at] for at in unread], lacking)
            if now != filling or (altered and failed is None):
                return None
            for at in unread:
                documents[at] = read.get(places[at])
            found.update(read | altered)
            if failed is not None:
                failed += [each.key for each in lacking if each.hit.digest in altered]
        return documents, found

    def _read(
        self, tenant: TenantKeys, unread: Sequence[Place], lacking: Sequence[Wanted]
    ) -> tuple[bytes | None, dict[Hashable, CachedSource], dict[Hashable, CachedSource]]:
        """Returns the current filling, the sources read, and those that were altered."""
        documents = [(b"HMGET", tenant.documents, *(b"%d" % number for *_, number in unread))] if unread else []
        filling, *answers = snapshot(
            self._client, [(b"GET", self._keys.filling), *documents, *((b"GET", each.key) for each in lacking)], set()
        )
        bodies = (answers.pop(0) if unread else None) or [None] * len(unread)
        read: dict[Hashable, CachedSource] = {}
        for place, body in zip(unread, bodies, strict=True):
            packed = None if body is None else verified_document(place[2], body)
            if packed is not None:
                said = _DOCUMENT.decode(packed) if packed else None  # None: it was deleted
                read[place] = self._keep(place, (said, True), _DOCUMENT_BYTES, packed)
        altered: dict[Hashable, CachedSource] = {}
        for each, value in zip(lacking, answers, strict=True):
            if each.is_in(value):
                read[each.hit.digest] = self._keep(each.hit.digest, each.read(value), _RECORD_BYTES, value)
            else:
                altered[each.hit.digest] = CachedSource(_named(each, value), False)
        return filling, read, altered

    def _keep(self, key: Hashable, model: Model, size: tuple[int, int], value: bytes) -> CachedSource:
        least, each = size
        return self._kept.put(key, CachedSource(*model), least + each * len(value))


def _named(wanted: Wanted, value: object) -> Any:
    """Returns an altered record if it still has its name, so that a pack can report what it leaves out."""
    model = wanted.read(value)[0] if isinstance(value, bytes) else None
    names = (getattr(model, field, None) for field in ("artifact_id", "record_id", "contribution_id"))
    return model if wanted.hit.name in names else None


def read_artifact(record: bytes) -> Model:
    with suppress(ValueError):
        return Artifact.model_validate_json(record), True
    with suppress(ValueError, LookupError, TypeError):
        fields = orjson.loads(record)
        return Artifact.model_validate(fields | {"content_hash": content_hash(fields["content"])}), False
    return None, False


def read_knowledge(record: bytes) -> Model:
    with suppress(ValueError):
        return KnowledgeRecord.model_validate_json(record), True
    return None, False


def read_contribution(record: bytes) -> Model:
    with suppress(ValueError):
        return Contribution.model_validate_json(record), True
    return None, False
