"""`POST /v1/chat/completions`: passes a request on to one upstream, with memory in it, and appends what was said.

Enters: a request as OpenAI's clients send it, with a key of this service. Leaves: the upstream's answer, its errors and
streams as they are, and events in the log. The address and the key of the upstream come from the settings alone; of the
client's headers none is passed on. Without memory, or without Kafka, the request is answered all the same.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Annotated, Any, Final, TypeVar

import aiohttp
import orjson
from fastapi import APIRouter, Header, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import Response
from pydantic import ValidationError
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from hmx_pipeline.contracts.limits import ID_BYTES, KB, MB
from hmx_pipeline.doors.openai_chat import AGENT, HeardAnswer, WithoutKey, chat_record, opening, question, with_memory
from hmx_pipeline.doors.otel_genai import Sender, map_records
from hmx_pipeline.doors.otlp import Json
from hmx_pipeline.observe.metrics import METRICS
from hmx_pipeline.queries.context_pack import make_pack
from hmx_pipeline.retrieval.pack_request import PackRequest
from hmx_pipeline.service.access import Writer, admitted, bound_to, grant_of, holder_of
from hmx_pipeline.service.api_keys import digest
from hmx_pipeline.service.body import JSON, described, media_type, parsed, read_body
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.memory import store_of, view_of
from hmx_pipeline.service.otel_routes import append_told
from hmx_pipeline.service.problems import RETRY, ProblemError, ProblemKind
from hmx_pipeline.settings import Settings
from hmx_pipeline.store.atomic_blocks import StoreUnavailableError, TamperedError

LOG: Final = logging.getLogger("hmx.service")
T = TypeVar("T")
BODY_BYTES: Final = 8 * MB
ANSWER_BYTES: Final = 16 * MB
LINE_BYTES: Final = 256 * KB
"""Of a stream; a longer line is passed on in parts."""
AT_ONCE, AT_ONCE_EACH = 64, 16
TOKENS: Final = 1_000
"""Budget of memory in a request."""
DONE: Final = b"data: [DONE]"
GONE: Final = 499
"""Status of a request whose client hung up; nobody reads it."""
RECORDING_S: Final = 2.0
"""How long the end of a stream waits until what was said is appended."""
TIMES: Final = aiohttp.ClientTimeout(total=600, connect=10, sock_read=300)
STREAM: Final = "text/event-stream"
KINDS: Final = (JSON, STREAM, "text/plain")
"""Media types that are passed on; others would be read by browsers."""
PASSED: Final = ("Retry-After", "X-Request-Id")
_BODY: Final = described({"type": "object", "required": ["messages"]})
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The upstream's answer", "content": {JSON: {"schema": {"type": "object"}}, STREAM: {}}}
}

router: Final = APIRouter()
_recording: Final[set[asyncio.Task[str]]] = set()


class Upstream:
    """The one server that requests are passed on to."""

    def __init__(self, settings: Settings) -> None:
        self._url, self._key = f"{settings.openai_upstream.rstrip('/')}/chat/completions", settings.openai_key
        self._session: aiohttp.ClientSession | None = None
        self.turns = FairTurns(AT_ONCE, AT_ONCE_EACH)

    @asynccontextmanager
    async def asked(self, body: bytes) -> AsyncIterator[aiohttp.ClientResponse]:
        """Raises ProblemError if it does not answer."""
        if self._session is None:
            self._session = aiohttp.ClientSession(timeout=TIMES, cookie_jar=aiohttp.DummyCookieJar())
        headers = {"Content-Type": JSON, "Accept-Encoding": "identity", "User-Agent": "hmx"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        try:
            async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
                yield answer
        except (aiohttp.ClientError, TimeoutError) as error:
            detail = f"the model's server does not answer: {type(error).__name__}"
            raise ProblemError(ProblemKind.UPSTREAM_UNAVAILABLE, detail, RETRY) from None

    def without_key(self) -> WithoutKey:
        """Returns the filter of what it says: some servers repeat their key."""
        return WithoutKey(self._key.encode())

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()


@router.post("/v1/chat/completions", openapi_extra=_BODY, responses=_ANSWERS)
async def post_chat_completion(
    request: Request, tenant: Writer, session: Annotated[str, Header(alias="X-HMX-Session", max_length=ID_BYTES)] = ""
) -> Response:
    """Passes a chat completion on to the upstream with memory in it, and appends what was said and done."""
    media_type(request, (JSON,))
    body = await read_body(request, BODY_BYTES)
    whose = f"{tenant}\n{bound_to(request) or ''}\n{holder_of(request)}\n"
    asked, named, query = await parsed(request, tenant, body, lambda: _read(body, whose))
    session = session or named
    entries = await _remembered(request, tenant, query, session)
    told = {**asked, "messages": with_memory(asked["messages"], entries)}
    sent = await parsed(request, tenant, body, lambda: orjson.dumps(told))
    upstream: Upstream = request.app.state.upstream
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(upstream.turns.of(tenant))
        try:
            asking = stack.enter_async_context(upstream.asked(sent))
            answer = await _unless_gone(request.receive, asking)
            headers = {name: answer.headers[name] for name in PASSED if name in answer.headers}
            kind = answer.content_type if answer.content_type in KINDS else "application/octet-stream"
            if kind == STREAM and answer.status == 200:
                return _Stream(request, tenant, asked, session, answer, headers, stack.pop_all())
            said = await _unless_gone(request.receive, _whole(answer))
        except ClientDisconnect:
            return Response(status_code=GONE)
        heard = HeardAnswer()
        if answer.status == 200:
            await run_in_threadpool(heard.whole, said)
        appended = await _recorded(request, tenant, asked, heard, session)
        headers["X-HMX-Appended"] = appended
        return Response(upstream.without_key().piece(said, last=True), answer.status, headers, kind)


class _Stream(Response):
    """Passes a stream on line by line, as long as the client listens; then what was heard of it is appended."""

    def __init__(
        self, request: Request, tenant: str, asked: Json, session: str,
        answer: aiohttp.ClientResponse, headers: dict[str, str], stack: AsyncExitStack,
    ) -> None:  # fmt: skip
        super().__init__(None, answer.status, headers, STREAM)
        del self.headers["content-length"]
        self._request, self._answer, self._stack = request, answer, stack
        self._told = tenant, asked, HeardAnswer(), session
        self._recording: asyncio.Task[str] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._stack:
            try:
                with suppress(ClientDisconnect):
                    await _unless_gone(receive, self._passed_on(send))
            finally:
                self._record()

    async def _passed_on(self, send: Send) -> None:
        upstream: Upstream = self._request.app.state.upstream
        heard, rest, shown = self._told[2], bytearray(), upstream.without_key()
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        try:
            async for chunk in self._answer.content.iter_any():
                rest += chunk
                if b"\n" not in chunk and len(rest) <= LINE_BYTES:
                    continue
                lines, end, rest = rest.rpartition(b"\n")
                if len(rest) > LINE_BYTES:
                    lines, end, rest = lines + end + rest, bytearray(), bytearray()
                for line in bytes(lines).split(b"\n"):
                    heard.line(line)
                if DONE in lines:  # the client's next request is to find what this one told
                    await asyncio.wait({self._record()}, timeout=RECORDING_S)
                said = shown.piece(bytes(lines + end))
                await send({"type": "http.response.body", "body": said, "more_body": True})
        except (aiohttp.ClientError, TimeoutError) as error:  # the client sees that the end is missing
            LOG.warning("the model's server broke off a stream: %s", type(error).__name__)
            return
        await send({"type": "http.response.body", "body": shown.piece(bytes(rest), last=True), "more_body": False})

    def _record(self) -> "asyncio.Task[str]":
        """Appends what was heard so far, once; it goes on when the client hangs up."""
        if self._recording is None:
            self._recording = task = asyncio.create_task(_recorded(self._request, *self._told))
            _recording.add(task)
            task.add_done_callback(_recording.discard)
        return self._recording


async def _unless_gone(receive: Receive, work: Coroutine[Any, Any, T]) -> T:
    """Raises ClientDisconnect if the client hangs up before the work is done, or reads too slowly to end in time: what
    nobody reads keeps no turn."""
    doing, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
    try:
        await asyncio.wait((doing, gone), timeout=TIMES.total, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise ClientDisconnect
        return doing.result()
    finally:
        doing.cancel()
        gone.cancel()
        await asyncio.gather(doing, gone, return_exceptions=True)


async def _whole(answer: aiohttp.ClientResponse) -> bytes:
    """Raises ProblemError for more than ANSWER_BYTES."""
    said = bytearray()
    async for chunk in answer.content.iter_any():
        said += chunk
        if len(said) > ANSWER_BYTES:
            detail = f"the model's server says more than {ANSWER_BYTES} bytes"
            raise ProblemError(ProblemKind.UPSTREAM_UNAVAILABLE, detail)
    return bytes(said)


def _read(body: bytes, whose: str) -> tuple[Json, str, str]:
    """Returns the request, the session that its opening names, and what the user said last. Raises ProblemError for
    what could not be passed on with memory in it."""
    try:
        asked = orjson.loads(body)
        orjson.dumps(asked)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        raise ProblemError(ProblemKind.INVALID_REQUEST, "the body is no JSON, or too deep", path="$") from None
    match asked:
        case {"messages": [_, *_] as messages} if all(isinstance(one, dict) for one in messages):
            return asked, f"chat-{digest(whose + opening(asked))[:24]}", question(asked)
    raise ProblemError(ProblemKind.INVALID_REQUEST, "send `messages`, a list of objects", path="$.messages")


async def _remembered(request: Request, tenant: str, query: str, session: str) -> list[str]:
    """Returns what memory knows; nothing if the key may not read, or memory cannot be read now."""
    if not query or not admitted(request, tenant):
        return []
    turns: FairTurns = request.app.state.packs
    try:
        in_memory = await turns.run(tenant, view_of(request, tenant).session, session)
        wanted = PackRequest(
            query=query, tenant_id=tenant, token_budget=TOKENS, session_id=in_memory, subject_id=bound_to(request)
        )
        pack = await turns.run(tenant, make_pack, store_of(request), wanted)
    except (ProblemError, StoreUnavailableError, TamperedError, ValidationError):
        return []
    METRICS.pack_tokens.observe(pack.token_budget.used)
    return [entry.content for entry in pack.entries]


async def _recorded(request: Request, tenant: str, asked: Json, heard: HeardAnswer, session: str) -> str:
    """Appends what the request told and its answer said. Returns what became of it. Of a request that failed nothing is
    told: it comes again."""
    if not (message := heard.message):
        return "none"
    grant = grant_of(request)

    def told() -> Any:
        record = chat_record(asked, message, session, time.time_ns())
        events = map_records([record], Sender(tenant, grant.agent or "", grant.subject or "")).events
        for one in events:
            one.event["source"] = AGENT
        return events

    turns: FairTurns = request.app.state.parsing
    try:
        events = await turns.run(tenant, told)
        refused = await append_told(request, tenant, events, [orjson.dumps(one.event) for one in events])
    except ProblemError as error:
        LOG.warning("what a chat completion told is lost: %s", error.detail)
        return "failed"
    return "rejected" if refused else "yes"
