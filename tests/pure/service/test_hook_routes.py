"""Hooks are answered in time; what goes on after the answer is still counted."""

import asyncio
from types import SimpleNamespace
from typing import Any

import httpx
from fastapi import FastAPI

from hmx_pipeline.service import hook_routes
from hmx_pipeline.service.access import Access
from hmx_pipeline.service.body import Bodies
from hmx_pipeline.service.fair_turns import FairTurns
from hmx_pipeline.service.request_metrics import RequestMetrics


def test_the_body_of_a_late_append_counts_as_held_until_kafka_has_it() -> None:
    app, acknowledged = FastAPI(), asyncio.Event()
    bodies = app.state.bodies = Bodies()
    app.state.access, app.state.parsing = Access("", 0), FairTurns(1, 1)
    app.add_middleware(RequestMetrics)
    app.include_router(hook_routes.router)

    async def take(*_: object) -> list[Any]:
        await acknowledged.wait()
        return [SimpleNamespace(refused=None, duplicate=False)]

    app.state.captures = SimpleNamespace(take=take)
    hook = {"hook_event_name": "SessionEnd", "session_id": "s", "reason": "x" * 5_000}
    headers = {"X-HMX-Tenant": "acme", "X-HMX-Deadline-Ms": "1"}

    async def run() -> list[int]:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            answer = await client.post("/v1/hooks/claude-code", json=hook, headers=headers)
            assert answer.headers[hook_routes.APPENDED] == "pending"
            late = bodies._all
            acknowledged.set()
            await asyncio.gather(*hook_routes._late)
            await asyncio.sleep(0)
            return [late > 5_000, bodies._all]

    assert asyncio.run(asyncio.wait_for(run(), 10)) == [True, 0]
