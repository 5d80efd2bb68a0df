"""A client of the service's `/v1` with keyword arguments and typed answers.

Enters: a key, and where the service is: an argument, else HIPPOCORTEX_BASE_URL, else this machine. Leaves: a struct for
each answer. Fails with `ClientError`, by the code that the service gives; `network_error` where it gives none.

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
    """`code` is stable; `status` is 0 where there was no answer."""

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
    """One for each event that was valid, in order."""
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
    """What was learnt, to be carried elsewhere (HMX-F). As JSON it is what `hmx fingerprint import` takes."""

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
    """Tasks may share one; each call has a connection of its own."""

    def __init__(self, api_key: str, base_url: str | None = None, timeout: float = TIMEOUT_S) -> None:
        self._key = api_key
        self._url = (base_url or os.environ.get("HIPPOCORTEX_BASE_URL") or HERE).rstrip("/")
        self._timeout = timeout

    async def capture(
        self,
        *,
        type: str,  # noqa: A002  as the overview of the protocol has it
        session_id: str,
        payload: Mapping[str, Any],
        metadata: Mapping[str, Any] | None = None,
        idempotency_key: str | None = None,
    ) -> Captured:
        """One event. With a key it is taken once in its session, however often it is sent."""
        body = {"type": type, "sessionId": session_id, "payload": payload, "metadata": metadata}
        return await self._post("/capture", Captured, {**body, "idempotencyKey": idempotency_key})

    async def capture_batch(self, events: Iterable[Mapping[str, Any]]) -> CapturedBatch:
        """Up to 1,000 events, each with `type`, `sessionId`, `payload` and what else a capture may have."""
        return await self._post("/capture/batch", CapturedBatch, {"events": list(events)})

    async def learn(
        self, *, scope: Literal["incremental", "full"] = "incremental", artifact_types: Sequence[str] | None = None
    ) -> Learned:
        """Returns when everything captured before is compiled, or after some seconds, partial."""
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
    ) -> Pack:
        """What memory has to say, within the budget: what is relevant, or all that fits."""
        options = {
            "maxTokens": max_tokens,
            "sections": sections,
            "minConfidence": min_confidence,
            "includeProvenance": include_provenance,
            "fill": fill,
        }
        return await self._post("/synthesize", Pack, {"query": query, "options": options})

    async def export_fingerprint(
        self, *, tier: Literal["full", "compact", "minimal"] = "compact", agent_id: str | None = None
    ) -> Fingerprint:
        """What the tenant, or one of its agents, has learnt so far."""
        return await self._post("/fingerprints", Fingerprint, {"tier": tier, "agentId": agent_id})

    async def list_artifacts(self, **asked: str | int) -> Artifacts:
        """`type`, `status`, `sort`, `order`, `limit`, `cursor`."""
        return await self._call("GET", f"/artifacts?{urlencode(asked)}", Artifacts)

    async def get_artifact(self, artifact_id: str) -> Artifact:
        return await self._call("GET", f"/artifacts/{quote(artifact_id, safe='')}", Artifact)

    async def _post(self, path: str, answer: type[Answer], body: Mapping[str, Any]) -> Answer:
        return await self._call("POST", path, answer, msgspec.json.encode(body))

    async def _call(self, method: str, path: str, answer: type[Answer], body: bytes | None = None) -> Answer:
        said = await asyncio.to_thread(self._asked, method, path, body)
        return msgspec.json.decode(said, type=answer)

    def _asked(self, method: str, path: str, body: bytes | None) -> bytes:
        """The data of the answer. Raises ClientError."""
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        request = urllib.request.Request(self._url + path, body, headers, method=method)  # noqa: S310  whose address the caller chose
        status = 0
        try:
            try:
                with urllib.request.urlopen(request, timeout=self._timeout) as answer:  # noqa: S310  whose address the caller chose
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
