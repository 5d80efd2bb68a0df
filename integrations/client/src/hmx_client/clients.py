"""The two clients. A call is repeated where the service says so (429, 503) or is not reached: all calls may be."""

import asyncio
import os
import time
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from hmx_client import calls
from hmx_client.calls import Answer, Call
from hmx_client.models import Appended, Json, Pack, Page

T = TypeVar("T")
URL = "http://127.0.0.1:8080"


class _Settings(ABC):
    def __init__(
        self, url: str = URL, *, key: str = "", tenant: str = "", timeout_s: float = 30.0, tries: int = 3
    ) -> None:
        """`key` is from `hmx keys new`; `tenant` names one where the service has no keys, and in events."""
        headers = {"Authorization": f"Bearer {key}"} if key else {"X-HMX-Tenant": tenant} if tenant else {}
        self._tenant = tenant
        self._tries = tries
        self._options: dict[str, Any] = {"base_url": url, "headers": headers, "timeout": timeout_s}
        self._open()

    @abstractmethod
    def _open(self) -> None:
        """Makes the HTTP client of these options."""


class Client(_Settings):
    """May be used in a process that was forked: there it opens connections of its own."""

    def _open(self) -> None:
        self._http = httpx.Client(**self._options)
        self._process = os.getpid()  # last: another thread that sees it uses what was opened

    def append(self, *events: Json) -> Appended:
        """Appends events. Rejected ones are in the answer, each with its reason; if all are, HmxError is raised."""
        return self._done(calls.append(events, self._tenant))

    def capture(self, batch: bytes) -> int:
        """Sends `{"events": […]}` of captures, which the service puts in order. Returns how many it refused."""
        return self._done(calls.capture(batch))

    def pack(self, query: str, **asked: Any) -> Pack:
        """Asks for the context of a question. `asked`: subject_id, session_id, token_budget, after, …"""
        return self._done(calls.pack(query, asked))

    def artifacts(self, *, cursor: str | None = None, **asked: Any) -> Page:
        return self._done(calls.page("artifacts", cursor, asked))

    def artifact(self, artifact_id: str) -> Json:
        return self._done(calls.record("artifacts", artifact_id))

    def knowledge(self, *, cursor: str | None = None, **asked: Any) -> Page:
        return self._done(calls.page("knowledge", cursor, asked))

    def record(self, record_id: str) -> Json:
        return self._done(calls.record("knowledge", record_id))

    def confirm(self, record_id: str, **said: str) -> Json:
        return self._done(calls.rule("confirm", record_id, said))

    def correct(self, record_id: str, **said: str) -> Json:
        """`said`: text or value, and reason."""
        return self._done(calls.rule("correct", record_id, said))

    def retract(self, record_id: str, **said: str) -> Json:
        return self._done(calls.rule("retract", record_id, said))

    def erase(self, **scope: str | bool) -> Json:
        """`scope`: exactly one of subject, session and all. Returns the receipt."""
        return self._done(calls.erase(scope))

    def close(self) -> None:
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def _done(self, call: Call[T]) -> T:
        if self._process != os.getpid():
            self._open()
        tried = 1
        while True:
            answer: Answer
            try:
                answer = self._http.request(call.method, call.path, **calls.body(call))
            except httpx.RequestError as error:
                answer = error
            pause = calls.pause_s(answer, tried) if tried < self._tries else None
            if pause is None:
                return calls.result(call, answer)
            time.sleep(pause)
            tried += 1


class AsyncClient(_Settings):
    def _open(self) -> None:
        self._http = httpx.AsyncClient(**self._options)

    async def append(self, *events: Json) -> Appended:
        return await self._done(calls.append(events, self._tenant))

    async def capture(self, batch: bytes) -> int:
        return await self._done(calls.capture(batch))

    async def pack(self, query: str, **asked: Any) -> Pack:
        return await self._done(calls.pack(query, asked))

    async def artifacts(self, *, cursor: str | None = None, **asked: Any) -> Page:
        return await self._done(calls.page("artifacts", cursor, asked))

    async def artifact(self, artifact_id: str) -> Json:
        return await self._done(calls.record("artifacts", artifact_id))

    async def knowledge(self, *, cursor: str | None = None, **asked: Any) -> Page:
        return await self._done(calls.page("knowledge", cursor, asked))

    async def record(self, record_id: str) -> Json:
        return await self._done(calls.record("knowledge", record_id))

    async def confirm(self, record_id: str, **said: str) -> Json:
        return await self._done(calls.rule("confirm", record_id, said))

    async def correct(self, record_id: str, **said: str) -> Json:
        return await self._done(calls.rule("correct", record_id, said))

    async def retract(self, record_id: str, **said: str) -> Json:
        return await self._done(calls.rule("retract", record_id, said))

    async def erase(self, **scope: str | bool) -> Json:
        return await self._done(calls.erase(scope))

    async def close(self) -> None:
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def _done(self, call: Call[T]) -> T:
        tried = 1
        while True:
            answer: Answer
            try:
                answer = await self._http.request(call.method, call.path, **calls.body(call))
            except httpx.RequestError as error:
                answer = error
            pause = calls.pause_s(answer, tried) if tried < self._tries else None
            if pause is None:
                return calls.result(call, answer)
            await asyncio.sleep(pause)
            tried += 1
