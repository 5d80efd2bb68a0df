"""Who calls `/mcp` at the same time."""

import asyncio
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import pytest
from fastapi import FastAPI

from hmx_pipeline.service import mcp_route
from hmx_pipeline.service.access import Access
from hmx_pipeline.service.body import Bodies
from hmx_pipeline.service.fair_turns import FairTurns


def test_a_tenant_with_many_slow_calls_leaves_room_for_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    app, over = FastAPI(), asyncio.Event()
    app.state.access, app.state.bodies = Access("", 0), Bodies()
    app.state.mcp = FairTurns(mcp_route.AT_ONCE, mcp_route.AT_ONCE_EACH)
    app.include_router(mcp_route.router)

    async def answer(_service: object, limiter: Any, scope: Any, _receive: object, send: Any) -> None:
        async with limiter:
            if (b"x-hmx-tenant", b"loud") in scope["headers"]:
                await over.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answered"})

    monkeypatch.setattr(mcp_route, "_mcp", lambda: SimpleNamespace(Service=lambda *_: None, answer=answer))

    async def run() -> str:
        app.state.mcp_limiter = anyio.CapacityLimiter(mcp_route.AT_ONCE)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:

            def ask(tenant: str) -> Any:
                return asyncio.ensure_future(client.post("/mcp", json={}, headers={"X-HMX-Tenant": tenant}))

            loud = [ask("loud") for _ in range(2 * mcp_route.AT_ONCE)]
            await asyncio.sleep(0.2)
            quiet = await asyncio.wait_for(ask("quiet"), 2)
            over.set()
            assert {one.text for one in await asyncio.gather(*loud)} == {"answered"}
            return str(quiet.text)

    assert asyncio.run(run()) == "answered"
