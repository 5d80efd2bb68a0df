"""Damage log, in a process's memory: the last records found lost or altered in Redis, until they are repaired.

Enters: a record's kind, tenant and id, from reads that found it damaged. Leaves: the names of those that still are,
which `/readyz` shows. Raises StoreUnavailableError. Names hold a kind of key and an id, never a value or a tenant.
"""

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.store.atomic_blocks import Client, reachable
from hmx_pipeline.store.redis_keys import TenantKeys
from hmx_pipeline.store.stored_digests import are_sound, is_sound, verified_document

NAMED: Final = 32
DOCUMENT: Final = "document"


class Lost(NamedTuple):
    tenant: TenantKeys
    kind: str
    """artifact, knowledge, contribution, event or DOCUMENT."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> bytes:
        if self.kind == DOCUMENT:
            return self.tenant.documents
        return f"{self.tenant.root}:{self.kind}:{encoded(self.name)}".encode()

    def questions(self, pipe: Any) -> int:
        """Queues the reads that `is_sound` needs, and returns their number."""
        if self.kind == DOCUMENT:
            pipe.hget(self.key, self.name)
            return 1
        ask = pipe.lrange(self.key, 0, -1) if self.kind == "event" else pipe.get(self.key)
        ask.hget(self.tenant.digests(self.kind), encoded(self.name))
        return 2

    def is_sound(self, answers: list[Any]) -> bool:
        """Returns whether the record matches its digest, or both are absent after an erasure."""
        if self.kind == DOCUMENT:
            return isinstance(answers[0], bytes) and verified_document(int(self.name), answers[0]) is not None
        value, wanted = answers
        if wanted is None and value in (None, []):
            return True
        return are_sound(value, wanted) if self.kind == "event" else is_sound(value, wanted)


class DamageLog:
    """Thread-safe."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._lock = threading.Lock()
        self._found: OrderedDict[Lost, None] = OrderedDict()

    def note(self, lost: Lost) -> None:
        METRICS.provenance_failed.labels(lost.kind).inc()
        with self._lock:
            self._found[lost] = None
            self._found.move_to_end(lost)
            while len(self._found) > NAMED:
                self._found.popitem(last=False)

    def named(self) -> list[str]:
        """Returns records that are still damaged, in one round trip. Raises StoreUnavailableError."""
        with self._lock:
            found = list(self._found)
        if not found:
            return []
        mended = [lost for lost, (_, sound) in zip(found, examined(self._client, found), strict=True) if sound]
        with self._lock:
            for lost in mended:
                self._found.pop(lost, None)
            return sorted(map(str, self._found))


def examined(client: Client, records: Sequence[Lost]) -> list[tuple[Any, bool]]:
    """Returns the value of each record and whether it is sound, as of one moment. Raises StoreUnavailableError."""
    with reachable(), client.pipeline(transaction=True) as pipe:
        counts = [each.questions(pipe) for each in records]
        answers = iter(pipe.execute(raise_on_error=False))
    found = [[next(answers) for _ in range(count)] for count in counts]
    return [(said[0], each.is_sound(said)) for each, said in zip(records, found, strict=True)]
