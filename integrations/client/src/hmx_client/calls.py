"""The service's calls as values, and what an answer to one means. No I/O."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import httpx

from hmx_client.models import Appended, Json, Pack, Page

T = TypeVar("T")
Answer = httpx.Response | httpx.RequestError
LONGEST_S = 10.0
"""Longest pause before a call is repeated."""
_AGAIN = frozenset({429, 503})


class HmxError(Exception):
    """`reason` is stable across releases: a problem of docs/reference/routes.md, why no event was accepted, or
    `no_answer`. `raw` has all that the service said."""

    def __init__(self, reason: str, detail: str, status: int = 0, raw: Json | None = None) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.status = status
        self.raw = raw or {}


@dataclass(frozen=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[Json], T]
    body: object = None
    asked: Mapping[str, str | int] | None = None


def _itself(said: Json) -> Json:
    return said


def _in_path(name: str) -> str:
    return quote(name, safe="")


def append(events: Sequence[Json], tenant: str) -> Call[Appended]:
    named = [{"tenant_id": tenant, **event} if tenant else event for event in events]
    return Call("POST", "/v1/hmx/events", Appended.of, named)


def capture(batch: bytes) -> Call[int]:
    return Call("POST", "/v1/capture/batch", lambda said: int(said.get("data", said)["summary"]["errors"]), batch)


def pack(query: str, asked: Mapping[str, Any]) -> Call[Pack]:
    given = {name: value for name, value in asked.items() if value is not None}
    return Call("POST", "/v1/hmx/context-packs", Pack.of, {"query": query, "as_text": True, **given})


def page(kind: str, cursor: str | None, asked: Mapping[str, Any]) -> Call[Page]:
    given = {name: value for name, value in {**asked, "cursor": cursor}.items() if value is not None}
    records = "records" if kind == "knowledge" else kind
    return Call("GET", f"/v1/hmx/{kind}", lambda said: Page(said[records], said.get("cursor")), asked=given)


def record(kind: str, name: str) -> Call[Json]:
    return Call("GET", f"/v1/hmx/{kind}/{_in_path(name)}", _itself)


def rule(verb: str, name: str, said: Mapping[str, str]) -> Call[Json]:
    return Call("POST", f"/v1/hmx/knowledge/{_in_path(name)}/{verb}", _itself, dict(said))


def erase(scope: Mapping[str, str | bool]) -> Call[Json]:
    return Call("POST", "/v1/hmx/erasures", _itself, dict(scope))


def body(call: Call[T]) -> dict[str, Any]:
    """Returns what httpx is given of a call; a body that is written already is sent as it is."""
    if isinstance(call.body, bytes):
        return {"content": call.body, "headers": {"Content-Type": "application/json"}, "params": call.asked}
    return {"json": call.body, "params": call.asked}


def pause_s(answer: Answer, tried: int) -> float | None:
    """Returns how long to wait before the call is repeated; None if that would not help."""
    after = ""
    if isinstance(answer, httpx.Response):
        if answer.status_code not in _AGAIN:
            return None
        after = answer.headers.get("Retry-After", "")
    return min(LONGEST_S, float(after) if after.isdigit() else 0.25 * 2**tried)


def result(call: Call[T], answer: Answer) -> T:
    """Raises HmxError."""
    if not isinstance(answer, httpx.Response):
        raise HmxError("no_answer", f"{answer.request.url} does not answer: {answer}") from answer
    try:
        said = answer.json()
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise HmxError("no_answer", "not JSON: is this the memory service?", answer.status_code)
    if answer.is_error:
        raise HmxError(said.get("reason", "unknown"), said.get("detail", ""), answer.status_code, said)
    try:
        return call.read(said)
    except (KeyError, TypeError, ValueError) as error:
        detail = "not what the memory service says: is something else at this address?"
        raise HmxError("no_answer", detail, answer.status_code, said) from error
