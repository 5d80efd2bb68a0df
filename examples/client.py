"""Python client of the HTTP API `/v1`, with keyword arguments and typed answers.

The address is the argument `base_url`, else HIPPOCORTEX_BASE_URL, else this machine. Every method returns a struct.
Raises `ClientError` with the service's error code, or `network_error` if there is no answer.

    from client import Hippocortex

    hx = Hippocortex(api_key="hx_test_acme")
    await hx.capture(type="message", session_id="s-1", payload={"role": "user", "content": "Deploy payments"})
"""

import asyncio
import http.client
import os
import urllib.error
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar
from urllib.parse import quote, urlencode

import msgspec

HERE: Final = "http://127.0.0.1:8080/v1"
TIMEOUT_S: Final = 30.0
Section = Literal["procedures", "failures", "decisions", "facts", "causal", "context"]


class ClientError(Exception):
    """A failed call. `code` is stable across releases; `status` is 0 without an answer."""

    def __init__(self, code: str, message: str, status: int = 0, details: Sequence[Any] = ()) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.status = status
        self.details = details


class _Said(msgspec.Struct, rename="camel"):
    pass


class Captured(_Said):
    event_id: str
    status: Literal["ingested", "duplicate"]
    reason: str | None = None


class CapturedBatch(_Said):
    results: tuple[Captured, ...]
    """One result per valid event, in order."""
    summary: dict[str, int]


class Learned(_Said):
    run_id: str
    status: Literal["completed", "partial", "failed"]
    artifacts: dict[str, Any]
    stats: dict[str, int]


class Source(_Said):
    source_type: str
    source_id: str
    artifact_type: str | None = None
    evidence_count: int | None = None


class Entry(_Said):
    section: Section
    content: str
    confidence: float
    provenance: tuple[Source, ...] = ()


class Budget(_Said):
    limit: int
    used: int
    compression_ratio: float
    entries_included: int
    entries_dropped: int


class Pack(_Said):
    pack_id: str
    entries: tuple[Entry, ...]
    budget: Budget


class Artifact(_Said):
    id: str
    type: str
    status: str
    title: str
    content: dict[str, Any]
    confidence: float
    evidence_count: int
    created_at: str
    updated_at: str


class Pagination(_Said):
    has_more: bool
    total: int
    cursor: str | None = None


class Artifacts(_Said):
    artifacts: tuple[Artifact, ...]
    pagination: Pagination


class Fingerprint(msgspec.Struct, omit_defaults=True):
    """An exported fingerprint (HMX-F); as JSON it is the input of `hmx fingerprint import`."""

    fingerprint_id: str
    fingerprint_hash: str
    compression_tier: Literal["full", "compact", "minimal"]
    tenant_id: str
    created_at: str
    artifact_summaries: dict[str, Any]
    behavioral_patterns: dict[str, Any]
    graph_digest: dict[str, Any]
    semantic_summary: dict[str, Any]
    context_priors: dict[str, Any]
    hmx_version: str
    fingerprint_version: int
    metadata: dict[str, Any]
    agent_id: str | None = None


class _Error(_Said):
    code: str
    message: str
    details: tuple[Any, ...] = ()


class _Envelope(_Said):
    ok: bool
    data: msgspec.Raw = msgspec.Raw()
    error: _Error | None = None


Answer = TypeVar("Answer", bound=msgspec.Struct)


class Hippocortex:
    """Asynchronous client; safe to share between tasks. Each call opens its own connection."""

    def __init__(self, api_key: str, base_url: str | None = None, timeout: float = TIMEOUT_S) -> None:
        self._key = api_key
        self._url = (base_url or os.environ.get("HIPPOCORTEX_BASE_URL") or HERE).rstrip("/")
        self._timeout = timeout

    async def capture(
        self,
        *,
        type: str,  # noqa: A002  the name in the protocol
        session_id: str,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
        user_id: str | None = None,
    ) -> Captured:
        """Sends one event. An idempotency key makes resending safe within a session. `user_id`: whose memory it is."""
        body = {"type": type, "sessionId": session_id, "payload": payload, "metadata": metadata, "userId": user_id}
        return await self._post("/capture", Captured, {**body, "idempotencyKey": idempotency_key})

    async def capture_batch(self, events: Iterable[Mapping[str, Any]]) -> CapturedBatch:
        """Sends up to 1,000 events, each a mapping with `type`, `sessionId`, `payload` and optional fields."""
        return await self._post("/capture/batch", CapturedBatch, {"events": list(events)})

    async def learn(
        self, *, scope: Literal["incremental", "full"] = "incremental", artifact_types: Sequence[str] | None = None
    ) -> Learned:
        """Waits until earlier captures are compiled; returns `partial` after some seconds."""
        return await self._post("/learn", Learned, {"scope": scope, "options": {"artifactTypes": artifact_types}})

    async def synthesize(
        self,
        query: str,
        *,
        max_tokens: int = 4000,
        sections: Sequence[Section] | None = None,
        min_confidence: float = 0.3,
        include_provenance: bool = True,
        fill: Literal["relevant", "budget"] = "relevant",
        user_id: str | None = None,
    ) -> Pack:
        """Returns a context pack within `max_tokens`: relevant entries, or all that fit. What is private to `user_id`
        is found for that person only."""
        options = {
            "maxTokens": max_tokens,
            "sections": sections,
            "minConfidence": min_confidence,
            "includeProvenance": include_provenance,
            "fill": fill,
        }
        return await self._post("/synthesize", Pack, {"query": query, "options": options, "userId": user_id})

    async def export_fingerprint(
        self, *, tier: Literal["full", "compact", "minimal"] = "compact", agent_id: str | None = None
    ) -> Fingerprint:
        """Exports what the tenant, or one of its agents, has learnt."""
        return await self._post("/fingerprints", Fingerprint, {"tier": tier, "agentId": agent_id})

    async def list_artifacts(self, **asked: str | int) -> Artifacts:
        """Lists artifacts; takes `type`, `status`, `sort`, `order`, `limit` and `cursor`."""
        return await self._call("GET", f"/artifacts?{urlencode(asked)}", Artifacts)

    async def get_artifact(self, artifact_id: str) -> Artifact:
        return await self._call("GET", f"/artifacts/{quote(artifact_id, safe='')}", Artifact)

    async def _post(self, path: str, answer: type[Answer], body: Mapping[str, Any]) -> Answer:
        return await self._call("POST", path, answer, msgspec.json.encode(body))

    async def _call(self, method: str, path: str, answer: type[Answer], body: bytes | None = None) -> Answer:
        said = await asyncio.to_thread(self._asked, method, path, body)
        return msgspec.json.decode(said, type=answer)

    def _asked(self, method: str, path: str, body: bytes | None) -> bytes:
        """Returns the data of the answer. Raises ClientError."""
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers, method=method)  # noqa: S310  the caller chose the address
        status = 0
        try:
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310  the caller chose the address
                    status, said = answer.status, answer.read()
            except urllib.error.HTTPError as refused:
                with refused:
                    status, said = refused.code, refused.read()
            envelope = msgspec.json.decode(said, type=_Envelope)
        except (OSError, http.client.HTTPException, msgspec.MsgspecError) as error:
            raise ClientError("network_error", str(error), status) from error
        if envelope.error is not None or not envelope.ok:
            why = envelope.error or _Error("unknown_error", f"HTTP {status}")
            raise ClientError(why.code, why.message, status, why.details)
        return bytes(envelope.data)
