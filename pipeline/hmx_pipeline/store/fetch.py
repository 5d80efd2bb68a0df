"""Memory reads: everything a retrieval plan needs, and single records by id.

Enters: a plan, or a tenant and an id. Leaves: models of contracts/, `MemorySnapshot`, or None. Raises
StoreUnavailableError, TamperedError.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Final, Self
from urllib.parse import unquote

import orjson

from hmx_pipeline.contracts.erasure import ErasedScope, Erasure
from hmx_pipeline.contracts.fingerprint import PRIORS_TYPE, priors_pattern
from hmx_pipeline.contracts.keys import encoded
from hmx_pipeline.contracts.options import Profile, Standing, Status, Strategy
from hmx_pipeline.contracts.retention import Cuts, Retention
from hmx_pipeline.fingerprints.contents import FingerprintContents
from hmx_pipeline.retrieval.memory_completeness import Completeness
from hmx_pipeline.retrieval.retrieval_plan import RetrievalPlan
from hmx_pipeline.retrieval.score import MemorySnapshot
from hmx_pipeline.retrieval.vectors import Embed
from hmx_pipeline.settings import Settings
from hmx_pipeline.store import receipt_contents
from hmx_pipeline.store.atomic_blocks import Client, TamperedError, reachable
from hmx_pipeline.store.capture_coordination import CaptureCoordination
from hmx_pipeline.store.damage_log import Lost, examined
from hmx_pipeline.store.embedding_model import Semantic
from hmx_pipeline.store.erased_memory import Erasures
from hmx_pipeline.store.fingerprint_inputs import read_learnt
from hmx_pipeline.store.found_sources import with_earlier, with_soundness
from hmx_pipeline.store.ledger_view import ledger_of, ledger_questions
from hmx_pipeline.store.memory_server import MemoryServer
from hmx_pipeline.store.projection import sample_score
from hmx_pipeline.store.redis_keys import Keys, TenantKeys
from hmx_pipeline.store.retained_memory import Leaving, leaving
from hmx_pipeline.store.search import Search, state_version
from hmx_pipeline.store.servers import Shared, connected
from hmx_pipeline.store.stored_digests import digest_of_events
from hmx_pipeline.topology import EPISODES

CONTRIBUTIONS: Final = 200
"""Contributions read at once, about as many as a block holds."""
SCANNED: Final = 20_000
"""Sessions whose subjects are counted."""
ARTIFACTS: Final = 1_000
"""Read at once where all are wanted."""

NAMED: Final = 32
"""Newest episodes of an event id whose sessions are listed."""
SAME_ID: Final = 2 * NAMED
"""List items read at once: session and episode alternate."""
LOOKED_FOR: Final = 1_000_000
"""Newest episodes of an event id searched for a session; blocks Redis for 40 ms at most."""

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Ambiguous:
    """Several sessions of the tenant used this event id; the caller must name one."""

    sessions: tuple[str, ...]
    """Sessions of the newest NAMED episodes."""


@dataclass(frozen=True, slots=True)
class ArtifactPage:
    artifacts: tuple[Json, ...]
    cursor: str | None
    """Cursor of the next page; None at the end."""
    total: int


@dataclass(frozen=True, slots=True)
class Counts:
    """Sizes of a tenant's memory."""

    artifacts: dict[str, dict[str, int]]
    """Type → status → count."""
    knowledge: dict[str, int]
    """Status → count."""


class Store:
    """Read access to memory; thread-safe. Its servers share the tenants."""

    def __init__(self, clients: Sequence[Client], keys: Keys, embed: Embed | None = None) -> None:
        self.embed: Final = embed
        """Computes a question's vector, if episodes have vectors."""
        self._keys = keys
        self._clients = Shared(clients)
        self._searches = Shared([Search(client, keys) for client in clients])
        self._servers = Shared([MemoryServer(client, keys) for client in clients])
        self.servers: Final = self._servers.all

    def capturing(self, epoch_ms: int) -> CaptureCoordination:
        """Returns the capture coordination in the same Redis."""
        return CaptureCoordination(self._clients, self._keys, epoch_ms)

    @classmethod
    def open(cls, settings: Settings) -> Self:
        """Connects on first use. Raises SettingsError if Redis or the requested model is not configured."""
        clients, model = connected(settings), Semantic.of(settings)
        name, embed = (model.name, model.vector) if model is not None else ("", None)
        return cls(clients, Keys(settings.topic_prefix, name, len(clients)), embed)

    def replaces(self, tenant_id: str) -> bool:
        """Returns whether another layout is there, whose processes may still serve the tenant."""
        return self._servers.of(tenant_id).layouts.replaces()

    def tenants(self) -> list[str]:
        return sorted(tenant for server in self.servers for tenant in server.tenants())

    def positions(self) -> dict[str, int]:
        """Returns topic/partition → position up to which records are in memory, on every server."""
        found = [server.positions() for server in self.servers]
        everywhere = set.intersection(*map(set, found))
        return {name: min(each[name] for each in found) for name in found[0] if name in everywhere}

    def completeness(self, tenant_id: str | None = None) -> Completeness:
        """Returns whether memory is complete, of all tenants or of one; in one round trip a server."""
        asked = self.servers if tenant_id is None else [self._servers.of(tenant_id)]
        return min((server.completeness() for server in asked), key=lambda found: (found.complete, found.percent))

    def state_version(self, tenant_id: str) -> str:
        return state_version(self._offsets(tenant_id), self._keys.semantic)

    def newest_episodes(self, tenant_id: str) -> dict[int, int]:
        """Returns the events partitions that hold sessions of the tenant, each with the offset of its last episode."""
        offsets = {name.decode().rpartition("/"): at for name, at in self._offsets(tenant_id).items()}
        return {int(partition): at for (topic, _, partition), at in offsets.items() if topic == EPISODES}

    def _offsets(self, tenant_id: str) -> dict[bytes, int]:
        """Returns topic/partition → offset of the tenant's last record in memory."""
        with reachable():
            offsets = self._clients.of(tenant_id).hgetall(self._keys.tenant(tenant_id).version)
        return {name: int(at) for name, at in offsets.items()}

    def fetch(self, plan: RetrievalPlan) -> MemorySnapshot:
        """Reads what the plan needs in two round trips, each a snapshot; the second only for sources that are not
        cached. More trips follow for earlier versions, imported priors, expiring events, and after concurrent changes.
        """
        tenant = self._keys.tenant(plan.request.tenant_id)
        fetched, expiring = self._searches.of(plan.request.tenant_id).fetch(plan)
        failed: list[Lost] = []
        with reachable():
            if plan.earlier:
                sound = partial(self._sound, failed=failed)
                fetched = replace(fetched, artifacts=with_earlier(tenant, fetched.artifacts, plan, sound))
            if plan.request.strategy is Strategy.FINGERPRINT_GUIDED:
                fetched = replace(fetched, priors=self._priors(tenant, plan.request.agent_id, failed))
            if plan.request.profile is Profile.COGNITIVE:
                asked = ledger_questions(plan, fetched)
                found = self._sound([Lost(tenant, "knowledge", name) for name in asked], failed) if asked else []
                fetched = replace(fetched, ledger=ledger_of(asked.values(), map(_json, found)))
            if failed:
                fetched = replace(fetched, failed=tuple(sorted({*fetched.failed, *map(str, failed)})))
            client = self._clients.of(plan.request.tenant_id)
            return with_soundness(client, tenant, fetched) if expiring else fetched

    def get_event(self, tenant_id: str, event_id: str, session_id: str | None = None) -> Json | Ambiguous | None:
        """Returns the newest episode with this id. Raises TamperedError."""
        lost, client = Lost(self._keys.tenant(tenant_id), "event", event_id), self._clients.of(tenant_id)
        with reachable(), client.pipeline(transaction=True) as pipe:
            pipe.llen(lost.key).lrange(lost.key, -SAME_ID, -1).hget(lost.tenant.digests("event"), encoded(event_id))
            length, parts, wanted = pipe.execute(raise_on_error=False)
        if not parts and wanted is None:
            return None
        if isinstance(parts, Exception) or length % 2:
            raise self._tampered(lost)
        asked = None if session_id is None else encoded(session_id).encode()
        total, found = 0, parts[-1] if asked is None and parts else None
        for start in range(0, length, SAME_ID):  # the digest covers all of them
            with reachable():
                page = parts if length <= SAME_ID else client.lrange(lost.key, start, start + SAME_ID - 1)
            page = page[: length - start]
            total += digest_of_events(page)
            if asked in page[::2]:
                found = page[-1 - 2 * page[-2::-2].index(asked)]
        if not length or b"%d" % total != wanted:
            raise self._tampered(lost)
        named = sorted({unquote(name.decode()) for name in parts[-2::-2]})
        return Ambiguous(tuple(named)) if asked is None and len(named) > 1 else _json(found)

    def newest_events(self, tenant_id: str, event_ids: Iterable[str]) -> dict[str, list[Json]]:
        """Returns the newest episodes with each of these ids; damaged ones are left out."""
        keys, names = self._keys.tenant(tenant_id), list(dict.fromkeys(event_ids))
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for name in names:
                pipe.lrange(keys.event(name), -SAME_ID, -1)
            lists = pipe.execute(raise_on_error=False)
        found: dict[str, list[Json]] = {name: [] for name in names}
        for name, parts in zip(names, lists, strict=True):
            for value in parts[1::2] if isinstance(parts, list) else ():
                with suppress(orjson.JSONDecodeError):
                    found[name].append(orjson.loads(value))
        return found

    def subject_of_session(self, tenant_id: str, session_id: str) -> str:
        """Returns the first subject that an event of the session named; empty if none did."""
        with reachable():
            found = self._clients.of(tenant_id).hget(self._keys.tenant(tenant_id).subjects, encoded(session_id))
        return (found or b"").decode()

    def subjects(self, tenant_id: str) -> tuple[Counter[str], bool]:
        """Returns how many sessions each subject has, and whether all sessions were looked at: SCANNED at most."""
        found: Counter[str] = Counter()
        with reachable():
            sessions = self._clients.of(tenant_id).hscan_iter(
                self._keys.tenant(tenant_id).subjects, count=CONTRIBUTIONS
            )
            found.update(subject.decode() for _, subject in islice(sessions, SCANNED))
            return found, found.total() < SCANNED

    def get_artifact(self, tenant_id: str, artifact_id: str) -> Json | None:
        """Returns an artifact in any status. Raises TamperedError."""
        return self._get(Lost(self._keys.tenant(tenant_id), "artifact", artifact_id))

    def get_contribution(self, tenant_id: str, contribution_id: str) -> Json | None:
        """Raises TamperedError."""
        return self._get(Lost(self._keys.tenant(tenant_id), "contribution", contribution_id))

    def get_contributions(self, tenant_id: str, contribution_ids: Sequence[str]) -> list[Json | None]:
        """Returns contributions in the order of the ids; None for missing or damaged ones."""
        keys = self._keys.tenant(tenant_id)
        found: list[Json | None] = []
        for start in range(0, len(contribution_ids), CONTRIBUTIONS):
            some = [Lost(keys, "contribution", each) for each in contribution_ids[start : start + CONTRIBUTIONS]]
            found += map(_json, self._sound(some))
        return found

    def session_contributions(self, tenant_id: str, session_id: str, segment_ids: Sequence[str]) -> list[Json]:
        """Returns the contributions of these segments of a session. A segment's id is that of its first event."""
        samples, wanted = self._keys.tenant(tenant_id).samples, set(segment_ids)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for score in (sample_score(session_id, each) for each in segment_ids):
                pipe.zrangebyscore(samples, score, score)
            ids = [unquote(name.decode().rpartition(":")[2]) for found in pipe.execute() for name in found]
        some = (each for each in self.get_contributions(tenant_id, ids) if each is not None and not each["withdrawn"])
        return [each for each in some if each["session_id"] == session_id and each["segment_id"] in wanted]

    def _get(self, lost: Lost) -> Json | None:
        ((value, sound),) = examined(self._clients.of(lost.tenant.tenant_id), [lost])
        if not sound:
            raise self._tampered(lost)
        return _json(value)

    def _sound(self, asked: Sequence[Lost], failed: list[Lost] | None = None) -> list[bytes | None]:
        """Reads records in one round trip; None for missing or damaged ones, which are added to `failed`."""
        found: list[bytes | None] = []
        tenant_id = asked[0].tenant.tenant_id
        for each, (value, sound) in zip(asked, examined(self._clients.of(tenant_id), asked), strict=True):
            if not sound:
                self._searches.of(tenant_id).noted.note(each)
                if failed is not None:
                    failed.append(each)
            found.append(value if sound else None)
        return found

    def _tampered(self, lost: Lost) -> TamperedError:
        self._searches.of(lost.tenant.tenant_id).noted.note(lost)
        return TamperedError(lost.kind, lost.name)

    def damaged(self) -> list[str]:
        """Returns kind and id of damaged records found by this process and not repaired yet."""
        return [name for search in self._searches.all for name in search.noted.named()]

    def lacking(self, tenant_id: str, events: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
        """Returns the (session, event) pairs without an episode in memory."""
        keys = self._keys.tenant(tenant_id)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for session, event in events:
                pipe.lpos(keys.event(event), encoded(session), rank=-1, maxlen=2 * LOOKED_FOR)
            held = pipe.execute(raise_on_error=False)
            if wrong := next((at for at in held if isinstance(at, Exception) and "WRONGTYPE" not in str(at)), None):
                raise wrong
        return [each for each, at in zip(events, held, strict=True) if not isinstance(at, int)]

    def learnt(self, tenant_id: str, agent_id: str | None = None) -> FingerprintContents:
        """Reads the contents of a fingerprint."""
        return read_learnt(self._clients.of(tenant_id), self._keys.tenant(tenant_id), tenant_id, agent_id)

    def newest(self, tenant_id: str) -> int:
        """Returns the time of the tenant's newest event (ms); 0 without events."""
        with reachable():
            return int(self._clients.of(tenant_id).zscore(self._keys.tenant(tenant_id).newest, b"at") or 0)

    def get_knowledge(self, tenant_id: str, record_id: str) -> Json | None:
        """Returns a record in any status. Raises TamperedError."""
        return self._get(Lost(self._keys.tenant(tenant_id), "knowledge", record_id))

    def knowledge_ids(self, tenant_id: str, statuses: Sequence[Standing] = tuple(Standing)) -> dict[str, str]:
        """Returns id → kind of the knowledge records in these statuses."""
        tenant = self._keys.tenant(tenant_id)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for status in statuses:
                pipe.hgetall(tenant.known(status))
            return {name.decode(): kind.decode() for found in pipe.execute() for name, kind in found.items()}

    def knowledge_records(self, tenant_id: str, record_ids: Sequence[str]) -> list[Json]:
        """Returns the records with these ids, without missing and damaged ones."""
        tenant = self._keys.tenant(tenant_id)
        found = self._sound([Lost(tenant, "knowledge", each) for each in record_ids]) if record_ids else []
        return [fields for value in found if (fields := _json(value)) is not None]

    def sessions_of(self, tenant_id: str, subject: str) -> set[str]:
        """Returns the sessions whose first subject this is."""
        return receipt_contents.sessions_of(self._clients.of(tenant_id), self._keys, tenant_id, subject)

    def held(self, erasure: Erasure, erased: Erasures | None = None) -> receipt_contents.HeldRecords:
        """Returns what memory holds of an erasure; with `erased`, only the events that these marks hide. Reads all of
        the tenant's memory."""
        return receipt_contents.held(self._clients.of(erasure.tenant_id), self._keys, erasure, erased)

    def leaving(self, asked: Retention, known: Cuts, now_ms: int) -> Leaving:
        """Returns what a tenant's retention would take by now. Reads all of its memory."""
        return leaving(self._clients.of(asked.tenant_id), self._keys, asked, known, now_ms)

    def keep_held(self, erasure: Erasure, found: receipt_contents.HeldRecords, seconds: int) -> None:
        """Keeps what an erasure covers until its receipt is made."""
        receipt_contents.keep_held(self._clients.of(erasure.tenant_id), self._keys, erasure, found, seconds)

    def kept_held(
        self, tenant_id: str, erasure_id: str, scope: ErasedScope, name: str
    ) -> tuple[Erasure, receipt_contents.HeldRecords] | None:
        """Returns an earlier erasure of this, and what it covered; None if none is kept."""
        return receipt_contents.kept_held(self._clients.of(tenant_id), self._keys, tenant_id, erasure_id, scope, name)

    def counts(self, tenant_id: str) -> Counts:
        """Counts artifacts and knowledge records in one round trip."""
        tenant = self._keys.tenant(tenant_id)
        with reachable(), self._clients.of(tenant_id).pipeline(transaction=False) as pipe:
            for status in Status:
                pipe.hvals(tenant.artifacts(status))
            for standing in Standing:
                pipe.hlen(tenant.known(standing))
            found = iter(pipe.execute())
        artifacts: dict[str, dict[str, int]] = {}
        for status in Status:
            for kind, count in sorted(Counter(next(found)).items()):
                artifacts.setdefault(kind.decode(), {})[str(status)] = count
        return Counts(dict(sorted(artifacts.items())), {str(standing): next(found) for standing in Standing})

    def list_artifacts(
        self,
        tenant_id: str,
        artifact_type: str | None = None,
        status: Status = Status.ACTIVE,
        limit: int = 20,
        cursor: str | None = None,
    ) -> ArtifactPage:
        """Lists artifacts of one status by id; active by default (HMX-A §5)."""
        tenant = self._keys.tenant(tenant_id)
        with reachable():
            listed = self._clients.of(tenant_id).hgetall(tenant.artifacts(status))
            wanted = None if artifact_type is None else artifact_type.encode()
            ids = sorted(i.decode() for i, held in listed.items() if wanted is None or held == wanted)
            rest = [i for i in ids if cursor is None or i > cursor]
        found = self._sound([Lost(tenant, "artifact", i) for i in rest[:limit]]) if rest else []
        page = tuple(fields for value in found if (fields := _json(value)) is not None)
        return ArtifactPage(page, rest[limit - 1] if len(rest) > limit else None, len(ids))

    def all_artifacts(
        self, tenant_id: str, artifact_type: str | None = None, status: Status = Status.ACTIVE
    ) -> Iterator[dict[str, Any]]:
        """Every page of `list_artifacts`, one after the other."""
        cursor: str | None = ""
        while cursor is not None:
            page = self.list_artifacts(tenant_id, artifact_type, status, ARTIFACTS, cursor or None)
            yield from page.artifacts
            cursor = page.cursor

    def _priors(
        self, tenant: TenantKeys, agent_id: str | None, failed: list[Lost]
    ) -> Mapping[str, Mapping[str, float]] | None:
        """Returns the priors imported for the agent, else for all agents, else None."""
        listed = self._clients.of(tenant.tenant_id).hgetall(tenant.artifacts(Status.ACTIVE))
        ids = sorted(name.decode() for name, kind in listed.items() if kind == PRIORS_TYPE.encode())
        found = self._sound([Lost(tenant, "artifact", each) for each in ids], failed) if ids else []
        by_pattern = {fields["metadata"]["pattern"]: fields["content"] for value in found if (fields := _json(value))}
        return by_pattern.get(priors_pattern(agent_id or "")) or by_pattern.get(priors_pattern(""))


def _json(value: bytes | None) -> Json | None:
    if value is None:
        return None
    fields: Json = orjson.loads(value)
    return fields
